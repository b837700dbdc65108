"""The part of ``doctor`` that compares clocks: grants are refused where two of them differ by more than the skew."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any, Final, cast

import httpx
from redis.exceptions import RedisError

from contract.settings import Settings
from dataset_agent.finding import Finding
from grants.claims import SKEW
from grants.state_redis import MEMORY
from grants.state_server import StateServer

_PATIENCE_S: Final = 2.0


async def check_clocks(settings: Settings) -> AsyncIterator[Finding]:
    """Against the running dataset agent and the state store's server, where they answer at all."""
    ahead = await _agent(settings)
    if ahead is not None:
        yield judged("clock of the dataset agent", ahead)
    if settings.state_url is not None:
        ahead = await _server(settings.state_url)
        if ahead is not None:
            yield judged("clock of the state store", ahead)


def judged(name: str, ahead: float) -> Finding:
    """``ahead``: how many seconds that clock is ahead of this one."""
    if abs(ahead) <= SKEW:
        return Finding(name, "ok", "" if abs(ahead) < 1 else f"{_told(ahead)}; {SKEW} s are allowed")
    return Finding(name, "broken", f"{_told(ahead)}, and grants are refused beyond {SKEW} s: keep both by NTP")


def _told(ahead: float) -> str:
    return f"it is {abs(ahead):.1f} s {'ahead of' if ahead > 0 else 'behind'} this one"


async def _agent(settings: Settings) -> float | None:
    """By the ``Date`` of an answer, which is cut to the second (RFC 9110, section 6.6.1)."""
    try:
        async with asyncio.timeout(_PATIENCE_S), httpx.AsyncClient(timeout=_PATIENCE_S, trust_env=False) as http:
            began = time.time()
            async with http.stream("GET", f"{settings.url.rstrip('/')}/healthz") as answer:
                ended = time.time()
        told = parsedate_to_datetime(answer.headers["date"]).astimezone(UTC).timestamp()
    except (httpx.HTTPError, httpx.InvalidURL, OSError, KeyError, ValueError, TypeError, OverflowError):
        return None  # nothing answers, or what does has no clock
    return beyond(told, told + 1, began, ended)


async def _server(url: str) -> float | None:
    try:
        async with asyncio.timeout(_PATIENCE_S), StateServer(url, key=MEMORY, waiting=_PATIENCE_S) as server:
            began = time.time()
            seconds, micros = await server.ask(lambda client: cast(Any, client.time()))
            ended = time.time()
        told = int(seconds) + int(micros) / 1e6
    except (RedisError, OSError, ValueError, TypeError):  # said elsewhere, or this account may not ask
        return None
    return beyond(told, told, began, ended)


def beyond(low: float, high: float, began: float, ended: float) -> float:
    """How far an instant within ``low`` and ``high`` certainly lies outside of ``began`` and ``ended``; 0 within."""
    if low > ended:
        return low - ended
    return high - began if high < began else 0.0
