"""``traceparent`` is taken in as W3C Trace Context says, and nothing else is read of a trace."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.trace_context import MAX_BYTES, TraceContext, is_trace_id, parse, read

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
WHOLE = f"00-{TRACE}-{SPAN}-01"


def test_a_traceparent_is_read() -> None:
    assert parse(WHOLE) == TraceContext(TRACE, SPAN, True)
    assert parse(f"00-{TRACE}-{SPAN}-00") == TraceContext(TRACE, SPAN, False)


@pytest.mark.parametrize("flags", ["03", "ff", "81"])
def test_only_the_flag_that_says_sampled_is_read(flags: str) -> None:
    assert parse(f"00-{TRACE}-{SPAN}-{flags}") == TraceContext(TRACE, SPAN, True)


@pytest.mark.parametrize("more", ["", "-", "-what a later version adds"])
def test_of_a_later_version_the_first_four_fields_are_read(more: str) -> None:
    assert parse(f"cc-{TRACE}-{SPAN}-01{more}") == TraceContext(TRACE, SPAN, True)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "00",
        WHOLE + " ",
        " " + WHOLE,
        WHOLE + "-00",
        WHOLE + "\n",
        "cc" + WHOLE[2:] + "0",
        "ff" + WHOLE[2:],
        WHOLE.upper(),
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE[:-1]}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-1",
        f"00-{TRACE[:-1]}g-{SPAN}-01",
        f"00-{'４' * 32}-{SPAN}-01",
    ],
)
def test_what_is_none_is_ignored(text: str) -> None:
    assert parse(text) is None


def test_of_several_header_lines_none_is_believed() -> None:
    line = (b"traceparent", WHOLE.encode())
    assert read([(b"host", b"x"), line]) == TraceContext(TRACE, SPAN, True)
    assert read([line, line]) is None
    assert read([]) is None


def test_a_header_that_is_too_long_is_not_read() -> None:
    later = f"cc-{TRACE}-{SPAN}-01-"
    assert read([(b"traceparent", later.encode() + b"x" * (MAX_BYTES - len(later)))]) is not None
    assert read([(b"traceparent", later.encode() + b"x" * (MAX_BYTES - len(later) + 1))]) is None


def test_tracestate_and_baggage_are_not_read() -> None:
    headers = [(b"tracestate", b"rojo=" + WHOLE.encode()), (b"baggage", b"traceparent=" + WHOLE.encode())]
    assert read(headers) is None


@given(st.text(max_size=80))
def test_whatever_is_read_is_two_ids_and_a_flag(text: str) -> None:
    found = parse(text)
    assert found is None or (is_trace_id(found.trace_id) and parse(found.traceparent) == found)


@given(st.binary(max_size=600))
def test_no_bytes_break_the_reader(value: bytes) -> None:
    found = read([(b"traceparent", value)])
    assert found is None or parse(found.traceparent) == found


@given(st.integers(1, 2**128 - 1), st.integers(1, 2**64 - 1), st.booleans())
def test_what_is_written_is_read_again(trace: int, span: int, sampled: bool) -> None:
    context = TraceContext(f"{trace:032x}", f"{span:016x}", sampled)
    assert parse(context.traceparent) == context
    assert len(context.traceparent) == 55
