"""One trace of one request: its steps as spans with ids and times, told when the request has ended.

A span holds a name from the code, times, and attributes of ``NAMES`` whose values are ids, codes or
numbers. There is no way to give it a text, an exception or a stack. Nothing reads a decision back
from a trace: losing all of them changes no answer and no row of evidence.

The id of a trace is the one that its evidence has, so it is fixed when the grant is verified and not
when the first span begins: spans are kept until then. Where nobody keeps traces, nothing is kept at
all, and what came in is passed on as it was.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from enum import StrEnum
from time import time_ns
from types import TracebackType
from typing import Any, Final

from contract.trace_context import TraceContext, is_trace_id, new_span_id, new_trace_id, read, taken
from contract.verdict import NotGranted

log = logging.getLogger(__name__)

MAX_SPANS: Final = 512
"""Of one trace in one process. What comes after is counted instead; what is below it, is below the span that it is in."""

NAMES: Final = frozenset(
    {
        *("agent_id", "request_id", "task_id", "decision_id", "session_id", "invocation_id", "execution_id"),
        *("verdict", "reason", "policy_id", "policy_version", "dataset", "capability", "revision"),
        *("cache.outcome", "remote.outcome", "remote.reason", "rows", "attempts", "door", "spans.dropped"),
        *("http.request.method", "http.response.status_code", "error.type"),
    }
)
_VALUE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@/+~-]{0,255}")

Value = str | int | bool


class Kind(StrEnum):
    """The kind of a span, by OpenTelemetry's names."""

    SERVER = "SERVER"
    CLIENT = "CLIENT"
    INTERNAL = "INTERNAL"


@dataclass(frozen=True, slots=True)
class Span:
    """One span as it is told. Times are nanoseconds since 1970; ids are lower-case hex."""

    trace_id: str
    span_id: str
    parent_id: str | None
    parent_is_remote: bool
    name: str
    kind: Kind
    start_ns: int
    end_ns: int
    failed: bool
    attributes: Mapping[str, Value]


Keep = Callable[[Sequence[Span]], None]
"""Takes the spans of a request that has ended, without waiting. What it raises costs the request nothing."""
Sampler = Callable[[TraceContext | None, str], bool]
"""Whether a trace is kept: by what came with its request, if anything, and its id."""


@dataclass(slots=True)
class _Open:
    name: str
    kind: Kind
    parent_id: str | None
    span_id: str = field(default_factory=new_span_id)
    start_ns: int = field(default_factory=time_ns)
    end_ns: int = 0
    failed: bool = False
    private: bool = False
    attributes: dict[str, Value] = field(default_factory=dict)


class Trace:
    """The spans of one request in this process. It is told whenever none of them is open."""

    __slots__ = (
        "_begun",
        "_dropped",
        "_ended",
        "_keep",
        "_open",
        "_parent",
        "_sampler",
        "sampled",
        "trace_id",
        "withheld",
    )

    def __init__(self, keep: Keep, sampler: Sampler) -> None:
        self._keep = keep
        self._sampler = sampler
        self._parent: TraceContext | None = None
        self._ended: list[_Open] = []
        self._open = 0
        self._begun = 0
        self._dropped = 0
        self.trace_id = ""
        self.sampled = True
        self.withheld = False

    def believe(self, parent: TraceContext | None) -> None:
        """What came with the request, once its client is verified."""
        if not self.trace_id:
            self._parent = parent

    def settle(self, trace_id: str) -> None:
        """Its id, once it is known; the first one stands. What is none of W3C's is replaced by what came in, or a new one."""
        if self.trace_id:
            return
        parent = self._parent
        if not is_trace_id(trace_id):
            trace_id = parent.trace_id if parent else new_trace_id()
        if parent is not None and parent.trace_id != trace_id:
            self._parent = parent = None
        self.trace_id = trace_id
        self.sampled = self._sampler(parent, trace_id)

    def withhold(self) -> None:
        """Of a restricted capability: neither times are told, nor what differs where its result was stored."""
        self.withheld = True

    def _begin(self, name: str, kind: Kind, parent_id: str | None) -> _Open | None:
        if self._begun == MAX_SPANS:
            self._dropped += 1
            return None
        self._begun += 1
        self._open += 1
        return _Open(name, kind, parent_id)

    def _end(self, span: _Open) -> None:
        self._open -= 1
        self._ended.append(span)
        if not self._open:
            self._tell()

    def _tell(self) -> None:
        self.settle("")
        ended, self._ended = self._ended, []
        if not self.sampled:
            return
        if self._dropped:
            ended[-1].attributes["spans.dropped"] = self._dropped
        try:
            self._keep([self._told(span) for span in (_public(ended) if self.withheld else ended)])
        except Exception as fault:
            log.warning("a trace was lost: %s", type(fault).__name__)

    def _told(self, span: _Open) -> Span:
        parent, first = self._parent, span.parent_id is None
        return Span(
            trace_id=self.trace_id,
            span_id=span.span_id,
            parent_id=(parent.span_id if parent else None) if first else span.parent_id,
            parent_is_remote=first and parent is not None,
            name=span.name,
            kind=span.kind,
            start_ns=span.start_ns,
            end_ns=span.end_ns,
            failed=span.failed,
            attributes=span.attributes,
        )


def _public(ended: Iterable[_Open]) -> list[_Open]:
    """Without the spans that are private, and what is below them; and as if all had taken no time."""
    spans = list(ended)
    hidden = {span.span_id for span in spans if span.private}
    while more := {span.span_id for span in spans if span.parent_id in hidden} - hidden:
        hidden |= more
    shown = [span for span in spans if span.span_id not in hidden]
    began = min((span.start_ns for span in shown), default=0)
    for span in shown:
        span.start_ns = span.end_ns = began
    return shown


