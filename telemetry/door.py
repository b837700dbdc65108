"""ASGI middleware before everything else: each request is one trace, also one that no later door lets in.

What came as ``traceparent`` is believed by the doors that verify a client (``contract.tracing.take_in``);
until then, and of whoever is turned away, the trace is this agent's own. What machines ask again and
again of everybody is not traced: public documents, health, metrics.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, MutableMapping
from typing import Any, Final

from contract.tracing import Traces

Scope = MutableMapping[str, Any]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Any, Send], Awaitable[None]]

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"})


class TraceDoor:
    """``untraced`` are paths."""

    def __init__(self, app: App, traces: Traces, untraced: Collection[str]) -> None:
        self._app = app
        self._traces = traces
        self._untraced = frozenset(untraced)

    async def __call__(self, scope: Scope, receive: Any, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in self._untraced:
            await self._app(scope, receive, send)
            return
        with self._traces.begin("http") as span:
            method = scope["method"]
            span.tell(http__request__method=method if method in _METHODS else "_OTHER")

            async def told(message: MutableMapping[str, Any]) -> None:
                if message["type"] == "http.response.start":
                    span.tell(http__response__status_code=int(message["status"]))
                await send(message)

            await self._app(scope, receive, told)
