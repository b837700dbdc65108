"""The trace of the asking side (W3C Trace Context): its id, and what goes with each request to another agent."""

from __future__ import annotations

from collections.abc import Mapping

from opentelemetry import trace as otel

from contract import tracing
from contract.trace_context import TRACEPARENT, TraceContext, new_span_id
from contract.trace_context import new_trace_id as random_trace_id


def new_trace_id() -> str:
    """Of the trace under way here, or the one that came in, or of whoever runs us; else 128 random bits. 32 hex digits."""
    ours = tracing.begun_trace_id()
    if ours is not None:
        return ours
    theirs = otel.get_current_span().get_span_context()
    return f"{theirs.trace_id:032x}" if theirs.is_valid else random_trace_id()


def traceparent(trace_id: str) -> str:
    """What goes with a call of this trace: the span that is open here, else what came in, else a parent nobody keeps.

    The last says that it may be sampled: nobody has decided that it is not.
    """
    here = tracing.passed_on(trace_id)
    if here is not None:
        return here.traceparent
    theirs = otel.get_current_span().get_span_context()
    if theirs.is_valid and f"{theirs.trace_id:032x}" == trace_id:
        return TraceContext(trace_id, f"{theirs.span_id:016x}", theirs.trace_flags.sampled).traceparent
    return TraceContext(trace_id, new_span_id(), True).traceparent


def with_trace() -> Mapping[str, str]:
    """The header of a request that is of no particular call, where a trace is under way or came in."""
    here = tracing.passed_on()
    return {} if here is None else {TRACEPARENT: here.traceparent}
