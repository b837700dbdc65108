"""The index of what is offered, kept from one question to the next for as long as nothing of it changed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import is_
from typing import Final

from control_plane.descriptor import DatasetDescriptor
from control_plane.discovery import CatalogueEntry, DiscoveryIndex
from delegation.offer import Offer

_AT_ONCE: Final = 100
MAX_READ: Final = 50
"""Public datasets a question is read over, whether their reader may use them or not: the best, where there are more."""


@dataclass(frozen=True, slots=True)
class Catalogue:
    """What can be found, and the offer behind each entry by agent and dataset."""

    index: DiscoveryIndex
    offers: Mapping[tuple[str, str], Offer]

    def readable(self, question: str) -> tuple[Offer, ...]:
        """The public offers that a question is read over, best first where they are not all."""
        if sum(offer.public is not None for offer in self.offers.values()) <= MAX_READ:
            return tuple(self.offers.values())
        return tuple(self.of(entry) for entry in self.index.public(question, limit=MAX_READ))

    def of(self, entry: CatalogueEntry) -> Offer:
        return self.offers[entry.agent_id, entry.descriptor.dataset]


class Finder:
    """One catalogue at a time. A large one is built beside the loop, once for all who wait for it."""

    def __init__(self) -> None:
        self._over: Sequence[Offer] = ()
        self._catalogue = _built(())
        self._building = asyncio.Lock()

    async def over(self, offers: Sequence[Offer]) -> Catalogue:
        """The catalogue of just these offers. Cards that did not change hand out the same ones again."""
        if self._is_of(offers):
            return self._catalogue
        async with self._building:
            if not self._is_of(offers):
                aside = len(offers) > _AT_ONCE
                self._catalogue = await asyncio.to_thread(_built, offers) if aside else _built(offers)
                self._over = offers
            return self._catalogue

    def _is_of(self, offers: Sequence[Offer]) -> bool:
        return len(offers) == len(self._over) and all(map(is_, offers, self._over))


def _built(offers: Sequence[Offer]) -> Catalogue:
    entries = [_entry(offer, offer.descriptor) for offer in offers if isinstance(offer.descriptor, DatasetDescriptor)]
    return Catalogue(DiscoveryIndex(entries), {(offer.agent_id, offer.dataset): offer for offer in offers})


def _entry(offer: Offer, descriptor: DatasetDescriptor) -> CatalogueEntry:
    public = offer.public.capabilities if isinstance(offer.public, DatasetDescriptor) else ()
    shown = frozenset(capability.name for capability in public)
    return CatalogueEntry(descriptor, offer.agent_id, offer.agent_url, shown)
