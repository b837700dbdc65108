"""A policy server that answers when it is told to: how a request is held under way without a clock."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from types import TracebackType

from contract.settings import SHIPPED_DATASETS
from control_plane.evaluator import decision_document
from control_plane.policy import load_policies


class SlowPolicies:
    """``asked`` is set by the first question; every answer waits for ``answer``."""

    def __init__(self) -> None:
        self.asked, self.answer = Event(), Event()
        policies = load_policies(SHIPPED_DATASETS / "policies")
        world = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                world.asked.set()
                world.answer.wait(30)
                sent = json.dumps(decision_document(policies, json.loads(body)["input"])).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(sent)))
                self.end_headers()
                self.wfile.write(sent)

            def log_message(self, *_: object) -> None:
                """Nothing: tests say what they need."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> SlowPolicies:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.answer.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)
