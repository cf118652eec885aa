"""What a server tells of itself: metrics that Prometheus can read, a log of JSON lines, no reader's data."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.sync.client import ClientConnection, connect

from attention_ui import log, metrics, observing
from attention_ui.metrics import Count, Times
from attention_ui.observing import Session, kind_of, may_read
from tests.cluster import free_port

ROOT = Path(__file__).parent.parent
SECRET = "what-a-reader-typed"
FAULTY = """
import streamlit as st
from attention_ui import serving
if __name__ == "__main__" and st.runtime.exists():
    word = st.query_params.get("word", "")
    st.text("drawn")
    if word:
        raise ValueError(word)
else:
    app = st.App(__file__, lifespan=serving.lifespan, routes=serving.routes(),
                 middleware=serving.middleware(), on_script_error=serving.say_sorry)
"""


def families(text: str) -> dict[str, Any]:
    """What Prometheus' own reader makes of a text."""
    return {family.name: family for family in text_string_to_metric_families(text)}


def value(text: str, name: str, **labels: str) -> float:
    """One number of a text, by its name and labels."""
    samples = [sample for family in families(text).values() for sample in family.samples]
    return next(s.value for s in samples if s.name == name and s.labels == labels)


def ask(host: str, path: str, **headers: str) -> tuple[int, str]:
    """The status and the text of an answer."""
    connection = HTTPConnection(host, timeout=20)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


# ---------------------------------------------------------------- counting


def test_prometheus_reads_every_metric_with_its_type_and_help() -> None:
    found = families(metrics.text())
    assert {counted.name.removesuffix("_total") for counted in metrics.APP} <= set(found)
    assert all(
        family.documentation and family.type in ("counter", "gauge", "histogram") for family in found.values()
    )


def test_a_time_stands_in_every_class_that_it_fits() -> None:
    times = Times("t_seconds", "Times", "kind", ("a", "b"))
    for seconds in (0.005, 0.006, 3.0, 99.0):
        times.add(seconds, "a")
    text = "\n".join(["# TYPE t_seconds histogram", *times.lines()])
    samples = families(f"{text}\n")["t_seconds"].samples
    buckets = [s for s in samples if s.name.endswith("bucket") and s.labels["kind"] == "a"]
    of_a = {float(s.labels["le"]): s.value for s in buckets}
    assert [of_a[edge] for edge in (0.005, 0.01, 2.5, 5, 10, float("inf"))] == [
        1, 2, 2, 3, 3, 4,
    ]  # fmt: skip
    assert times.count("a") == 4 and times.count("b") == 0
    assert next(s.value for s in samples if s.name.endswith("sum")) == pytest.approx(102.011)


def test_a_large_count_keeps_its_digits() -> None:
    count = Count("c_total", "Counts")
    count.add(by=123_456_789)
    assert list(count.lines()) == ["c_total 123456789"]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells memory and descriptors in /proc")
def test_memory_descriptors_and_processor_time_are_those_of_this_process() -> None:
    psutil = pytest.importorskip("psutil")
    text, process = metrics.text(), psutil.Process()
    assert value(text, "process_resident_memory_bytes") == pytest.approx(process.memory_info().rss, rel=0.05)
    assert abs(value(text, "process_open_fds") - process.num_fds()) <= 1
    assert value(text, "process_cpu_seconds_total") == pytest.approx(sum(process.cpu_times()[:2]), abs=0.5)


# ---------------------------------------------------------------- what a run is, and how long it took


def rerun(fragment: str = "", trigger: bool = False) -> bytes:
    message = BackMsg()
    message.rerun_script.fragment_id = fragment
    state = message.rerun_script.widget_states.widgets.add(id="board")
    if trigger:
        state.json_trigger_value = "{}"
    else:
        state.json_value = "{}"
    return message.SerializeToString()


def told(**fields: Any) -> bytes:
    message = ForwardMsg(**fields)
    return message.SerializeToString()


def begins() -> bytes:
    message = ForwardMsg()
    message.new_session.name = "run"
    return message.SerializeToString()


def test_a_browser_asks_for_a_page_an_edit_or_what_follows_it() -> None:
    heartbeat = BackMsg()
    heartbeat.clear_cache = True
    assert kind_of(rerun()) == "page"
    assert kind_of(rerun("board")) == "edit"
    assert kind_of(rerun("board", trigger=True)) == "after"
    assert kind_of(heartbeat.SerializeToString()) == ""
    assert kind_of(b"\xff\xff no message at all") == ""
    assert kind_of(rerun() + b"\0" * observing.LONGEST) == ""


