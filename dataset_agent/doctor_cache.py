"""The part of ``doctor`` that looks at the cache store: whether it answers, is bounded, and lets go of what is old."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from cache.opening import CACHE_FILE, open_look
from cache.redis_store import BUDGET_S, INSPECT_S, RedisStore, ServerMemory
from contract.redis_options import read_place
from contract.settings import Settings
from dataset_agent.finding import Finding, acheck

_NAME: Final = "cache store"


async def check_cache(settings: Settings, *, none_yet: str) -> Finding:
    """``none_yet`` is what to say where there is no store."""
    if settings.cache_url is None:
        if not (settings.home / CACHE_FILE).exists():
            return Finding(_NAME, "absent", none_yet)
        return await acheck(_NAME, lambda: _answers(settings))
    found = await acheck(_NAME, lambda: _server(settings, settings.cache_url or ""))
    full = found.status == "ok" and found.advice.startswith(_FULL)
    return Finding(_NAME, "broken", found.advice) if full else found


async def _answers(settings: Settings) -> None:
    store = open_look(settings)
    try:
        await store.health()
    finally:
        await store.close()


async def _server(settings: Settings, url: str) -> str:
    """What is worth knowing. Raises ``StoreUnavailable`` where it does not answer at all."""
    store = RedisStore.connect(url, budget_s=INSPECT_S)
    try:
        began = time.perf_counter()
        await store.health()
        waited = time.perf_counter() - began
        told = memory_advice(await store.memory())
    finally:
        await store.close()
    if waited > BUDGET_S:
        told = told or f"it took {waited * 1_000:.0f} ms to connect and answer; calls wait {BUDGET_S * 1_000:.0f} ms"
    shared = settings.state_url is not None and _nodes(settings.state_url) & _nodes(url)
    return told or (
        "it is the state store's server, too, which must not evict: give it one of its own" if shared else ""
    )


_FULL: Final = "it is full"


def memory_advice(servers: Sequence[ServerMemory]) -> str:
    """The gravest of what its servers say; begins with ``it is full`` where nothing new is stored."""
    if any(server.is_full and server.policy == "noeviction" for server in servers):
        return f"{_FULL} and evicts nothing, so nothing new is stored; run: CONFIG SET maxmemory-policy volatile-lfu"
    if any(server.limit == 0 for server in servers):
        return "its memory has no bound; run: CONFIG SET maxmemory 256mb, and maxmemory-policy volatile-lfu"
    if any(server.policy == "noeviction" for server in servers):
        return "it will evict nothing when it is full; run: CONFIG SET maxmemory-policy volatile-lfu"
    if evicted := sum(server.evicted for server in servers):
        return f"it evicted {evicted} entries since it started: a larger maxmemory would keep them"
    return ""


def _nodes(url: str) -> set[tuple[str, int]]:
    return set(read_place(url).nodes)
