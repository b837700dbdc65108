"""Spans handed to OpenTelemetry's own exporter, in a thread of its own. Needs the extra ``otel``.

The provider is this module's and not the process's: what libraries trace by themselves, prompts and
texts of errors among it, stays where it was, nowhere.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from contract.errors import Category, Component, DatasetAgentError
from contract.tracing import Kind, Span, Traces
from telemetry.environment import Wanted, wanted
from telemetry.sampling import sampler_of

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import SpanProcessor

log = logging.getLogger(__name__)

_EXPORTER: Final = "opentelemetry.exporter.otlp.proto.http"
_QUIET_S: Final = 60.0
"""So long nothing more is said of an endpoint that takes no spans."""


def open_traces(component: Component, service_name: str, *, version: str) -> Traces:
    """As the environment says; none by default. Raises a CONFIGURATION fault, also where the extra is missing."""
    found = wanted(os.environ, component)
    if found is None:
        return Traces()
    if not _is_installed():
        raise DatasetAgentError(
            component,
            Category.CONFIGURATION,
            f"{component.value}.telemetry.extra",
            "traces are to be exported, which needs the extra: pip install 'dataset-agent[otel]', or set "
            "OTEL_TRACES_EXPORTER=none",
        )
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    logging.getLogger(_EXPORTER).setLevel(logging.CRITICAL)  # it repeats texts of errors; ours is one line
    tally = Tally()
    processor = BatchSpanProcessor(_watched(OTLPSpanExporter(), tally))
    return traces_to(processor, found, service_name, version=version, tally=tally)


@dataclass(slots=True)
class Tally:
    """Spans that were handed to a processor, and those whose export came to an end, whatever it was: the loop's
    threads count the first, the exporter's thread the second.
    """

    handed: int = 0
    settled: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def hand(self, spans: int) -> None:
        with self.lock:
            self.handed += spans


def traces_to(
    processor: SpanProcessor, wanted: Wanted, service_name: str, *, version: str, tally: Tally | None = None
) -> Traces:
    """Traces that end in an OpenTelemetry span processor. With a ``tally``, whatever it lost is told at the end."""
    keep = _handed_to(processor, service_name, version)

    def counted(spans: Sequence[Span]) -> None:
        if tally is not None:
            tally.hand(len(spans))
        keep(spans)

    def close() -> None:
        # An exporter waits longer for an endpoint that is away than a process has to end.
        ending = threading.Thread(target=processor.shutdown, daemon=True, name="spans-leave")
        ending.start()
        ending.join(wanted.last_s)
        if tally is not None and (lost := tally.handed - tally.settled) > 0:
            why = "the queue was full" if not ending.is_alive() else f"they had not left after {wanted.last_s:g} s"
            log.warning("%d spans of this process are lost (%s); nothing but traces lacks them", lost, why)

    return Traces(counted, sampler_of(wanted.sampler, wanted.ratio), close)


def _is_installed() -> bool:
    try:
        return find_spec(_EXPORTER) is not None
    except ModuleNotFoundError:
        return False


def _handed_to(processor: SpanProcessor, service_name: str, version: str) -> Callable[[Sequence[Span]], None]:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

    named = {"service.name": os.environ.get("OTEL_SERVICE_NAME", "").strip() or service_name}
    resource = Resource.create(named | {"service.version": version, "service.instance.id": str(uuid.uuid4())})
    scope = InstrumentationScope("dataset_agent", version)
    kinds = {Kind.SERVER: SpanKind.SERVER, Kind.CLIENT: SpanKind.CLIENT, Kind.INTERNAL: SpanKind.INTERNAL}
    sampled = TraceFlags(TraceFlags.SAMPLED)
    fine, failed = Status(StatusCode.UNSET), Status(StatusCode.ERROR)

    def context(span: Span, span_id: str, *, remote: bool) -> SpanContext:
        return SpanContext(int(span.trace_id, 16), int(span_id, 16), is_remote=remote, trace_flags=sampled)

    def keep(spans: Sequence[Span]) -> None:
        for span in spans:
            processor.on_end(
                ReadableSpan(
                    name=span.name,
                    context=context(span, span.span_id, remote=False),
                    parent=context(span, span.parent_id, remote=span.parent_is_remote) if span.parent_id else None,
                    resource=resource,
                    attributes=dict(span.attributes),
                    kind=kinds[span.kind],
                    status=failed if span.failed else fine,
                    start_time=span.start_ns,
                    end_time=span.end_ns,
                    instrumentation_scope=scope,
                )
            )

    return keep


def _watched(exporter: Any, tally: Tally) -> Any:
    """The exporter, whose failures are one line a minute, without the text of any."""
    export, quiet_until = exporter.export, 0.0

    def watched(spans: Sequence[Any]) -> Any:
        nonlocal quiet_until
        try:
            result = export(spans)
        except Exception as fault:
            tally.settled += len(spans)
            why = type(fault).__name__
        else:
            tally.settled += len(spans)
            if result.name == "SUCCESS":
                return result
            why = "the endpoint did not take them"
        if time.monotonic() >= quiet_until:
            quiet_until = time.monotonic() + _QUIET_S
            log.warning("%d spans were not exported (%s); requests go on without", len(spans), why)
        from opentelemetry.sdk.trace.export import SpanExportResult

        return SpanExportResult.FAILURE

    exporter.export = watched
    return exporter
