"""Requests whose end two readers could see at two places are refused before anything of them is read."""

from __future__ import annotations

import json
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

_TWO_LENGTHS: Final = frozenset({b"content-length", b"transfer-encoding"})
_PROBLEM: Final = json.dumps(
    {
        "type": "about:blank",
        "title": "Bad Request",
        "status": 400,
        "code": "command.serve.framing",
        "detail": "send Content-Length or Transfer-Encoding, and not both",
    }
).encode()


class OneLength:
    """RFC 9112, section 6.3: a message with both fields may be an attempt at request smuggling; 400, and closed."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not {name for name, _ in scope["headers"]} >= _TWO_LENGTHS:
            await self._app(scope, receive, send)
            return
        headers = [
            (b"content-type", b"application/problem+json"),
            (b"content-length", str(len(_PROBLEM)).encode()),
            (b"connection", b"close"),
        ]
        await send({"type": "http.response.start", "status": 400, "headers": headers})
        await send({"type": "http.response.body", "body": _PROBLEM})