def test_the_time_of_a_run_counts_from_the_first_change_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(observing.time, "perf_counter", lambda: now[0])
    noted: list[tuple[float, str]] = []
    monkeypatch.setattr(metrics.RUNS, "add", lambda seconds, kind: noted.append((seconds, kind)))
    session = Session()

    def at(moment: float, step: Any, *data: bytes) -> None:
        now[0] = moment
        step(*data)

    at(1.0, session.asked, rerun("board"))
    at(2.0, session.asked, rerun("board"))  # comes before the run begins: one run answers both
    at(3.0, session.told, begins())
    at(4.0, session.asked, rerun())  # comes while the run is on: the next one answers it
    at(5.0, session.told, told(script_finished=ForwardMsg.FINISHED_FRAGMENT_RUN_SUCCESSFULLY))
    at(6.0, session.told, begins())
    at(6.5, session.told, told(script_finished=ForwardMsg.FINISHED_EARLY_FOR_RERUN))
    at(7.0, session.told, begins())
    at(8.0, session.told, told(script_finished=ForwardMsg.FINISHED_SUCCESSFULLY))
    at(9.0, session.told, told(script_finished=ForwardMsg.FINISHED_SUCCESSFULLY))  # nobody asked
    assert noted == [(4.0, "edit"), (4.0, "page")]


# ---------------------------------------------------------------- who may read


@pytest.mark.parametrize(
    ("setting", "address", "headers", "let_in"),
    [
        (None, "127.0.0.1", {}, True),
        (None, "::1", {}, True),
        (None, "10.1.2.3", {}, True),
        (None, "::ffff:192.168.0.7", {}, True),
        (None, "::ffff:93.184.216.34", {}, False),
        (None, "93.184.216.34", {}, False),
        (None, "0.0.0.0", {}, False),
        (None, "no address", {}, False),
        (None, "127.0.0.1", {"x-forwarded-for": "10.0.0.1"}, False),
        (None, "127.0.0.1", {"via": "1.1 proxy"}, False),
        ("loopback", "10.1.2.3", {}, False),
        ("loopback", "127.0.0.1", {}, True),
        ("off", "127.0.0.1", {}, False),
        ("100.64.0.0/10, fd00::/8", "100.65.1.1", {}, True),
        ("100.64.0.0/10, fd00::/8", "127.0.0.1", {}, False),
    ],
)
def test_metrics_are_for_those_that_the_setting_names_and_for_nobody_behind_a_proxy(
    monkeypatch: pytest.MonkeyPatch, setting: str | None, address: str, headers: dict[str, str], let_in: bool
) -> None:
    if setting is None:
        monkeypatch.delenv(observing.SETTING, raising=False)
    else:
        monkeypatch.setenv(observing.SETTING, setting)
    observing.who_may_read.cache_clear()
    scope = {"client": (address, 1), "headers": [(k.encode(), v.encode()) for k, v in headers.items()]}
    assert may_read({"type": "http", **scope}) is let_in
    observing.who_may_read.cache_clear()


def test_a_setting_that_makes_no_sense_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(observing.SETTING, "everyone")
    observing.who_may_read.cache_clear()
    with pytest.raises(
        ValueError, match="ATTENTION_METRICS is 'everyone'; it must be private, loopback, off"
    ):
        observing.who_may_read()
    observing.who_may_read.cache_clear()


# ---------------------------------------------------------------- the log


def test_the_message_of_an_error_stays_out_of_the_log() -> None:
    try:
        raise ValueError(SECRET)
    except ValueError as error:
        record = logging.LogRecord(
            "streamlit.x",
            logging.ERROR,
            __file__,
            1,
            "failed for %s",
            (SECRET,),
            (type(error), error, error.__traceback__),
        )
    line = json.loads(log.JsonLines().format(record))
    assert SECRET not in json.dumps(line)
    assert line["event"] == "failed for %s"
    assert line["error"] == "ValueError"
    assert line["at"][-1].startswith("tests/test_metrics.py:")


# ---------------------------------------------------------------- a real server


