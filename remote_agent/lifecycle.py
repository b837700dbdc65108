"""Opening, reloading and closing the service of one dataset agent."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from cache.inspect import Known
from cache.keys import CacheKeys, load_secrets
from cache.opening import open_cache
from cache.partition import plain
from contract.bearer_token import BearerToken
from contract.errors import Component, DatasetAgentError
from contract.key_ring import take_over
from contract.settings import Settings
from contract.telemetry import unquoted
from contract.verdict import NotGranted
from evidence.writer_client import WriterPlace
from grants.key_store import KeyName
from grants.signers import open_signer, reopen
from grants.state import open_state
from grants.state_server import StateServer
from grants.trust import load_trust
from metrics.common import release
from metrics.door import metrics_token
from metrics.folder import TableFile
from quota.opening import open_limiter
from quota.store import Names
from remote_agent.admin_cache import CacheDesk
from remote_agent.admin_token import AdminToken, admin_token
from remote_agent.approvals_place import approval_seal, open_approvals
from remote_agent.card import PublicCard, public_card_json
from remote_agent.measures import METRICS, Measures
from remote_agent.own_ledger import open_ledger
from remote_agent.service import Service, World
from remote_agent.siblings import Siblings
from remote_agent.siblings_room import room_of
from remote_agent.sources import sources_changed
from remote_agent.spool import Spool
from remote_agent.upstreams import A2aUpstreams
from remote_agent.watching import Stamps, stamps_of, watch, watch_sources
from remote_agent.world import close_world, load_world, mask_id
from telemetry.export import open_traces

log = logging.getLogger(__name__)
_GRACE_S = 60.0


@dataclass(slots=True)
class Lifecycle:
    """One running dataset agent. ``fault`` is why the newest reload was not taken over, if it was not.

    ``stamps`` are of the datasets folder just before it was read the last time.
    """

    settings: Settings
    service: Service
    public_url: str
    mask_key: bytes = field(repr=False)
    cache_keys: tuple[CacheKeys, ...] = field(default=(), repr=False)
    admin: AdminToken | None = None
    metrics: BearerToken | None = None
    fault: str | None = None
    _card: tuple[int, PublicCard] | None = None
    stamps: Stamps = field(default_factory=dict, repr=False)
    siblings: Siblings = field(default_factory=Siblings)
    _retiring: set[asyncio.Task[None]] = field(default_factory=set)
    _retired: list[World] = field(default_factory=list)
    _reloading: asyncio.Lock = field(default_factory=asyncio.Lock)

    @classmethod
    async def open(
        cls,
        settings: Settings,
        *,
        public_url: str,
        siblings: Siblings | None = None,
        generation: int = 1,
        writer: WriterPlace | None = None,
    ) -> Lifecycle:
        """Open every collaborator, or raise ``DatasetAgentError`` with one line that says what to do.

        ``generation`` is the number of what is read now: of several workers, one that starts late
        counts from where the others are. ``writer`` writes the ledger; without one this process does.
        """
        siblings = siblings or Siblings()
        signer = open_signer(settings, KeyName.REMOTE)
        mask_key, cache_keys = cache_secrets(settings)
        admin, metrics = admin_token(settings), metrics_token(settings, Component.REMOTE_AGENT)
        trust = load_trust(settings.trust_path)
        traces = open_traces(Component.REMOTE_AGENT, "dataset-agent", version=release())
        async with AsyncExitStack() as opened:  # what is open where a later one cannot be opened
            state = open_state(settings)
            opened.push_async_callback(state.close)
            ledger = open_ledger(settings, signer, trust)
            opened.callback(ledger.close)
            stamps = await asyncio.to_thread(stamps_of, settings.datasets)
            world = await load_world(settings, generation=generation, mask_key=mask_key)
            opened.push_async_callback(close_world, world)
            service = Service(
                agent_id=settings.agent_id,
                world=world,
                trust=trust,
                signer=signer,
                state=state,
                cache=open_cache(settings),
                mask_id=mask_id(mask_key),
                ledger=ledger,
                max_result_bytes=settings.max_result_bytes,
                cache_enabled=settings.cache_enabled,
                call_timeout=settings.call_timeout,
                leaf_ttl=settings.leaf_ttl,
                spool=Spool.open(settings, clock=lambda: service.clock(), room=room_of(siblings)),
                public_url=public_url.rstrip("/"),
                upstreams=A2aUpstreams.open(settings, signer),
                approvals=open_approvals(settings),
                limiter=open_limiter(settings, StateServer.reach, lambda: load_secrets(settings)[0]),
                measures=_measures(siblings),
                traces=traces,
            )
            opened.pop_all()
        if writer is not None:
            service.ledger.use(writer)
        service.limiter.exceeded = lambda over: service.measures.limited(over.kind, over.what)
        service.cache.observed(service.measures.looked, service.measures.breaker)
        url = public_url.rstrip("/")
        return cls(settings, service, url, mask_key, cache_keys, admin, metrics, stamps=stamps, siblings=siblings)

    async def reload(self) -> None:
        """Take over descriptors, principals, policies, trust and the agent's own keys; requests in flight keep the old.

        A broken dataset does not stop a reload: it is served as it was, if it was. Broken
        principals, policies, trust or keys do, and the old ones stay in force. A key that was
        replaced stays in hand for grants that name it, as long as it is in the store. What
        issuers publish is forgotten: no key of theirs is believed before it was read anew.
        """
        async with self._reloading:
            old = self.service.world
            self.stamps = await asyncio.to_thread(stamps_of, self.settings.datasets)
            try:
                (keys,) = await reopen(self.settings, KeyName.REMOTE)
                mask_key, cache_keys = cache_secrets(self.settings)
                admin, metrics = admin_token(self.settings), metrics_token(self.settings, Component.REMOTE_AGENT)
                approval_keys = approval_seal(self.settings)
                names = Names(load_secrets(self.settings)[0])
                world = await load_world(self.settings, generation=old.generation + 1, mask_key=mask_key, before=old)
                trust = load_trust(self.settings.trust_path)
            except DatasetAgentError as error:
                self.fault = error.message
                log.error("reload refused, the old version stays in force: %s", unquoted(error.message))
                return
            except Exception as error:
                self.fault = f"the reload failed with {type(error).__name__}: see what was edited last"
                log.error("reload refused, the old version stays in force: %s", type(error).__name__)
                return
            self._say_mended(old, world)
            self.fault = None
            take_over(self.service.signer, keys)  # first: a card that is being signed is another generation's
            # together: rows that the old engines masked with the old key are not stored under the new one
            self.mask_key, self.cache_keys, self.service.mask_id = mask_key, cache_keys, mask_id(mask_key)
            self.service.cache.take_over(cache_keys[0])
            self.service.approvals.take_over(approval_keys)
            self.service.limiter.take_over(names)
            self.admin, self.metrics = admin, metrics
            self.service.trust, self.service.world = trust, world
            self.service.published_keys.forget()
            if self.service.upstreams is not None:
                self.service.upstreams.forget(trust.agents)
            self._retire(old)

    def _say_mended(self, old: World, world: World) -> None:
        """What was told to be broken is told to be right again, to whoever follows the log."""
        if self.fault is not None:
            log.warning("reload accepted: what was refused before is put right")
        for name in sorted({*old.invalid, *old.outdated} & set(world.datasets) - set(world.outdated)):
            log.warning("dataset %s is put right, and served as it is now", name)

    async def watch(self, reload: Callable[[], Awaitable[None]]) -> None:
        """Call ``reload`` after every edit below the datasets folder or of a source elsewhere, until cancelled."""
        settings = self.settings
        async with asyncio.TaskGroup() as watching:
            if settings.watch_interval:
                files = watch(settings.datasets, settings.watch_interval, taken=lambda: self.stamps, reload=reload)
                watching.create_task(files)
            if settings.source_interval:
                watching.create_task(watch_sources(settings.source_interval, changed=self._elsewhere, reload=reload))

    async def _elsewhere(self) -> bool:
        return await sources_changed(self.settings, self.service.world)

    def desk(self) -> CacheDesk:
        """The cache as its operator sees it, with the keys and datasets that are in force."""

        @asynccontextmanager
        async def served(_: str) -> AsyncIterator[World]:
            yield self.service.world

        def known() -> Known:
            return {
                (plain(dataset), plain(name)): capability.descriptor.sensitivity
                for dataset, held in self.service.world.datasets.items()
                for name, capability in held.capabilities.items()
            }

        return CacheDesk(self.settings, lambda: self.cache_keys, served, lambda: self.service.clock(), known)

    def status(self) -> dict[str, Any]:
        """What is served now, for operators; no secret."""
        world = self.service.world
        return {
            "generation": world.generation,
            "fault": self.fault,
            "datasets": sorted(world.datasets),
            "invalid": dict(world.invalid),
            "outdated": dict(world.outdated),
        }

    async def readiness(self) -> tuple[bool, dict[str, Any]]:
        """Whether requests can be answered. Anybody may read it: counts, and no name of a dataset or file."""
        world = self.service.world
        report: dict[str, Any] = {
            "generation": world.generation,
            "policy_version": world.policy_version,
            "datasets": len(world.datasets),
            "invalid": len(world.invalid),
            "outdated": len(world.outdated),
            "reload": "ok" if self.fault is None else "refused",
            "cache": await self.service.cache.standing(),
        }
        try:
            await self.service.state.health()
            await asyncio.to_thread(self.service.ledger.health)  # it may lie on a server
        except (NotGranted, DatasetAgentError) as error:
            log.error("not ready: %s", error.message)
            return False, report | {"status": "unready"}
        return True, report | {"status": "ready"}

    def public_card(self) -> PublicCard:
        """The signed public card of the present generation."""
        world = self.service.world
        if self._card is None or self._card[0] != world.generation:
            card = public_card_json(
                (served.descriptor for served in world.datasets.values()),
                agent_id=self.service.agent_id,
                public_url=self.public_url,
                signer=self.service.signer,
            )
            self._card = (world.generation, PublicCard.of(card))
        return self._card[1]

    async def close(self) -> None:
        """Close stores and engines; safe to call once after the last request."""
        await self.service.refreshes.close()
        for retiring in list(self._retiring):
            retiring.cancel()
        await close_world(self.service.world)
        if self.service.upstreams is not None:
            await self.service.upstreams.close()
        self.service.spool.close()
        await self.service.cache.close()
        await self.service.approvals.close()
        await self.service.limiter.close()
        await self.service.state.close()
        self.service.ledger.close()
        await asyncio.to_thread(self.service.traces.close)

    def _retire(self, old: World) -> None:
        async def later() -> None:
            try:
                await asyncio.sleep(_GRACE_S)
            finally:
                self._retired = [world for world in self._retired if world is not old]
                await close_world(old, beside=[self.service.world, *self._retired])

        self._retired.append(old)
        task = asyncio.create_task(later())
        self._retiring.add(task)
        task.add_done_callback(self._retiring.discard)


def _measures(siblings: Siblings) -> Measures:
    """Of several workers each reads what the others count, so that any of them tells of all."""
    alone = siblings.count == 1
    return Measures(None if alone else TableFile(siblings.folder / "metrics", siblings.own, METRICS))


def cache_secrets(settings: Settings) -> tuple[bytes, tuple[CacheKeys, ...]]:
    """The key of hash masks and the keys of the cache, the current ones first. Raises a CONFIGURATION fault."""
    secrets = load_secrets(settings)
    mask_key = hmac.digest(secrets[0], b"dataset-agent/mask/1", hashlib.sha256)
    return mask_key, tuple(CacheKeys.from_secret(secret) for secret in secrets)
