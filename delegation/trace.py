"""Trace ids of the asking side (W3C Trace Context)."""

from __future__ import annotations

import secrets
from typing import Final

from opentelemetry import trace
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

_PROPAGATOR: Final = TraceContextTextMapPropagator()


def new_trace_id() -> str:
    """The active span's trace id where there is one, else 128 random bits; 32 hex digits."""
    context = trace.get_current_span().get_span_context()
    return f"{context.trace_id:032x}" if context.is_valid else secrets.token_hex(16)


def traceparent(trace_id: str) -> str:
    """A W3C ``traceparent`` of this trace: the active span's own, else a new parent id."""
    carrier: dict[str, str] = {}
    _PROPAGATOR.inject(carrier)
    current = carrier.get("traceparent", "")
    return current if trace_id in current else f"00-{trace_id}-{secrets.token_hex(8)}-00"
