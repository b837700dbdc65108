"""The extended card: of everything that is served, to any client agent; under a ``discover`` leaf of what its person may ask.

The first is the same for whoever asks and wants no leaf, so it is made, signed and written once, as the public
one is: to make it takes the event loop milliseconds a dataset.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from a2a.types.a2a_pb2 import AgentCard
from a2a.utils.errors import InvalidParamsError
from google.protobuf.json_format import MessageToDict

from contract.key_ring import sign_with
from contract.signing import PublicKey
from contract.verdict import Verdict
from control_plane.descriptor import DatasetDescriptor
from remote_agent.caller import Caller
from remote_agent.card import build_card
from remote_agent.discover import DISCOVER, discover
from remote_agent.outcome import Request
from remote_agent.service import Service, World


class ExtendedCards:
    """Those of one agent, at the address ``public_url``, for one event loop."""

    def __init__(self, service: Service, public_url: str) -> None:
        self._service = service
        self._public_url = public_url
        self._whole: tuple[World, PublicKey, asyncio.Future[AgentCard]] | None = None
        self._written: tuple[AgentCard, dict[str, Any]] | None = None

    async def of(self, caller: Caller, grants: tuple[str, ...]) -> AgentCard:
        """What this caller is shown. Raises ``InvalidParamsError`` for a leaf that is refused, and ``SignerUnavailable``."""
        if not grants:
            return await self._of_everything()
        asked = Request(client=caller.agent, operation=DISCOVER, grants=grants, on_behalf_of=caller.person)
        found, shown = await discover(asked, self._service)
        if found.decision.verdict is not Verdict.GRANTED:
            raise InvalidParamsError(message=f"{found.decision.reason}: {found.decision.rationale}")
        return await self._made(list(shown))

    def told(self, card: AgentCard) -> dict[str, Any]:
        """A card as A2A's JSON."""
        if self._written is not None and self._written[0] is card:
            return self._written[1]
        told: dict[str, Any] = MessageToDict(card)
        whole = self._whole
        if whole is not None and whole[2].done() and not whole[2].exception() and whole[2].result() is card:
            self._written = card, told
        return told

    async def _of_everything(self) -> AgentCard:
        world, key = self._service.world, self._service.signer.public_key
        held = self._whole
        if held is None or held[0] is not world or held[1] != key or (held[2].done() and held[2].exception()):
            descriptors = [served.descriptor for served in world.datasets.values()]
            making = asyncio.ensure_future(self._made(descriptors, broken=sorted(world.broken)))
            making.add_done_callback(lambda made: made.cancelled() or made.exception())  # it may be that nobody waits
            held = self._whole = (world, key, making)
        return await asyncio.shield(held[2])

    async def _made(self, descriptors: list[DatasetDescriptor], broken: Iterable[str] = ()) -> AgentCard:
        return await sign_with(
            self._service.signer,
            lambda signer: build_card(
                descriptors,
                broken=broken,
                agent_id=self._service.agent_id,
                public_url=self._public_url,
                signer=signer,
            ),
        )
