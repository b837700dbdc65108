"""Everything that is written anywhere while an attack runs: events, logs at DEBUG, spans; and what must be in none of it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from google.adk.artifacts import InMemoryArtifactService
from google.adk.sessions import InMemorySessionService
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


class _Kept(logging.Handler):
    def __init__(self, lines: list[str]) -> None:
        super().__init__(logging.DEBUG)
        self._lines = lines
        self.setFormatter(logging.Formatter("%(name)s %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(self.format(record))


@dataclass
class Watch:
    """Since ``begin``: session events with their state, log lines, spans, and the artifacts that anybody saved."""

    events: list[str] = field(default_factory=list)
    logged: list[str] = field(default_factory=list)
    artifacts: list[str] = field(default_factory=list)
    exporter: InMemorySpanExporter = field(default_factory=InMemorySpanExporter)

    def begin(self) -> None:
        for kept in (self.events, self.logged, self.artifacts):
            kept.clear()
        self.exporter.clear()

    def places(self) -> dict[str, str]:
        spans = "\n".join(span.to_json() for span in self.exporter.get_finished_spans())
        return {"sessions": "\n".join(self.events), "logs": "\n".join(self.logged), "spans": spans}


@contextmanager
def watching() -> Iterator[Watch]:
    """Watch this whole process, every thread of it, until the block ends."""
    watch = Watch()
    append, save = InMemorySessionService.append_event, InMemoryArtifactService.save_artifact

    async def appended(self: InMemorySessionService, session: Any, event: Any) -> Any:
        watch.events.append(event.model_dump_json() + str(session.state))
        return await append(self, session, event)

    async def saved(self: InMemoryArtifactService, **given: Any) -> Any:
        watch.artifacts.append(str(given.get("filename")))
        return await save(self, **given)

    provider = trace.get_tracer_provider()
    if not isinstance(provider, TracerProvider):
        provider = TracerProvider()
        trace.set_tracer_provider(provider)
    provider.add_span_processor(SimpleSpanProcessor(watch.exporter))
    handler, root = _Kept(watch.logged), logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    InMemorySessionService.append_event = appended  # type: ignore[method-assign]
    InMemoryArtifactService.save_artifact = saved  # type: ignore[method-assign,assignment]
    try:
        yield watch
    finally:
        InMemorySessionService.append_event = append  # type: ignore[method-assign]
        InMemoryArtifactService.save_artifact = save  # type: ignore[method-assign]
        root.removeHandler(handler)
        root.setLevel(level)
        watch.exporter.shutdown()
