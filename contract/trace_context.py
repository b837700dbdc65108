"""W3C Trace Context as it is taken in and passed on: an id of the trace, the id of a parent, and one flag.

``traceparent`` has a fixed size and alphabet, so there is nothing to put into it; it is believed of a
verified client only, and proves nothing. ``tracestate`` and ``baggage`` hold free text, which would
travel from one agent to the next beside every check: neither is read, stored or passed on.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable
from contextvars import ContextVar
from typing import Final, NamedTuple

TRACEPARENT: Final = "traceparent"
_HEADER: Final = TRACEPARENT.encode()
_LENGTH: Final = 55
_NO_TRACE: Final = "0" * 32
_NO_SPAN: Final = "0" * 16
_FORM: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_TRACE_ID: Final = re.compile(r"[0-9a-f]{32}")
_SAMPLED: Final = 1
MAX_BYTES: Final = 512
"""Of one header value. Later versions may be longer than 55; what follows there is not read."""


class TraceContext(NamedTuple):
    """``trace_id`` is 32 and ``span_id`` 16 lower-case hex digits, neither all zero."""

    trace_id: str
    span_id: str
    sampled: bool

    @property
    def traceparent(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{'01' if self.sampled else '00'}"


taken: Final[ContextVar[TraceContext | None]] = ContextVar("trace_context_taken_in", default=None)
"""What came with the request under way in this context."""


def is_trace_id(text: str) -> bool:
    """Whether it is a ``trace-id`` of W3C Trace Context: 32 digits of lower-case hex, not all of them zero."""
    return _TRACE_ID.fullmatch(text) is not None and text != _NO_TRACE


def new_trace_id() -> str:
    """A random one: 32 hex digits."""
    return secrets.token_hex(16)


def new_span_id() -> str:
    """A random one: 16 hex digits."""
    return secrets.token_hex(8)


def read(headers: Iterable[tuple[bytes, bytes]]) -> TraceContext | None:
    """The context of a request's headers (names in lower case), ``None`` where there is none, several, or a malformed one.

    W3C Trace Context, section 3.2: version ``ff`` and ids of zeros are invalid; of a later version the
    first four fields are read.
    """
    lines = [value for name, value in headers if name == _HEADER]
    if len(lines) != 1 or len(lines[0]) > MAX_BYTES:
        return None
    return parse(lines[0].decode("latin-1"))


def parse(text: str) -> TraceContext | None:
    """One value of ``traceparent``."""
    found = _FORM.match(text)
    if found is None:
        return None
    version, trace_id, span_id, flags = found.groups()
    if version == "ff":
        return None
    if len(text) > _LENGTH and (version == "00" or text[_LENGTH] != "-"):
        return None
    if trace_id == _NO_TRACE or span_id == _NO_SPAN:
        return None
    return TraceContext(trace_id, span_id, bool(int(flags, 16) & _SAMPLED))
