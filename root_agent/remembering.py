"""When the memo of readings is asked, and when something is kept in it.

What is found is a proposal like the reader's or a model's: it is resolved, admitted, planned
and bound as any other. Where a reader or a model said what the words mean, that is kept after
the answer was granted, verified and recorded; what a memo said is never kept again, so no
record lives longer for being used, and none is made of another.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from contract.canonical import digest
from contract.principal import Principal
from control_plane.calendar_days import today_in
from control_plane.descriptor import DatasetDescriptor
from control_plane.discovery import permitted
from control_plane.memo import VERSION, agrees, alike, as_kept, call_of, is_kept, lasts
from control_plane.memo_words import is_momentary, is_relative, normalised
from control_plane.proposals import Proposal
from delegation.offer import Offer
from root_agent.asking import Asking
from root_agent.reading import narrowed
from root_agent.service import Service
from root_agent.wanted import TypedCall

log = logging.getLogger(__name__)

MAX_CHARS: Final = 500
"""Longer questions are not remembered: to hold one against others would cost more than to read it."""

_CHANGING: Final = {"revision", "as_of"}
"""What of a card changes with the data; no reading depends on it."""

_DIGESTS: dict[int, tuple[DatasetDescriptor, str]] = {}
_MAX_DIGESTS: Final = 1_024


async def recalled(asking: Asking, service: Service, reading: Proposal | None, now: float) -> Proposal | None:
    """The call that the words are known, or proven, to mean; ``reading`` is what the deterministic reader made of them.

    What a model read these very words as counts as if it were asked again. Words that are only
    alike must also leave the reader's own finding as it is. A memo that breaks is none. ``now`` is when it was read.
    """
    try:
        return await _recalled(asking, service, reading, now)
    except Exception as fault:  # its text may quote words
        log.error("the memo was not read: %s", type(fault).__name__)
        return None


async def _recalled(asking: Asking, service: Service, reading: Proposal | None, now: float) -> Proposal | None:
    memo, scope = service.memo, reading_scope(asking, service, now)
    if memo is None or scope is None:
        return None
    words = normalised(asking.wanted.question or "")
    readable = _readable(asking, service)
    known = await memo.exact(scope, words, now=now)
    found = None if known is None else as_kept(known, readable)
    if found is not None and (service.model is not None or agrees(found, reading)):
        service.measures.recalled("exact")
        return found
    found = alike(words, await memo.recent(scope, now=now), readable, zone=asking.wanted.zone)
    if found is not None and agrees(found, reading):
        service.measures.recalled("alike")
        return found
    service.measures.recalled("none")
    return None


def read_anew(asking: Asking, service: Service, now: float) -> Asking:
    """The asking with what its reading depends on, which says that the reading is worth keeping.

    ``now`` is the instant that it was read at, and no other: a day may end meanwhile, and its words mean another one then.
    """
    return asking if service.memo is None else replace(asking, read_under=reading_scope(asking, service, now))


async def remember(asking: Asking, service: Service) -> None:
    """Keep what the words were read as: never of restricted data, nor what another day could make untrue."""
    try:
        await _remember(asking, service)
    except Exception as fault:  # the answer is there, proven and recorded: it stays
        log.error("a reading was not remembered: %s", type(fault).__name__)


async def _remember(asking: Asking, service: Service) -> None:
    memo, target, question = service.memo, asking.target, asking.wanted.question
    if memo is None or target is None or target.missing or question is None or asking.read_under is None:
        return
    words = normalised(question)
    call = call_of(_Read(words, target.call), _readable(asking, service), zone=asking.wanted.zone)
    if call is None or not is_kept(call.descriptor, call.capability) or not lasts(words, call):
        return
    await memo.keep(
        asking.read_under,
        words,
        dataset=target.call.dataset,
        capability=target.call.capability,
        arguments=target.call.arguments,
        now=service.clock(),
    )


def reading_scope(asking: Asking, service: Service, now: float) -> tuple[Any, ...] | None:
    """All that a reading may depend on beside the words, and whose it may be; ``None`` where none may be remembered.

    The day at ``now`` (POSIX seconds) is part of it where the words may mean another one tomorrow.
    """
    principal, question = asking.principal, asking.wanted.question
    if principal is None or question is None or len(question) > MAX_CHARS or is_momentary(question):
        return None
    zone = asking.wanted.zone
    day = today_in(zone, now).isoformat() if is_relative(question) else None
    return (
        VERSION,
        _interpreter(service.model),
        principal.issuer,
        principal.tenant,
        principal.principal_class,
        asking.world_in(service).policy_version,
        [_offered(offer, principal) for offer in asking.offered],
        str(zone),
        day,
    )


class _Read:
    """Words and the call they were read as, before they are kept."""

    def __init__(self, words: str, call: TypedCall) -> None:
        self.words = words
        self.dataset = call.dataset
        self.capability = call.capability
        self.arguments = call.arguments


def _readable(asking: Asking, service: Service) -> Sequence[DatasetDescriptor]:
    """The descriptors of what this person may use; with a model only what is public of them, as it was shown."""
    principal = asking.principal
    if principal is None:
        return ()
    found: list[DatasetDescriptor] = []
    for offer in asking.offered:
        usable = narrowed(offer, _permitted(offer, principal))
        descriptor = usable.descriptor if service.model is None else usable.public
        if isinstance(descriptor, DatasetDescriptor) and descriptor.capabilities:
            found.append(descriptor)
    return found


def _permitted(offer: Offer, principal: Principal) -> frozenset[str]:
    if not isinstance(offer.descriptor, DatasetDescriptor):
        return frozenset()
    return frozenset(capability.name for capability in permitted(offer.descriptor, principal))


def _offered(offer: Offer, principal: Principal) -> list[Any]:
    told = [_digest(item) for item in (offer.descriptor, offer.public) if isinstance(item, DatasetDescriptor)]
    return [offer.agent_id, offer.dataset, told, sorted(_permitted(offer, principal))]


def _digest(descriptor: DatasetDescriptor) -> str:
    """Of all that a card says but what changes with the data. Cards are kept for a while, so this is too."""
    held = _DIGESTS.get(id(descriptor))
    if held is not None and held[0] is descriptor:
        return held[1]
    said = descriptor.model_dump(mode="json", exclude_defaults=True, exclude=_CHANGING)
    made = digest("dataset-agent/memo/descriptor", said)
    if len(_DIGESTS) >= _MAX_DIGESTS:
        _DIGESTS.clear()
    _DIGESTS[id(descriptor)] = descriptor, made
    return made


def _interpreter(model: Any) -> str:
    """Which reader it was. Another model may read other things into the same words."""
    if model is None:
        return "reader"
    return f"model {model if isinstance(model, str) else getattr(model, 'model', type(model).__name__)}"
