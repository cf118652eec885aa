"""What is counted while the app serves, and how Prometheus is told.

Only counts and times: no address, no link, no number or word of a reader. The text follows the Prometheus
exposition format 0.0.4, the names Prometheus' own rules (base units, `_total` for what only grows).
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper edges of the classes into which times are sorted; a last class has no upper edge."""

_lock = threading.Lock()  # pages run in threads of their own


class Count:
    """A number for each value of one label; `kinds` are all the values that it can take."""

    form = "counter"

    def __init__(self, name: str, told: str, label: str = "", kinds: Sequence[str] = ("",)) -> None:
        self.name, self.told, self.label = name, told, label
        self.numbers: dict[str, float] = dict.fromkeys(kinds, 0)

    def add(self, kind: str = "", by: float = 1) -> None:
        """Count one more, or `by` more."""
        with _lock:
            self.numbers[kind] += by

    def lines(self) -> Iterator[str]:
        """One line for each kind."""
        for kind, number in self.numbers.items():
            yield f"{self.name}{_labels({self.label: kind} if self.label else {})} {number}"


class Level(Count):
    """A number that rises and falls."""

    form = "gauge"


class Times:
    """How often something took how long, by kind: a histogram."""

    form = "histogram"

    def __init__(self, name: str, told: str, label: str = "", kinds: Sequence[str] = ("",)) -> None:
        self.name, self.told, self.label = name, told, label
        self.classes = {kind: [0] * (len(SECONDS) + 1) for kind in kinds}
        self.sums = dict.fromkeys(kinds, 0.0)

    def add(self, seconds: float, kind: str = "") -> None:
        """Sort one time into its class."""
        place = sum(seconds > edge for edge in SECONDS)
        with _lock:
            self.classes[kind][place] += 1
            self.sums[kind] += seconds

    def count(self, kind: str = "") -> int:
        """How many times were sorted in."""
        return sum(self.classes[kind])

    def lines(self) -> Iterator[str]:
        """For each kind: how many were at most as long as each edge, their sum, and how many there are."""
        for kind, classes in self.classes.items():
            labels = {self.label: kind} if self.label else {}
            for place, edge in enumerate([*(f"{edge:g}" for edge in SECONDS), "+Inf"]):
                yield f"{self.name}_bucket{_labels({**labels, 'le': edge})} {sum(classes[: place + 1])}"
            yield f"{self.name}_sum{_labels(labels)} {self.sums[kind]:.6f}"
            yield f"{self.name}_count{_labels(labels)} {sum(classes)}"


def _labels(labels: dict[str, str]) -> str:
    return "{" + ",".join(f'{name}="{value}"' for name, value in labels.items()) + "}" if labels else ""


OPEN = Level("attention_sessions_open", "Tabs that are connected now")
SESSIONS = Count("attention_sessions_total", "Tabs that have connected, those that came back included")
RUNS = Times(
    "attention_run_seconds",
    "From a reader's change to the finished run: a whole page, an edit of the board, what follows an edit",
    "kind",
    ("page", "edit", "after"),
)
ERRORS = Count(
    "attention_errors_total",
    "Errors that a reader met: in a page, or in answering a request",
    "kind",
    ("page", "request"),
)
REFUSED = Count("attention_connections_refused_total", "Websockets from pages of other sites, refused")
LATE = Times("attention_loop_late_seconds", "How late a clock of the server struck that strikes every second")
APP: tuple[Count | Times, ...] = (OPEN, SESSIONS, RUNS, ERRORS, REFUSED, LATE)


def text() -> str:
    """Everything counted so far, and what this process takes of the machine."""
    return "\n".join(line for counted in (*APP, *process()) for line in _described(counted)) + "\n"


def _described(counted: Count | Times) -> Iterator[str]:
    yield f"# HELP {counted.name} {counted.told}."
    yield f"# TYPE {counted.name} {counted.form}"
    with _lock:
        yield from list(counted.lines())


STARTED = time.time()


def process() -> Iterator[Count]:
    """Processor time, memory and descriptors of this process; what the system does not tell is left out."""
    yield _now(Count, "process_cpu_seconds_total", "Processor time, user and system", time.process_time())
    yield _now(Level, "process_start_time_seconds", "When this process began, since 1970", round(STARTED, 2))
    with suppress(OSError):  # Linux tells it here
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        resident = pages * os.sysconf("SC_PAGE_SIZE")
        yield _now(Level, "process_resident_memory_bytes", "Memory in use", resident)
    with suppress(OSError):
        yield _now(Level, "process_open_fds", "Open descriptors", len(os.listdir("/proc/self/fd")))
    if sys.platform != "win32":
        import resource

        most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        yield _now(Level, "process_max_fds", "Descriptors that may be open at most", most)


def _now(form: type[Count], name: str, told: str, number: float) -> Count:
    found = form(name, told)
    found.numbers[""] = number
    return found
