"""A collector of OpenTelemetry on loopback: it takes what an exporter sends, and keeps it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass
class Collector:
    """``status`` is what it answers with from now on."""

    url: str = ""
    status: int = 200
    bodies: list[bytes] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    open: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def held(self) -> Iterator[None]:
        """It takes what comes, and answers nobody meanwhile."""
        self.open.clear()
        try:
            yield
        finally:
            self.open.set()

    def spans(self) -> list[Any]:
        return [span for group in self._groups() for scope in group.scope_spans for span in scope.spans]

    def resources(self) -> list[dict[str, str]]:
        return [{one.key: one.value.string_value for one in group.resource.attributes} for group in self._groups()]

    def _groups(self) -> Iterator[Any]:
        for body in list(self.bodies):
            yield from ExportTraceServiceRequest.FromString(body).resource_spans


@contextmanager
def collecting() -> Iterator[Collector]:
    collector = Collector()
    collector.open.set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            collector.open.wait()
            if self.path == "/v1/traces" and collector.status == 200:
                collector.bodies.append(body)
                collector.headers.append({name.lower(): value for name, value in self.headers.items()})
            self.send_response(collector.status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            return None

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
