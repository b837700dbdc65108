"""The exact result cache: an equal call under an equal authorization, or a MISS.

Finding and keeping ask for an ``Authority``, so nothing is looked up before a grant was
verified and a decision granted. No fault of a store leaves this module.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Final, Literal, TypeVar

from cache.aside import Aside
from cache.breaker import Breaker, Changed, LeftAlone
from cache.entry import EntryError, Header, seal
from cache.family import Families, Family, Source
from cache.flight import Flights, Run
from cache.found import Hit, Miss, MissReason, Place, judged
from cache.keys import CacheKeys
from cache.partition import entry_key, hidden_parts, partition, plain
from cache.store import CacheStore, StoreUnavailable
from cache.tally import Tally
from contract.authority import Authority
from contract.call import RESULT_MEDIA_TYPE
from contract.result import UNLIMITED, CacheOutcome, Execution, Intent, Limits, ResultDocument

__all__ = ["Hit", "Miss", "MissReason", "Place", "ResultCache"]

MAX_RESULT_BYTES: Final = 2**20
PATIENCE_S: Final = 10.0
T = TypeVar("T")
Derive = Callable[[], Awaitable[Hit | None]]
"""Makes the result of a call out of a stored one of its family; ``None`` where there is none that holds it."""
_log = logging.getLogger("dataset_agent.cache")


class ResultCache:
    """Partitions and sealing over one store. ``store`` is ``None`` where caching is off."""

    def __init__(
        self,
        store: CacheStore | None,
        keys: CacheKeys,
        *,
        max_result_bytes: int = MAX_RESULT_BYTES,
        breaker: Breaker | None = None,
        agent_id: str = "",
    ) -> None:
        """``agent_id`` is whose results they are: agents that share a store and a secret find nothing of one another's."""
        self._agent_id = agent_id
        self.store = store
        self._keys = keys
        self._max_result_bytes = max_result_bytes
        self._breaker = breaker or Breaker()
        self._aside = Aside()
        self._flights = None if store is None else Flights(store, self._breaker, aside=self._aside)
        self._families = None if store is None else Families(store, self._breaker)
        self._tally = Tally(store, self._breaker)

    def observed(self, seen: Callable[[str], None], changed: Changed) -> None:
        """Tell ``seen`` each event of ``counters`` but those of restricted capabilities, and ``changed`` the breaker's."""
        self._tally.seen = seen
        self._breaker.changed = changed

    @property
    def counters(self) -> Mapping[str, int]:
        """This process's events since start: ``hit`` (and of these ``derived``, ``stale``), ``kept`` and the miss reasons."""
        return self._tally.totals

    async def standing(self) -> Literal["ok", "off", "unavailable"]:
        """Whether the store answers just now: it is asked, unless it is left alone after faults. Opens and closes nothing."""
        if self.store is None:
            return "off"
        if self._breaker.is_resting:
            return "unavailable"
        try:
            await self.store.health()
        except StoreUnavailable:
            return "unavailable"
        return "ok"

    def locate(
        self, authority: Authority, intent: Intent, *, freshness_class: str, media_type: str = RESULT_MEDIA_TYPE
    ) -> Place:
        """The partition and key of a call, without looking. Raises an INTERNAL fault on a mismatch."""
        keys = self._keys
        where = partition(
            authority,
            intent,
            freshness_class=freshness_class,
            media_type=media_type,
            keys=keys,
            agent_id=self._agent_id,
        )
        return Place(where, entry_key(where, intent, keys=keys), keys)

    def take_over(self, keys: CacheKeys) -> None:
        """Look up and write under ``keys`` from now on; what was stored before is found no more, and expires."""
        self._keys = keys

    async def find(
        self,
        authority: Authority,
        intent: Intent,
        *,
        freshness_class: str,
        max_age_s: int | None,
        now: float,
        stale_s: int = 0,
        limits: Limits = UNLIMITED,
        as_of: str | None = None,
        media_type: str = RESULT_MEDIA_TYPE,
        again: bool = False,
        derive: Derive | None = None,
    ) -> Hit | Miss:
        """As ``look``, and counted.

        ``again`` says that the caller already missed once, so that one call counts as one
        miss. Where the store answered and has no such entry, ``derive`` may make it out of another.
        """
        found = await self.look(
            authority,
            intent,
            freshness_class=freshness_class,
            max_age_s=max_age_s,
            now=now,
            stale_s=stale_s,
            limits=limits,
            as_of=as_of,
            media_type=media_type,
        )
        if isinstance(found, Miss) and derive is not None and found.reason not in ("unavailable", "off"):
            derived = await derive()
            if derived is not None:
                self._tally.count("derived", derived.outcome)
                if found.reason == "integrity":  # a hit hides no damage
                    self._tally.count("integrity", derived.outcome)
                found = derived
        if isinstance(found, Hit):
            self._tally.count("hit", found.outcome)
            if found.is_stale:
                self._tally.count("stale", found.outcome)
        elif not again and found.reason != "off":
            self._tally.count(found.reason, found.outcome)
        return found

    async def look(
        self,
        authority: Authority,
        intent: Intent,
        *,
        freshness_class: str,
        max_age_s: int | None,
        now: float,
        stale_s: int = 0,
        limits: Limits = UNLIMITED,
        as_of: str | None = None,
        media_type: str = RESULT_MEDIA_TYPE,
        peek: bool = False,
    ) -> Hit | Miss:
        """The stored result of an equal call in the same partition.

        A MISS is what was executed more than ``max_age_s`` seconds ago; what is as of an earlier instant than
        ``as_of`` (in the form of a document's), where one is given; what is beyond ``limits``; what was altered or
        moved; and what the store does not give in time. What is past the time that it may be reused for is a MISS
        too, unless it was stored to be answered after that and is so by at most ``stale_s`` seconds: then it is a
        hit that says STALE. With ``peek`` no use is counted: for who will not answer with it.
        """
        place = self.locate(authority, intent, freshness_class=freshness_class, media_type=media_type)
        store = self.store
        if store is None:
            return place.miss("off")
        try:
            entry = await self._breaker.call(lambda: store.get(place.key, now=now, peek=peek))
        except StoreUnavailable as error:
            if not isinstance(error, LeftAlone):
                _log.warning("cache lookup failed: %s", error)
            return place.miss("unavailable")
        if entry is None:
            return place.miss("absent")
        return judged(entry, place, max_age_s, stale_s, now, limits, as_of)

    async def keep(
        self,
        authority: Authority,
        intent: Intent,
        document: ResultDocument,
        execution: Execution,
        *,
        freshness_class: str,
        reuse_s: float,
        now: float,
        media_type: str = RESULT_MEDIA_TYPE,
        stale_s: int = 0,
        family: Family | None = None,
        owner: str | None = None,
        made_of: Intent | None = None,
    ) -> None:
        """Store a complete result until ``reuse_s`` seconds after its execution began, and ``stale_s`` more.

        A truncated or too large result is not stored, and a store that fails is left at that.
        With ``owner`` it is dropped where the lease that ``once`` gave is not that one's any more, and what was
        ``made_of`` the stored result of another call of the partition is dropped where that one is gone.
        With ``family`` other calls of it may be answered from this one until then. What is slow
        to be stored is stored after this has returned.
        """
        store = self.store
        started = min(execution.started, now)
        if store is None or document.truncated or len(document.body) > self._max_result_bytes:
            return
        if started + reuse_s <= now:
            return
        place = self.locate(authority, intent, freshness_class=freshness_class, media_type=media_type)
        header = Header(
            dimensions=place.partition.dimensions,
            template=plain(intent.template_digest),
            as_of=document.as_of,
            started=started,
            exp=started + reuse_s,
            size=len(document.body),
            stale_s=0 if place.partition.restricted else stale_s,
        )
        try:
            entry = seal(
                header,
                document,
                execution,
                key=place.key,
                partition_id=place.partition.id,
                keys=place.keys,
                parts=hidden_parts(place.partition, intent, keys=place.keys),
            )
        except EntryError as error:
            _log.warning("result not cached: %s", error)
            return

        beside = None if made_of is None else entry_key(place.partition, made_of, keys=place.keys)

        async def put() -> None:
            await self._put(store, place, header, entry, document, family=family, owner=owner, now=now, beside=beside)

        putting = self._aside.begin(put())
        if owner is not None and self._flights is not None:
            self._flights.keeping(owner, putting)
        await self._aside.wait(putting)

    async def _put(
        self,
        store: CacheStore,
        place: Place,
        header: Header,
        entry: bytes,
        document: ResultDocument,
        *,
        family: Family | None,
        owner: str | None,
        now: float,
        beside: str | None,
    ) -> None:
        def put(over: str | None = None) -> Awaitable[bool]:
            return self._breaker.call(
                lambda: store.put(place.key, entry, exp=header.end, now=now, owner=owner, over=over, beside=beside)
            )

        try:
            kept = await put()
            if not kept and owner is not None and self._flights is not None:
                over = await self._flights.stranger(place.key, keys=place.keys)
                kept = over is not None and await put(over)
        except StoreUnavailable as error:
            if not isinstance(error, LeftAlone):
                _log.warning("result not cached: %s", error)
            return
        if kept:
            self._tally.count("kept", place.told("MISS"))
        if kept and family is not None and self._families is not None:
            await self._families.add(place.partition, family, header, document, keys=place.keys, now=now)

    async def sources(
        self, authority: Authority, intent: Intent, family: Family, *, freshness_class: str, now: float
    ) -> tuple[Source, ...]:
        """What is known to be stored of a call's family in its partition, the smallest first. One round trip."""
        if self._families is None:
            return ()
        place = self.locate(authority, intent, freshness_class=freshness_class)
        return await self._families.sources(place.partition, family, keys=place.keys, now=now)

    def derived(
        self, authority: Authority, intent: Intent, document: ResultDocument, source: Hit, *, freshness_class: str
    ) -> Hit:
        """The hit that ``document``, made of ``source``, is; it says so where the capability may tell."""
        place = self.locate(authority, intent, freshness_class=freshness_class)
        return Hit(replace(document, derived=True), source.execution, place.told("HIT", derived=True))

    async def once(
        self,
        authority: Authority,
        intent: Intent,
        *,
        freshness_class: str,
        look: Callable[[], Awaitable[T | None]],
        run: Run[T],
        patience_s: float = PATIENCE_S,
        media_type: str = RESULT_MEDIA_TYPE,
    ) -> T:
        """What ``look`` finds, else what ``run`` returns and keeps; one ``run`` for equal calls at once.

        ``look`` is the caller's own ``find`` (``None`` for a miss) and ``run`` its own
        execution, which is given the ``owner`` to ``keep`` under, or ``None`` where it is not
        to keep. Waiting takes time: revocations must be read again before a row leaves.
        """
        if self._flights is None:
            return await run(None)
        place = self.locate(authority, intent, freshness_class=freshness_class, media_type=media_type)
        return await self._flights.once(place.key, look=look, run=run, patience_s=patience_s, keys=place.keys)

    async def alone(
        self,
        authority: Authority,
        intent: Intent,
        *,
        freshness_class: str,
        run: Run[T],
        media_type: str = RESULT_MEDIA_TYPE,
    ) -> T | None:
        """What ``run`` returns, and ``None`` at once where an equal call is run already, in whatever process.

        ``run`` is given the ``owner`` to ``keep`` under.
        """
        if self._flights is None:
            return None
        place = self.locate(authority, intent, freshness_class=freshness_class, media_type=media_type)
        return await self._flights.alone(place.key, run, keys=place.keys)

    def refreshed(self, outcome: CacheOutcome, *, well: bool) -> None:
        """Count what ran behind a stored result that was answered past its time."""
        self._tally.count("refreshed" if well else "refresh_failed", outcome)

    async def flush(self) -> None:
        """Add this process's counters to the store's."""
        await self._tally.flush()

    async def close(self) -> None:
        """Flush and close the store; never raises for a store that is down."""
        if self.store is None:
            return
        await self._aside.close()
        await self._tally.close()
        try:
            await self.store.close()
        except StoreUnavailable as error:
            _log.warning("cache store did not close: %s", error)