@dataclass(frozen=True, slots=True)
class Traces:
    """Where this process's traces go. Without ``keep`` there are none."""

    keep: Keep | None = None
    sampler: Sampler = lambda parent, _: parent is None or parent.sampled
    end: Callable[[], None] = lambda: None
    parent: TraceContext | None = None

    @property
    def on(self) -> bool:
        return self.keep is not None

    def after(self, parent: TraceContext | None) -> Traces:
        """The same for what goes on after ``parent``, in a context of its own."""
        return replace(self, parent=parent)

    def begin(self, name: str, kind: Kind = Kind.SERVER) -> tracing:
        """The first span of a request in this process; below another one, where one is open."""
        return tracing(name, kind, made_by=self)

    def close(self) -> None:
        """Hand over what is kept, for a few seconds at most."""
        self.end()


@dataclass(frozen=True, slots=True)
class _Here:
    trace: Trace
    span: _Open

    def tell(self, attributes: Mapping[str, Any]) -> None:
        for name, value in attributes.items():
            name = name.replace("__", ".")
            if name in NAMES and is_plain(value):
                self.span.attributes[name] = value

    def settle(self, trace_id: str | None, *, withheld: bool) -> None:
        self.trace.settle(trace_id or "")
        if withheld:
            self.trace.withhold()


_here: Final[ContextVar[_Here | None]] = ContextVar("span_here", default=None)


class tracing:
    """``with tracing("verify") as span:`` is a span of the trace under way in this context, if there is one.

    What is raised inside is told by its reason or its type alone. ``private`` is what of a restricted
    capability is not told, with all below it.
    """

    __slots__ = ("_before", "_here", "_kind", "_made_by", "_name", "_private")

    def __init__(
        self, name: str, kind: Kind = Kind.INTERNAL, *, private: bool = False, made_by: Traces | None = None
    ) -> None:
        self._name = name
        self._kind = kind
        self._private = private
        self._made_by = made_by
        self._here: _Here | None = None
        self._before: _Here | None = None

    def __enter__(self) -> tracing:
        self._before = before = _here.get()
        if before is not None:
            trace, parent_id = before.trace, before.span.span_id
        elif self._made_by is not None and self._made_by.keep is not None:
            trace, parent_id = Trace(self._made_by.keep, self._made_by.sampler), None
            trace.believe(self._made_by.parent or taken.get())
        else:
            return self
        span = trace._begin(self._name, self._kind, parent_id)
        if span is None:
            return self
        span.private = self._private
        self._here = here = _Here(trace, span)
        _here.set(here)
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, _: TracebackType | None) -> None:
        here = self._here
        if here is None:
            return
        _here.set(self._before)  # not by a token: a stream may be closed in another context than it was begun in
        if fault is not None:
            self._note(here.span, fault)
        here.span.end_ns = time_ns()
        here.trace._end(here.span)

    def tell(self, **attributes: Any) -> None:
        """Ids, codes and numbers; ``_`` in a name stands for itself and ``__`` for a dot. ``None`` is not told.

        What is no name of ``NAMES``, or no id, is left out.
        """
        if self._here is not None:
            self._here.tell(attributes)

    def settle(self, trace_id: str | None, *, withheld: bool = False) -> None:
        """What its evidence calls it. ``withheld``: it asks a restricted capability."""
        if self._here is not None:
            self._here.settle(trace_id, withheld=withheld)

    @staticmethod
    def _note(span: _Open, fault: BaseException) -> None:
        if isinstance(fault, NotGranted):
            span.attributes["reason"] = fault.reason.value
            return
        span.failed = isinstance(fault, Exception)
        span.attributes["error.type"] = type(fault).__name__


def is_plain(value: object) -> bool:
    """Whether it may be told: a number, or a short id or code."""
    return isinstance(value, int) or (isinstance(value, str) and _VALUE.fullmatch(value) is not None)


def under_way() -> bool:
    """Whether a trace is kept of what happens in this context."""
    return _here.get() is not None


def take_in(headers: Iterable[tuple[bytes, bytes]]) -> TraceContext | None:
    """The trace context of a request whose client is verified; ``None`` where it brought none that is one."""
    found = read(headers)
    if found is not None:
        taken.set(found)
        here = _here.get()
        if here is not None:
            here.trace.believe(found)
    return found


def begun_trace_id() -> str | None:
    """The id of the trace under way, which is fixed by this; ``None`` where there is none and none came in."""
    here = _here.get()
    if here is not None:
        here.trace.settle("")
        return here.trace.trace_id
    came = taken.get()
    return came.trace_id if came else None


def tell(**attributes: Any) -> None:
    """``tracing.tell`` of the span that is open in this context, if there is one."""
    here = _here.get()
    if here is not None:
        here.tell(attributes)


def settle(trace_id: str | None, *, withheld: bool = False) -> None:
    """``tracing.settle`` of the trace under way in this context, if there is one."""
    here = _here.get()
    if here is not None:
        here.settle(trace_id, withheld=withheld)


def passed_on(trace_id: str | None = None) -> TraceContext | None:
    """What goes with a request to another agent; ``trace_id`` fixes the id of the trace under way.

    Where none is kept here, what came in, if it is of the same trace. ``None`` too while the id is not fixed.
    """
    here = _here.get()
    if here is not None:
        if trace_id is not None:
            here.trace.settle(trace_id)
        named = trace_id or here.trace.trace_id
        return TraceContext(named, here.span.span_id, here.trace.sampled) if named else None
    came = taken.get()
    return came if came is not None and trace_id in (None, came.trace_id) else None