class Faulty:
    """A server of a page that fails where its link says so."""

    def __init__(self, folder: Path, port: int, **settings: str) -> None:
        (folder / "faulty.py").write_text(FAULTY, encoding="utf-8")
        self.host, self.out = f"127.0.0.1:{port}", folder / "out"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "uvicorn", "faulty:app", "--app-dir", str(folder), "--port", str(port)],
            env={**os.environ, "PYTHONPATH": str(ROOT), **settings},
            cwd=folder,
            stdout=self.out.open("wb"),
            stderr=(folder / "err").open("wb"),
        )
        for _ in range(300):
            try:
                ask(self.host, "/_stcore/health")
                return
            except OSError:
                assert self.process.poll() is None, (folder / "err").read_text()
                time.sleep(0.1)
        raise TimeoutError("the server did not come up")

    def tab(self) -> ClientConnection:
        return connect(f"ws://{self.host}/_stcore/stream", subprotocols=["streamlit"], max_size=None)  # type: ignore[list-item]

    def stop(self) -> list[dict[str, Any]]:
        """End it; every line of its log."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait(20)
        return [json.loads(line) for line in self.out.read_text(encoding="utf-8").splitlines()]


def run_once(tab: ClientConnection, query: str = "") -> str:
    """Run the page; everything that came back, as text."""
    message = BackMsg()
    message.rerun_script.query_string = query
    tab.send(message.SerializeToString())
    came = ""
    while True:
        answer = ForwardMsg.FromString(tab.recv(30))  # type: ignore[arg-type]
        came += str(answer)
        if answer.WhichOneof("type") == "script_finished":
            return came


@pytest.fixture
def faulty(tmp_path: Path) -> Iterator[Faulty]:
    server = Faulty(tmp_path, free_port())
    yield server
    if server.process.poll() is None:
        server.process.kill()


@pytest.mark.server
def test_what_happens_on_a_server_is_counted_and_logged_without_what_was_typed(faulty: Faulty) -> None:
    assert ask(faulty.host, "/ready") == (200, '{"ready":true}')
    with faulty.tab() as tab, faulty.tab():
        run_once(tab)
        assert "Your numbers are safe" in run_once(tab, f"word={SECRET}")
        status, text = ask(faulty.host, "/metrics")
    assert status == 200
    assert value(text, "attention_sessions_open") == 2
    assert value(text, "attention_sessions_total") == 2
    assert value(text, "attention_run_seconds_count", kind="page") == 2
    assert value(text, "attention_run_seconds_count", kind="edit") == 0
    assert 0 < value(text, "attention_run_seconds_sum", kind="page") < 20
    assert value(text, "attention_errors_total", kind="page") == 1
    for _ in range(50):
        text = ask(faulty.host, "/metrics")[1]
        if value(text, "attention_sessions_open") == 0 and value(text, "attention_loop_late_seconds_count"):
            break
        time.sleep(0.1)
    assert value(text, "attention_sessions_open") == 0
    assert value(text, "attention_loop_late_seconds_count") >= 1
    lines = faulty.stop()
    assert [line["event"] for line in lines] == ["start", "Uncaught app execution", "stop"]
    assert lines[1]["error"] == "ValueError" and lines[1]["at"][-1].endswith("faulty.py:8 <module>")
    assert lines[2]["runs"] == {"page": 2, "edit": 0, "after": 0}
    assert lines[2]["errors"] == {"page": 1, "request": 0}
    everything = text + json.dumps(lines) + (faulty.out.parent / "err").read_text()
    assert SECRET not in everything and "127.0.0.1" not in text + json.dumps(lines)


@pytest.mark.server
def test_neither_our_metrics_nor_streamlits_are_shown_to_who_comes_through_a_proxy(faulty: Faulty) -> None:
    for path in ("/metrics", "/_stcore/metrics"):
        assert ask(faulty.host, path)[0] == 200
        assert ask(faulty.host, path, **{"X-Forwarded-For": "10.0.0.1"})[0] == 404


@pytest.mark.server
def test_metrics_can_be_switched_off(tmp_path: Path) -> None:
    server = Faulty(tmp_path, free_port(), ATTENTION_METRICS="off")
    try:
        assert [ask(server.host, path)[0] for path in ("/metrics", "/_stcore/metrics", "/ready")] == [
            404,
            404,
            200,
        ]
    finally:
        server.stop()


def test_a_server_that_has_not_started_is_not_ready() -> None:
    answer = observing.ready()
    assert (answer.status_code, answer.body) == (503, b'{"ready":false}')
