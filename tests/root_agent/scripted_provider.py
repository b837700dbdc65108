"""An OpenID Connect provider on loopback, in a thread of its own: discovery, a key set, and signed tokens."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from tests.control_plane.oidc_world import jwks, token


@dataclass
class ScriptedProvider:
    """``keys`` are the names of what it publishes; while it is not ``up`` every answer is 503."""

    issuer: str
    keys: tuple[str, ...] = ("rsa", "ec")
    up: bool = True
    asked: list[str] = field(default_factory=list)

    def token(self, **changes: Any) -> str:
        """A token that is right now, but for ``changes``."""
        return token(**({"iss": self.issuer, "now": time.time()} | changes))

    def document(self, path: str) -> bytes | None:
        self.asked.append(path)
        known = {
            "/realm/.well-known/openid-configuration": {
                "issuer": self.issuer,
                "jwks_uri": f"{self.issuer}/keys",
                "id_token_signing_alg_values_supported": ["RS256", "ES256", "none"],
            },
            "/realm/keys": json.loads(jwks(*self.keys)),
        }
        return json.dumps(known[path]).encode() if self.up and path in known else None


@contextmanager
def scripted_provider() -> Iterator[ScriptedProvider]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = provider.document(self.path)
            self.send_response(503 if body is None else 200)
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing is printed."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        provider = ScriptedProvider(f"http://127.0.0.1:{server.server_address[1]}/realm")
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield provider
        finally:
            server.shutdown()
            thread.join()
