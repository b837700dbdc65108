"""Lookups of the result cache on a server, and plain GETs of as many bytes."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from redis.asyncio import Redis

from benchmarks.chains import Chains
from cache.keys import CacheKeys
from cache.redis_store import RedisStore
from cache.result_cache import Hit, ResultCache
from contract.authority import Authority
from contract.principal import Principal
from contract.result import Execution, Intent, ResultDocument
from contract.scope import Sensitivity
from contract.settings import Settings
from contract.verdict import Decision, Reason
from control_plane.registry import load_registry
from queries.bind import bind
from queries.template import Template
from remote_agent.world import template_of

SIZES: Final = {"1 kB": 1_000, "10 kB": 10_000, "100 kB": 100_000}
_DATASET: Final = "purification-batches"
_CAPABILITY: Final = "compare_batches"
_FRESHNESS: Final = "3600s"


@dataclass(frozen=True, slots=True)
class Work:
    """One side: ``run`` takes the number of the call."""

    name: str
    run: Callable[[int], Awaitable[object]]


class Lookups:
    """A cache on a server, a plain client on it, and a result of each size in both."""

    def __init__(self, url: str) -> None:
        self._store = RedisStore.connect(url, budget_s=5.0)
        self._cache = ResultCache(self._store, CacheKeys.from_secret(bytes(range(32))))
        self._plain = Redis.from_url(url)
        self._authority, self._template = _authorized()
        self.sizes: dict[str, int] = {}

    async def works(self) -> list[Work]:
        works = []
        for place, (name, size) in enumerate(SIZES.items()):
            arguments = {"batch_a": f"B{place:03d}", "batch_b": "B100"}
            body = _rows(size)
            self.sizes[name] = len(await self._keep(arguments, body))
            await self._plain.set(name, body)
            works += [
                Work(f"plain GET, {name}", self._get(name)),
                Work(f"GET of the entry by the cache's client, {name}", self._raw(arguments)),
                Work(f"lookup, {name}", self._look(arguments)),
            ]
        return works

    async def version(self) -> str:
        return str((await self._plain.info("server")).get("valkey_version", ""))

    async def close(self) -> None:
        await self._cache.close()
        await self._plain.aclose()

    async def _keep(self, arguments: dict[str, str], body: bytes) -> bytes:
        """The entry of a result that is kept."""
        now = time.time()
        intent = _intent(self._template, self._authority, arguments)
        await self._cache.keep(
            self._authority,
            intent,
            ResultDocument(body, 1, False, "2026-08-31T22:00:00Z"),
            Execution("exe-1", "duckdb", None, "LOCAL", now, now),
            freshness_class=_FRESHNESS,
            reuse_s=3_600,
            now=now,
        )
        entry = await self._store.get(self._key(intent), now=now)
        if entry is None:
            raise SystemExit("the cache did not keep the result")
        return entry

    def _key(self, intent: Intent) -> str:
        return self._cache.locate(self._authority, intent, freshness_class=_FRESHNESS).key

    def _get(self, key: str) -> Callable[[int], Awaitable[object]]:
        async def get(_: int) -> object:
            return await self._plain.get(key)

        return get

    def _raw(self, arguments: dict[str, str]) -> Callable[[int], Awaitable[object]]:
        key = self._key(_intent(self._template, self._authority, arguments))

        async def get(_: int) -> object:
            return await self._store.get(key, now=0.0)

        return get

    def _look(self, arguments: dict[str, str]) -> Callable[[int], Awaitable[object]]:
        async def look(_: int) -> object:
            intent = _intent(self._template, self._authority, arguments)
            found = await self._cache.find(
                self._authority, intent, freshness_class=_FRESHNESS, max_age_s=86_400, now=time.time()
            )
            if not isinstance(found, Hit):
                raise SystemExit(f"a lookup was no hit: {found.reason}")
            return found

        return look


def _intent(template: Template, authority: Authority, arguments: dict[str, str]) -> Intent:
    return Intent(authority.dataset, authority.capability, template.digest, bind(template, arguments).canonical)


def _rows(size: int) -> bytes:
    """Result JSON of ``size`` bytes, of rows as they come: ids, dates, names that repeat, decimals and text."""
    rng, rows, length = random.Random(size), [], 60
    steps = ("protein_a_capture", "viral_inactivation", "cex_polishing", "aex_polishing", "viral_filtration", "uf_df")
    while True:
        day = f"20{rng.randrange(23, 27)}-{rng.randrange(1, 13):02d}-{rng.randrange(1, 29):02d}"
        figures = [f"{rng.uniform(0, 2_000):.2f}", round(rng.uniform(80, 100), 2), rng.randrange(1, 7)]
        row = [f"B{rng.randrange(240):03d}", rng.choice(steps), day, *figures]
        length += len(json.dumps(row)) + 2
        if length > size:
            break
        rows.append(row)
    body = json.dumps({"schema": [], "rows": rows, "row_count": len(rows), "truncated": False}).encode()
    return body + b" " * (size - len(body))


def _authorized() -> tuple[Authority, Template]:
    """A verified chain and a decision for the shipped capability, and its template."""
    folder = Settings().datasets
    registry = load_registry(folder)
    manifest = registry.datasets[_DATASET]
    capability = next(item for item in manifest.capabilities if item.name == _CAPABILITY)
    chains = Chains()
    grant = chains.verify(chains.passed_on(2))
    principal = Principal(
        grant.issuer, grant.subject, grant.tenant, "process_engineer", "process-engineer", Sensitivity.INTERNAL
    )
    authority = Authority.of(
        grant,
        Decision(Reason.PRINCIPAL_AUTHORIZED, "BPD-DATA-014", "2026.09.01", "the principal may"),
        principal,
        scope=grant.scopes[0],
        capability=_CAPABILITY,
        schema_version=manifest.schema_version,
        sensitivity=capability.sensitivity or manifest.sensitivity,
    )
    return authority, template_of(capability, manifest, folder / _DATASET)
