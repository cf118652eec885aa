"""The log of a server: one line of JSON for every start, stop and error, on standard output.

No reader's data goes into it. A message of an error may quote what somebody typed, so of an error its type
and the places in the code are written, and of what Streamlit or uvicorn say only the fixed part: `origin=%s`.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from pathlib import Path

from streamlit import config
from streamlit import logger as streamlit_logger

ROOT = Path(__file__).parent.parent
OTHERS = ("", "streamlit", "uvicorn")
ours = logging.getLogger("attention")


class JsonLines(logging.Formatter):
    """A record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Time, level, the event, and what is known about it."""
        facts: dict[str, object] = getattr(record, "facts", {})
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": str(record.msg),
            **facts,
        }
        if record.name != ours.name:
            line["from"] = record.name
        if record.exc_info and record.exc_info[1]:
            line |= described(record.exc_info[1])
        return json.dumps(line, ensure_ascii=False)


def described(error: BaseException) -> dict[str, object]:
    """The type of an error and where in the code it came up, outermost first; never its message."""
    return {
        "error": type(error).__name__,
        "at": [place(frame) for frame in traceback.extract_tb(error.__traceback__)],
    }


def place(frame: traceback.FrameSummary) -> str:
    """`attention_core/sheet.py:91 run`; a file outside the project by its last two names."""
    path = Path(frame.filename)
    short = path.relative_to(ROOT) if path.is_relative_to(ROOT) else Path(*path.parts[-2:])
    return f"{short.as_posix()}:{frame.lineno} {frame.name}"


def say(event: str, **facts: object) -> None:
    """Write one line."""
    ours.info(event, extra={"facts": facts})


def as_json_lines() -> None:
    """From here on, this process writes its log as JSON lines and nothing about single requests.

    Streamlit gives each of its loggers a handler of its own, uvicorn's included, and loggers that are asked
    for later as well: `setup_formatter` is what does so.
    """
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(JsonLines())

    def take_over(logger: logging.Logger) -> None:
        logger.handlers, logger.propagate = [handler], False

    config.set_option("logger.enableRich", False)  # else rich, where it is, draws errors, message and all
    streamlit_logger.setup_formatter = take_over
    for name in [*OTHERS, *streamlit_logger._loggers, ours.name]:
        take_over(logging.getLogger(name))
    ours.setLevel(logging.INFO)
    # at INFO, uvicorn writes the address of everyone who connects, and requests with what is in their links
    for name in ("uvicorn", "uvicorn.error", "websockets"):
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.getLogger("uvicorn.access").handlers = []
