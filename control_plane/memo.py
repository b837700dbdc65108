"""From what other words were read as to what these words mean: a proposal, or nothing.

It knows no store. What it is given was kept for whoever shares the asker's partition; what it
returns is confirmed against the descriptors as they are now, and is admitted as any other call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Protocol
from zoneinfo import ZoneInfo

from contract.canonical import InvalidJson, canonical_json
from contract.scope import Sensitivity
from contract.zone import UTC
from control_plane.confirm import confirm
from control_plane.descriptor import DatasetCapability, DatasetDescriptor
from control_plane.memo_call import Call, cues
from control_plane.memo_confirm import accounts, dates_are_said, means_the_same
from control_plane.memo_likeness import LEAST_LIKE, MAX_TRIED, likeness
from control_plane.memo_telling import told
from control_plane.memo_words import is_relative
from control_plane.proposals import Proposal

VERSION: Final = "4"
"""Of what is kept and how it is confirmed; another one reads nothing that this one wrote."""


class Read(Protocol):
    """Words and the call they were read as."""

    @property
    def words(self) -> str: ...

    @property
    def dataset(self) -> str: ...

    @property
    def capability(self) -> str: ...

    @property
    def arguments(self) -> Mapping[str, Any]: ...


def is_kept(descriptor: DatasetDescriptor, capability: DatasetCapability) -> bool:
    """Whether words that ask for it may be remembered: never for what is restricted.

    A partition for each subject would be safe too, but such words name subjects and findings,
    and are better written nowhere, whoever may read them.
    """
    return Sensitivity.RESTRICTED not in (descriptor.sensitivity, capability.sensitivity)


def as_kept(held: Read, readable: Sequence[DatasetDescriptor]) -> Proposal | None:
    """The call that exactly these words were read as, where it is still one that the asker may be read as asking."""
    called = _called(held, readable)
    if called is None or not is_kept(*called):
        return None
    descriptor, capability = called
    given = {p.name: confirm(p, held.arguments[p.name]) for p in capability.parameters if p.name in held.arguments}
    if set(given) != set(held.arguments) or None in given.values():
        return None
    if any(parameter.required and parameter.name not in given for parameter in capability.parameters):
        return None
    return Proposal(descriptor.dataset, capability.name, MappingProxyType(given), (), 1.0)


def alike(
    words: str, recent: Sequence[Read], readable: Sequence[DatasetDescriptor], *, zone: ZoneInfo = UTC
) -> Proposal | None:
    """The one call that these words provably mean, of those that words written alike were read as.

    ``None`` where none is proven, and where two different ones are.
    """
    ranked = sorted(((likeness(words, held.words), held.words, held) for held in recent), key=lambda item: item[:2])
    tried = [held for like, _, held in reversed(ranked[-MAX_TRIED:]) if like >= LEAST_LIKE]
    found: dict[bytes, Proposal] = {}
    refuted: set[bytes] = set()
    for held in tried:
        proposal, call = as_kept(held, readable), call_of(held, readable, zone=zone)
        if proposal is None or call is None or (meaning := _meaning(proposal)) in refuted | found.keys():
            continue
        if not accounts(told(words, call), call):
            refuted.add(meaning)  # by these words alone, whatever others were read as it
        elif means_the_same(words, held.words, call):
            found[meaning] = proposal
    return next(iter(found.values())) if len(found) == 1 else None


def lasts(words: str, call: Call) -> bool:
    """Whether what the words mean is the same on another day, or is kept for this day alone."""
    return is_relative(words) or dates_are_said(words, call)


def call_of(held: Read, readable: Sequence[DatasetDescriptor], *, zone: ZoneInfo = UTC) -> Call | None:
    called = _called(held, readable)
    if called is None:
        return None
    return Call(*called, held.arguments, cues(called[1], readable), zone)


def agrees(proposal: Proposal, reading: Proposal | None) -> bool:
    """Whether a proposal leaves what the deterministic reader found as it is. It may only add to it."""
    if reading is None:
        return True
    if (proposal.dataset, proposal.capability) != (reading.dataset, reading.capability):
        return False
    return all(proposal.arguments.get(name) == value for name, value in reading.arguments.items())


def _called(held: Read, readable: Sequence[DatasetDescriptor]) -> tuple[DatasetDescriptor, DatasetCapability] | None:
    descriptor = next((item for item in readable if item.dataset == held.dataset), None)
    capability = None if descriptor is None else descriptor.capability(held.capability)
    return None if descriptor is None or capability is None else (descriptor, capability)


def _meaning(proposal: Proposal) -> bytes:
    try:
        return canonical_json([proposal.dataset, proposal.capability, dict(proposal.arguments)])
    except InvalidJson:
        return repr((proposal.dataset, proposal.capability, sorted(proposal.arguments.items()))).encode()
