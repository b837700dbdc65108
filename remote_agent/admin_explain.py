"""What the key of a request would be, part by part, and why it would be answered from the cache or not.

Nothing runs, no grant is spent, nothing is recorded or counted, and no row, argument or person
is in what comes out: plain dimensions are text, everything else is a digest. Of a restricted
capability it tells how many entries there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from cache.inspect import AtHand
from cache.keys import CacheKeys
from cache.nearest import Near, Sought, nearest
from cache.partition import PLAIN, hidden_parts, partition, plain
from cache.result_cache import ResultCache
from cache.selection import Selection, Sort, listing
from cache.store import CacheStore
from contract.authority import Authority
from contract.result import Limits
from contract.scope import Sensitivity
from contract.settings import Settings
from contract.verdict import NotGranted
from contract.zone import read_zone
from queries.bind import ArgumentsMissing
from remote_agent.admin_query import Asked
from remote_agent.admin_request import as_asked
from remote_agent.derived import follow
from remote_agent.outcome import BoundCall
from remote_agent.reuse import intent_of, stale_s, storable
from remote_agent.service import World

_WHY: Final = {
    "hit": "an equal call under an equal authorization is stored, and is young enough",
    "stale": "it is stored, is past its time, and would be answered once more while it is refreshed",
    "expired": "it is stored, and its time is over",
    "too_old": "it is stored, and is older than the capability allows, or as of an earlier instant than what is served now",
    "too_large": "it is stored, and has more rows or bytes than an answer may have now",
    "integrity": "something is stored under this key that does not open: cache verify names it",
    "unavailable": "the store does not answer",
    "off": "results are not stored: DATASET_AGENT_CACHE_ENABLED is false",
    "derived": "nothing is stored under this key that may be served, and it follows from the stored result of a wider call",
}


async def explain(
    asked: Asked,
    world: World,
    store: CacheStore,
    keys: Sequence[CacheKeys],
    *,
    settings: Settings,
    now: float,
) -> dict[str, Any]:
    """One JSON object: ``verdict``, ``outcome``, ``because``, ``key``, ``components``, ``nearest`` and ``derived_from``.

    ``keys`` are those at hand, the current ones first. Raises ``StoreUnavailable``, and NOT_FOUND
    for a person whom the directory does not name, or a dataset or capability that is not served.
    """
    told: dict[str, Any] = {"dataset": asked.dataset, "capability": asked.capability, "restricted": False}
    try:
        call, decision, authority = await as_asked(
            asked, world, agent_id=settings.agent_id, zone=read_zone(settings.zone), now=now
        )
        call.parts()
    except NotGranted as stop:
        verdict, reason = stop.decision("").verdict.value, stop.reason.value
        because = f"it would be {verdict} {reason}, so nothing would be looked up: {stop.message}"
        missing = [parameter.name for parameter in stop.parameters] if isinstance(stop, ArgumentsMissing) else []
        return told | _outcome("NONE", because, reason=reason, verdict=verdict, missing=missing)
    told |= {"verdict": decision.verdict.value}
    if call.restricted:
        return told | await _restricted(asked, store, keys, now)
    if not storable(call):
        because = "a result of this capability is never stored: it is not cacheable, not of equal rows, or another's"
        return told | _outcome("OFF", because, reason="not_stored")
    return told | await _explained(call, authority, store, keys, settings=settings, now=now)


async def _explained(
    call: BoundCall,
    authority: Authority,
    store: CacheStore,
    keys: Sequence[CacheKeys],
    *,
    settings: Settings,
    now: float,
) -> dict[str, Any]:
    results = ResultCache(store if settings.cache_enabled else None, keys[0], agent_id=settings.agent_id)
    intent, freshness = intent_of(call), call.freshness_class
    served, capability, _ = call.parts()
    limits = Limits(capability.descriptor.max_rows, settings.max_result_bytes)
    place = results.locate(authority, intent, freshness_class=freshness)

    def parts(under: CacheKeys) -> Mapping[str, str]:
        where = partition(
            authority,
            intent,
            freshness_class=freshness,
            media_type=place.partition.dimensions["media_type"],
            keys=under,
            agent_id=settings.agent_id,
        )
        return hidden_parts(where, intent, keys=under)

    looked = await results.look(
        authority,
        intent,
        freshness_class=freshness,
        max_age_s=capability.descriptor.freshness_requirement_s,
        now=now,
        stale_s=stale_s(authority, call),
        limits=limits,
        as_of=served.as_of,
    )
    reason: str = looked.reason
    source = None
    if reason not in ("hit", "stale", "unavailable", "off"):
        found = await follow(authority, call, intent, results, limits=limits, now=now)
        reason, source = ("derived", found.source.key) if found is not None else (reason, None)
    sought = Sought(intent.dataset, intent.capability, place.key, keys[0].kid, place.partition.dimensions, parts)
    near = await nearest(store, sought, *keys, now=now)
    first = near[0] if near else None
    outcome = {"hit": "HIT", "derived": "HIT", "stale": "STALE", "off": "OFF"}.get(reason, "MISS")
    return {
        **_outcome(outcome, _WHY.get(reason) or _absent(first), reason=reason),
        "key": place.key,
        "kid": keys[0].kid,
        "components": _components(sought, parts(keys[0]), first),
        "nearest": [_near(one) for one in near],
        "derived_from": source,
    }


def _outcome(outcome: str, because: str, **more: Any) -> dict[str, Any]:
    return {"outcome": outcome, "because": because, **more}


def _absent(first: Near | None) -> str:
    if first is None:
        return "nothing is stored of this capability"
    if first.differs == ("secret",):
        return "an equal call is stored under another secret, which is looked up no more"
    return f"nothing is stored under this key; the nearest entry differs in {', '.join(first.differs)}"


def _components(sought: Sought, parts: Mapping[str, str], first: Near | None) -> list[dict[str, Any]]:
    """Everything that goes into the key, with what the nearest entry has there; ``differs`` is ``None`` where unknown."""
    there: Mapping[str, str] = {} if first is None else first.entry.dimensions
    plain = [_component(name, "plain", sought.dimensions[name], there.get(name)) for name in PLAIN]
    comparable = first is not None and first.parts and first.entry.kid == sought.kid
    hidden = first.parts if first is not None and comparable else {}
    told = [_component(name, "digest", digest, hidden.get(name)) for name, digest in parts.items()]
    if first is not None and first.parts and not comparable:  # compared under the other secret
        for one in told:
            one["differs"] = one["name"] in first.differs
    return plain + told


def _component(name: str, kind: str, value: str, there: str | None) -> dict[str, Any]:
    differs = None if there is None else there != value
    return {"name": name, "kind": kind, "value": value, "nearest": there, "differs": differs}


def _near(near: Near) -> dict[str, Any]:
    entry = near.entry
    return {
        "key": entry.key,
        "kid": entry.kid,
        "age_s": entry.age_s,
        "expires_in_s": entry.expires_in_s,
        "differs": list(near.differs),
    }


async def _restricted(asked: Asked, store: CacheStore, keys: Sequence[CacheKeys], now: float) -> dict[str, Any]:
    chosen = Selection({"dataset": asked.dataset, "capability": asked.capability})
    at_hand = AtHand.of(keys, {(plain(asked.dataset), plain(asked.capability)): Sensitivity.RESTRICTED})
    found = await listing(store, chosen, at_hand, now=now, sort=Sort.KEY, limit=1)
    because = "the capability is restricted: whether a result is stored tells that somebody asked"
    return {**_outcome("WITHHELD", because), "restricted": True, "entries": sum(found.restricted.values())}
