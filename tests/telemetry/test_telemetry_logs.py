"""A log line is one line, has the ids of its request, and holds nobody's words but this product's."""

from __future__ import annotations

import io
import json
import logging
import re
import sys
import threading
import tomllib
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from contract.about import about
from telemetry.logs import MAX_CHARACTERS, OWN, Lines, formatter, open_logs, told_as_json

MARKER = "zebra crossing 9000"
TEXT, JSON = formatter("text"), formatter("json")
ROOT = Path(__file__).resolve().parents[2]


def record(
    message: object,
    *args: object,
    name: str = "remote_agent.answer",
    fault: BaseException | None = None,
    **more: object,
) -> logging.LogRecord:
    info = None if fault is None else (type(fault), fault, fault.__traceback__)
    made = logging.LogRecord(name, logging.WARNING, "/somewhere/lib/module.py", 7, message, args, info)
    made.__dict__ |= more
    return made


def as_json(*given: Any, **more: Any) -> dict[str, Any]:
    return dict(json.loads(JSON.format(record(*given, **more))))


class Request:
    def ids(self) -> Mapping[str, str]:
        return {"request_id": "req-1", "trace_id": "a" * 32, "task_id": "task with words"}


@pytest.fixture(autouse=True)
def nobody_asks() -> Iterator[None]:
    yield
    about.set(None)


def raised() -> ValueError:
    try:
        raise ValueError(MARKER)
    except ValueError as fault:
        return fault


def test_a_line_says_when_where_and_what() -> None:
    line = as_json("the writer of the ledger is gone: %s", "BrokenPipeError")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line.pop("time"))
    assert line == {
        "level": "WARNING",
        "logger": "remote_agent.answer",
        "message": "the writer of the ledger is gone: BrokenPipeError",
    }


def test_a_line_has_the_ids_of_the_request_it_is_about() -> None:
    about.set(Request())
    line = as_json("a request ended", told={"verdict": "GRANTED", "ms": 1.25, "question": MARKER})
    assert {name: line.get(name) for name in ("verdict", "ms", "request_id", "trace_id")} == {
        "verdict": "GRANTED",
        "ms": 1.25,
        "request_id": "req-1",
        "trace_id": "a" * 32,
    }
    assert MARKER not in str(line) and "task_id" not in line
    assert "  verdict=GRANTED  ms=1.25  request_id=req-1" in TEXT.format(
        record("x", told={"verdict": "GRANTED", "ms": 1.25})
    )


def test_of_a_fault_its_type_and_places_are_told_and_no_text() -> None:
    for form in (TEXT, JSON):
        line = form.format(record("what ended the command", fault=raised()))
        assert "ValueError < telemetry/test_telemetry_logs.py:" in line
        assert MARKER not in line and "raise ValueError" not in line


@pytest.mark.parametrize("form", [TEXT, JSON], ids=["text", "json"])
@pytest.mark.parametrize("broken", ["\n", "\r", "\x1b[2J", "\x00", "\u2028", "\u202e", "\x85"])
def test_no_line_begins_another_nor_moves_a_terminal(form: logging.Formatter, broken: str) -> None:
    line = form.format(record(f"first{broken}2026-11-30 ERROR forged"))
    assert len(line.splitlines()) == 1
    assert broken not in line


def test_a_library_says_where_it_spoke_and_its_constant_words() -> None:
    assert as_json("got %s of %s", MARKER, 2, name="mcp.server")["message"] == "got %s of %s (lib/module.py:7)"
    assert as_json(f"got {MARKER}", name="google_adk.runners")["message"] == "said at lib/module.py:7"
    fault = as_json("Exception in ASGI application\n", name="uvicorn.error", fault=raised())
    assert fault["message"] == "Exception in ASGI application (lib/module.py:7)"
    assert MARKER not in str(fault)


def test_a_message_is_bounded() -> None:
    assert len(as_json("x" * 100_000)["message"]) == MAX_CHARACTERS + 1


