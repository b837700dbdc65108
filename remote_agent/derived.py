"""A call answered from the stored result of a wider one: in its own partition, under its own authority.

Asked only after the store has no result of the call itself. The wider result is looked up like
any other, with this caller's authority, so it is one that this caller could have asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from cache.family import Family
from cache.result_cache import Hit, ResultCache
from contract.authority import Authority
from contract.result import Intent, Limits, ResultDocument
from contract.verdict import NotGranted
from queries.bind import Bound
from queries.bind import bind as bind_arguments
from queries.rollup import roll_up
from queries.rollup_plan import RollupPlan
from remote_agent.limits import inline_limits
from remote_agent.outcome import BoundCall
from remote_agent.service import Service

_UNBOUNDED: Final = 2**53
_FEW: Final = 200
"""Rows that are put together faster than a thread is found for them."""
_TRIES: Final = 2
"""Stored results that are fetched for one call: a listed one may be gone."""


def family_of(authority: Authority, call: BoundCall, intent: Intent) -> Family | None:
    """What a call may share a stored result with; ``None`` where nothing was declared, or a mask makes it void."""
    plan = call.place()[1].rollup
    if plan is None or not plan.columns.isdisjoint(authority.masks):
        return None
    return Family(intent, plan.roles)


@dataclass(frozen=True, slots=True)
class Follows:
    """A call's result, made of the stored one of a wider call."""

    source: Hit
    document: ResultDocument
    of: Intent
    """The call that the source is the result of."""


async def follow(
    authority: Authority, call: BoundCall, intent: Intent, cache: ResultCache, *, limits: Limits, now: float
) -> Follows | None:
    """What follows from what is stored and is within ``limits``, kept nowhere; ``None`` where nothing does."""
    served, capability, bound = call.parts()
    family, plan = family_of(authority, call, intent), capability.rollup
    if family is None or plan is None:
        return None
    listed = await cache.sources(authority, intent, family, freshness_class=call.freshness_class, now=now)
    candidates = [_bound(call, family, source.arguments) for source in listed]
    holding = [wide for wide in candidates if wide is not None and plan.covers(wide.values, bound.values)]
    for wide in holding[:_TRIES]:
        of = replace(intent, arguments=wide.canonical)
        source = await cache.look(
            authority,
            of,
            freshness_class=call.freshness_class,
            max_age_s=capability.descriptor.freshness_requirement_s,
            now=now,
            as_of=served.as_of,
        )
        made = await _made(plan, source, wide, bound, limits) if isinstance(source, Hit) else None
        if isinstance(source, Hit) and made is not None:
            return Follows(source, made, of)
    return None


async def derive(authority: Authority, call: BoundCall, intent: Intent, service: Service) -> Hit | None:
    """The result of the call out of a stored one that holds it, kept under the call's own key for as long as that.

    The age that matters is the stored one's: its execution, its ``as_of``, its end.
    """
    served, _, _ = call.parts()
    found = await follow(
        authority, call, intent, service.cache, limits=inline_limits(call, service), now=service.clock()
    )
    if found is None:
        return None
    freshness = call.freshness_class
    hit = service.cache.derived(authority, intent, found.document, found.source, freshness_class=freshness)
    if served.mask_id == service.mask_id:  # what old keys masked is not stored under new ones
        await service.cache.keep(
            authority,
            intent,
            hit.document,
            hit.execution,
            freshness_class=freshness,
            reuse_s=served.descriptor.freshness.reuse_s,
            now=service.clock(),
            made_of=found.of,
        )
    return hit


async def _made(plan: RollupPlan, source: Hit, wide: Bound, bound: Bound, limits: Limits) -> ResultDocument | None:
    most = _UNBOUNDED if limits.max_bytes is None else limits.max_bytes
    make = partial(roll_up, plan, source.document, wide.values, bound.values, max_bytes=most)
    made = make() if source.document.row_count <= _FEW else await asyncio.to_thread(make)
    return made if made is not None and limits.hold(made) else None


def _bound(call: BoundCall, family: Family, own: Mapping[str, Any]) -> Bound | None:
    """A listed call's arguments, checked as if they had been sent now; ``None`` where they do not hold."""
    try:
        return bind_arguments(call.place()[1].template, {**family.fixed, **own})
    except NotGranted:
        return None
