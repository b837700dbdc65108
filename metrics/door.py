"""``GET /metrics``: to this machine where nobody else can be behind it, else to whoever has the token.

With a token it is asked for, wherever a request comes from. Without one only this machine is answered,
and only in development: behind a proxy on the same machine everybody comes from loopback.
For anybody else there is no such path.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final
from urllib.parse import urlsplit

from contract.address import is_loopback
from contract.bearer_token import BearerToken, TokenSetting
from contract.errors import Category, Component, DatasetAgentError
from contract.problem import Send, send_problem
from contract.settings import Settings
from metrics.text import CONTENT_TYPE

log = logging.getLogger(__name__)

PATH: Final = "/metrics"
_BURST: Final = 20.0
_PER_SECOND: Final = 5.0
_FORWARDED: Final = frozenset({b"forwarded", b"via", b"x-forwarded-for", b"x-forwarded-host", b"x-real-ip"})

Scope = MutableMapping[str, Any]
App = Callable[[Scope, Any, Send], Awaitable[None]]


def metrics_token(settings: Settings, component: Component) -> BearerToken | None:
    """``None`` where none is set. Raises a CONFIGURATION fault as ``TokenSetting.read``."""
    setting = TokenSetting("the metrics token", "DATASET_AGENT_METRICS_TOKEN", component, f"{component.value}.metrics")
    text = setting.read(settings.metrics_token, settings.metrics_token_file)
    return None if text is None else BearerToken.of(text)


class MetricsDoor:
    """ASGI middleware: it answers ``/metrics`` and passes everything else on.

    ``token`` is the one in force. ``at_home`` says whether this machine is answered without one.
    ``refused`` is called for each request that brings a wrong one. ``text`` is what is told.
    """

    def __init__(
        self,
        app: App,
        *,
        text: Callable[[], Awaitable[bytes]],
        token: Callable[[], BearerToken | None],
        at_home: bool,
        refused: Callable[[], None],
        component: Component,
        clock: Callable[[], float],
    ) -> None:
        self._app = app
        self._text = text
        self._token = token
        self._at_home = at_home
        self._refused = refused
        self._component = component
        self._clock = clock
        self._left, self._at = _BURST, clock()

    async def __call__(self, scope: Scope, receive: Any, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != PATH:
            await self._app(scope, receive, send)
            return
        try:
            self._judge(scope)
            body = await self._told()
        except DatasetAgentError as error:
            await send_problem(send, error, realm="dataset-agent-metrics")
            return
        await _reply(send, body, with_body=scope["method"] == "GET")

    def _judge(self, scope: Scope) -> None:
        """Raises a fault unless this request may read the metrics."""
        token = self._token()
        if token is None and not (self._at_home and is_from_here(scope)):
            raise self._fault(Category.NOT_FOUND, "path", "there is no such path")
        if token is not None and not token.is_of(scope["headers"]):
            self._refused()
            raise self._fault(Category.UNAUTHENTICATED, "token", "send Authorization: Bearer with the metrics token")
        if scope["method"] not in ("GET", "HEAD"):
            raise self._fault(Category.NOT_FOUND, "path", "there is no such path or method")
        self._take()

    def _take(self) -> None:
        now = self._clock()
        self._left = min(_BURST, self._left + (now - self._at) * _PER_SECOND)
        self._at = now
        if self._left < 1:
            raise self._fault(Category.RATE_LIMITED, "rate", f"at most {_PER_SECOND:.0f} requests a second")
        self._left -= 1

    async def _told(self) -> bytes:
        try:
            return await self._text()
        except Exception as fault:
            log.error("the metrics could not be told: %s", type(fault).__name__)
            raise self._fault(Category.INTERNAL, "failed", "the metrics cannot be told; the log says why") from fault

    def _fault(self, category: Category, code: str, message: str) -> DatasetAgentError:
        retry = 1.0 if category is Category.RATE_LIMITED else None
        name = f"{self._component.value}.metrics.{code}"
        return DatasetAgentError(self._component, category, name, message, retry_after=retry)


def is_from_here(scope: Scope) -> bool:
    """Whether a request was made on this machine, to this machine, and by nobody who passes others' on.

    A page of a browser on this machine that had its own name pointed here says that name as host.
    """
    client = scope.get("client")
    if client is None or not is_loopback(str(client[0])):
        return False
    headers: list[tuple[bytes, bytes]] = scope["headers"]
    if any(name in _FORWARDED for name, _ in headers):
        return False
    hosts = [value for name, value in headers if name == b"host"]
    return len(hosts) == 1 and is_loopback(_host(hosts[0]))


def _host(value: bytes) -> str:
    try:
        return urlsplit(f"//{value.decode('ascii')}").hostname or ""
    except ValueError:
        return ""


async def _reply(send: Send, body: bytes, *, with_body: bool) -> None:
    """Without its body the length is told all the same (RFC 9110, section 9.3.2)."""
    headers = [
        (b"content-type", CONTENT_TYPE.encode()),
        (b"content-length", b"%d" % len(body)),
        (b"cache-control", b"no-store"),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body if with_body else b""})
