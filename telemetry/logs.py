"""Log lines of a process: one line for one event, as JSON for programs or as text for people.

What this product logs is written for the log: codes, ids, types of faults. What its libraries log was
written for somebody who may see everything: whole requests, exceptions with their texts, reprs. So
of a library a line says where it comes from, and the constant part of its words where that can be
told apart. No line holds the text of an exception, and no line can begin another.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal, TextIO

from contract.about import about
from contract.tracing import is_plain

Form = Literal["text", "json"]

OWN: Final = frozenset(
    {
        *("cache", "contract", "control_plane", "dataset_agent", "delegation", "evidence", "grants"),
        *("approvals", "metrics", "queries", "quota", "remote_agent", "root_agent", "telemetry"),
    }
)
"""The packages whose words are written for the log."""
_CONSTANT: Final = frozenset({"uvicorn.error"})
"""Loggers whose messages are constants, or constants with arguments that are left out."""
_FRAMES: Final = 12
MAX_CHARACTERS: Final = 2_000
"""Of one message."""


def open_logs(level: str, form: Form) -> None:
    """Log to standard error, as a process does that is nobody's guest; called again, in another form.

    Where whoever runs this has set up logging already, that stands.
    """
    root, handler = logging.getLogger(), _own_handler()
    if handler is None:
        if root.handlers:
            return
        handler = Lines()
        root.addHandler(handler)
        logging.captureWarnings(True)  # pydantic quotes the value that it warns about
        threading.excepthook = _of_a_thread
        sys.unraisablehook = _of_nobody
    handler.setFormatter(formatter(form))
    set_levels(level)


def set_levels(level: str) -> None:
    """This product logs from ``level`` on, libraries from warnings on, whatever it is."""
    logging.getLogger().setLevel(max(logging.WARNING, logging.getLevelNamesMapping()[level]))
    for name in OWN:
        logging.getLogger(name).setLevel(level)


def formatter(form: Form) -> logging.Formatter:
    return JsonLines() if form == "json" else TextLines()


def told_as_json(level: str, message: object) -> bool:
    """Say something as a log line where those are JSON; whether they are."""
    handler = _own_handler()
    if handler is None or not isinstance(handler.formatter, JsonLines):
        return False
    number = logging.getLevelNamesMapping()[level]
    handler.handle(logging.LogRecord("dataset_agent", number, __file__, 0, str(message), None, None))
    return True


def _own_handler() -> Lines | None:
    return next((one for one in logging.getLogger().handlers if isinstance(one, Lines)), None)


class Lines(logging.StreamHandler[TextIO]):
    """To whatever standard error is at that moment."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        return sys.stderr

    def handleError(self, record: logging.LogRecord) -> None:
        """A line that cannot be written is lost: what ``logging`` prints of it is the line and its arguments."""


class JsonLines(logging.Formatter):
    """``time`` (RFC 3339), ``level``, ``logger``, ``message``; ``request_id``, ``trace_id``, ``task_id`` where they are known."""

    def format(self, record: logging.LogRecord) -> str:
        line = {"time": _time(record), "level": record.levelname, "logger": record.name, "message": _message(record)}
        return json.dumps(line | dict(_members(record)), ensure_ascii=True)


class TextLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        told = "".join(f"  {name}={value}" for name, value in _members(record))
        words = "".join(char if char.isprintable() else _escaped(char) for char in _message(record) + told)
        return f"{_time(record)} {record.levelname:<7} {record.name}: {words}"


def _members(record: logging.LogRecord) -> Iterator[tuple[str, Any]]:
    """What is told beside the message: plain values and ids."""
    told = getattr(record, "told", None)
    if isinstance(told, Mapping):
        for name, value in told.items():
            if isinstance(value, float) or is_plain(value):
                yield str(name), value
    under_way = about.get()
    if under_way is not None:
        for name, value in under_way.ids().items():
            if is_plain(value):
                yield name, value
    if record.exc_info and record.exc_info[1] is not None:
        yield "fault", fault_of(record.exc_info[1])


def fault_of(fault: BaseException) -> str:
    """Its type, and the places it passed through, the last first: never its text, nor a line of source."""
    frames = traceback.extract_tb(fault.__traceback__)[: -_FRAMES - 1 : -1]
    places = (f"{_place(frame.filename, frame.lineno)} {frame.name}" for frame in frames)
    return " < ".join((type(fault).__name__, *places))


def _message(record: logging.LogRecord) -> str:
    if record.name.partition(".")[0] in OWN:
        try:
            said = record.getMessage()
        except Exception:  # arguments that do not fit are a mistake of this product's, and nobody's words
            said = str(record.msg)
    elif record.args or record.name in _CONSTANT:
        said = f"{str(record.msg).strip()} ({_place(record.pathname, record.lineno)})"
    else:  # nobody can tell what of it is a constant
        said = f"said at {_place(record.pathname, record.lineno)}"
    return said if len(said) <= MAX_CHARACTERS else said[:MAX_CHARACTERS] + "…"


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _place(path: str, line: int | None) -> str:
    return f"{'/'.join(Path(path).parts[-2:])}:{line}"


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def _of_a_thread(ended: threading.ExceptHookArgs) -> None:
    logging.getLogger(__name__).error("a thread ended with %s", ended.exc_type.__name__)


def _of_nobody(ended: Any) -> None:
    logging.getLogger(__name__).error("a fault that nobody could take: %s", ended.exc_type.__name__)