def test_arguments_that_do_not_fit_lose_no_line() -> None:
    assert as_json("%s and %s", 1)["message"] == "%s and %s"


def test_the_packages_whose_words_are_told_are_this_product() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert set(project["tool"]["importlinter"]["root_packages"]) == OWN


@contextmanager
def alone() -> Iterator[io.StringIO]:
    """A process that has set up no logging yet, and its standard error."""
    root = logging.getLogger()
    names = ("", *OWN)
    before = root.handlers[:], [logging.getLogger(name).level for name in names]
    hooks, error = (threading.excepthook, sys.unraisablehook), sys.stderr
    root.handlers[:] = []
    sys.stderr = told = io.StringIO()
    try:
        yield told
    finally:
        sys.stderr = error
        root.handlers[:] = before[0]
        for name, level in zip(names, before[1], strict=True):
            logging.getLogger(name).setLevel(level)
        threading.excepthook, sys.unraisablehook = hooks
        logging.captureWarnings(False)


def test_libraries_log_from_warnings_on_whatever_the_level() -> None:
    with alone() as told:
        open_logs("DEBUG", "text")
        logging.getLogger("remote_agent.answer").debug("ours")
        logging.getLogger("urllib3.connectionpool").debug("theirs %s", MARKER)
        logging.getLogger("urllib3.connectionpool").warning("theirs %s", MARKER)
        first, second = told.getvalue().splitlines()
        assert first.endswith("DEBUG   remote_agent.answer: ours")
        assert "theirs %s (" in second and MARKER not in second


def test_a_level_above_warnings_is_that_of_libraries_too() -> None:
    with alone() as told:
        open_logs("ERROR", "text")
        logging.getLogger("remote_agent.answer").warning("ours")
        logging.getLogger("asyncio").warning("theirs")
        assert told.getvalue() == ""


def test_the_form_can_be_changed_and_there_is_one_line_for_an_event() -> None:
    with alone() as told:
        open_logs("INFO", "text")
        open_logs("INFO", "json")
        logging.getLogger("root_agent.app").info("once")
        (line,) = told.getvalue().splitlines()
        assert json.loads(line)["message"] == "once"


def test_with_json_what_a_process_says_is_a_line_too() -> None:
    with alone() as told:
        open_logs("WARNING", "text")
        assert not told_as_json("INFO", "the root agent is ready")
        open_logs("WARNING", "json")
        assert told_as_json("INFO", "the root agent is ready")
        assert json.loads(told.getvalue())["level"] == "INFO"


def test_warnings_threads_and_what_nobody_could_take_are_lines_without_text() -> None:
    with alone() as told:
        open_logs("DEBUG", "json")

        def fail() -> None:
            raise ValueError(MARKER)

        with warnings.catch_warnings():
            warnings.simplefilter("default")
            logging.captureWarnings(True)
            warnings.warn(MARKER, stacklevel=1)
        thread = threading.Thread(target=fail)
        thread.start()
        thread.join()
        lines = [json.loads(line) for line in told.getvalue().splitlines()]
        assert [line["logger"] for line in lines] == ["py.warnings", "telemetry.logs"]
        assert lines[1]["message"] == "a thread ended with ValueError"
        assert MARKER not in str(lines)


def test_logging_that_is_set_up_already_stands() -> None:
    with alone():
        own = logging.NullHandler()
        logging.getLogger().addHandler(own)
        open_logs("DEBUG", "json")
        assert logging.getLogger().handlers == [own]


def test_a_line_that_cannot_be_written_prints_nothing_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with alone() as told:

        class Broken:
            def __str__(self) -> str:
                raise RuntimeError(MARKER)

        handler = Lines()
        handler.setFormatter(TEXT)
        handler.handle(record(Broken(), name="asyncio"))
        handler.handle(record("%s", Broken()))
        assert MARKER not in told.getvalue()
