"""Agent cards: fetched by us, verified with the key pinned in ``trust.toml``, kept for a while.

Handing ADK a card object skips ADK's own checks of addresses, so every check is here: the
address is https or loopback (or a private network, by setting), no redirect is followed, the
signature is the pinned agent's (a ``jku`` is ignored), the card names that agent, the
extension is declared required, and the RPC address is of the same origin as the card. What
another agent can cost here is bounded too: the bytes and the shape of a card before it is
read, the time that public and extended card take together, how often it is tried, how many are
fetched at once and how many are kept. A card that is fetched again is asked for by its validators, and
read again only where its bytes are others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

import httpx
from a2a.types.a2a_pb2 import AgentCard

from contract.errors import SignerUnavailable
from contract.tracing import Kind, tracing
from contract.verdict import NotGranted, Reason
from delegation.card_memory import MAX_KEPT, MAX_KEPT_BYTES, Seen, kept_for
from delegation.card_reader import CARD_BOUNDS, Described, InvalidCard, ReadCard, read_card, read_extended
from delegation.credentials import Assertions
from delegation.http import UNAVAILABLE, ReplyTooLarge, UnsafeAddress, busy, checked_url, same_origin
from delegation.offer import Offer
from delegation.trace import with_trace
from delegation.wire import service_parameters
from grants.trust import TrustedAgent

log = logging.getLogger(__name__)

CARD_PATH: Final = "/.well-known/agent-card.json"
PATIENCE: Final = 10.0
"""Seconds for the whole of an agent's public and extended card."""
PAUSE: Final = 5.0
"""Seconds for which an agent whose card could not be had is not asked for it again."""
AT_ONCE: Final = 16
"""Agents whose cards are fetched at the same time."""
_NEVER: Final = float("-inf")
_JSONRPC: Final = "JSONRPC"
_ASK_EXTENDED: Final = {"jsonrpc": "2.0", "id": "card", "method": "GetExtendedAgentCard", "params": {}}
_AT_ONCE: Final = 16 * 1024

Read = TypeVar("Read")


@dataclass(frozen=True, slots=True)
class RemoteCard:
    """A verified card. ``rpc_url`` is where its calls go, ``offers`` what it offers to whoever reads it here.

    ``public`` and ``extended`` are what it was made of, for when it is fetched again.
    """

    agent_id: str
    url: str
    rpc_url: str
    card: AgentCard = field(repr=False)
    offers: tuple[Offer, ...]
    public: Seen | None = field(default=None, repr=False)
    extended: Seen | None = field(default=None, repr=False)

    @property
    def size(self) -> int:
        return sum(seen.size for seen in (self.public, self.extended) if seen is not None)


class _Unavailable(Exception):
    """An agent that says of itself that it cannot answer now."""


@dataclass(frozen=True, slots=True)
class _Failed:
    """An attempt that failed: when it began, and until when it is the answer."""

    began: float
    until: float
    url: str
    stop: NotGranted


@dataclass(frozen=True, slots=True)
class _Kept:
    """A card, when it was fetched, and the agent as the trust file knew it when it was verified."""

    at: float
    card: RemoteCard
    agent: TrustedAgent

    def serves(self, agent: TrustedAgent, url: str, now: float, ttl: float) -> bool:
        """Whether it would be believed now: a card is of the keys that are pinned, not of those that were."""
        told = self.card.public.fresh_for if self.card.public else None
        return self.is_of(agent, url) and 0 <= now - self.at < kept_for(ttl, told)

    def is_of(self, agent: TrustedAgent, url: str) -> bool:
        return self.agent == agent and self.card.url == url.rstrip("/")


class CardBook:
    """Verified cards by agent id, each kept for ``ttl`` seconds after it was fetched.

    Fetching takes at most ``patience`` seconds; a failure is the answer for ``PAUSE`` seconds more.
    """

    def __init__(
        self,
        http: httpx.AsyncClient,
        assertions: Assertions,
        *,
        private_network: bool,
        ttl: float,
        patience: float = PATIENCE,
    ) -> None:
        self.http = http
        self._assertions = assertions
        self._private_network = private_network
        self._ttl = ttl
        self._patience = patience
        self._kept: dict[str, _Kept] = {}
        self._forgotten = 0
        self._failed: dict[str, _Failed] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._gate = asyncio.Semaphore(AT_ONCE)

    async def card(self, agent: TrustedAgent, url: str, now: float) -> RemoteCard:
        """The agent's verified card, at most ``ttl`` seconds old.

        Raises ``NotGranted`` with REMOTE_UNREACHABLE, REMOTE_UNAVAILABLE, REMOTE_TIMEOUT or REMOTE_CARD_INVALID.
        """
        async with self._locks.setdefault(agent.id, asyncio.Lock()):
            kept = self._kept.get(agent.id)
            if kept is not None and kept.serves(agent, url, now, self._ttl):
                return kept.card
            self._check_pause(agent, url, now)
            forgotten = self._forgotten
            async with self._gate:
                began = asyncio.get_running_loop().time()
                try:
                    card = await self._fetch(agent, url, now)
                except NotGranted as stop:
                    took = asyncio.get_running_loop().time() - began
                    own = stop.reason is Reason.KEYS_UNAVAILABLE
                    if not own and forgotten == self._forgotten:
                        self._failed[agent.id] = _Failed(now, now + took + PAUSE, url, stop)
                    raise
            # what was forgotten meanwhile may be what this fetch began with
            self._keep(agent, _Kept(now if forgotten == self._forgotten else _NEVER, card, agent))
            return card

    async def offers(self, agent: TrustedAgent, url: str, now: float) -> tuple[Offer, ...]:
        """What the agent's card offers this reader. Raises as ``card``.

        Only what an extended card offers is ``direct``: that card alone is handed to a reader
        whom the agent knows. What is read from a public card is not, whatever it says of itself.
        """
        return (await self.card(agent, url, now)).offers

    def verified(self, agent_id: str) -> RemoteCard | None:
        """The newest verified card of an agent, however old; for calls planned from it."""
        kept = self._kept.get(agent_id)
        return None if kept is None else kept.card

    def forget(self, agent_id: str) -> None:
        """The next ``card`` fetches again: what was kept turned out stale. Calls planned from it still go out."""
        self._forgotten += 1
        self._failed.pop(agent_id, None)
        kept = self._kept.get(agent_id)
        if kept is not None:
            self._kept[agent_id] = replace(kept, at=_NEVER)

    def forget_all(self) -> None:
        """As ``forget``, for every agent."""
        self._forgotten += 1
        for agent_id in [*self._kept, *self._failed]:
            self.forget(agent_id)

    def _keep(self, agent: TrustedAgent, card: _Kept) -> None:
        """As the newest; the oldest are dropped beyond what may be kept, though not the newest."""
        self._failed.pop(agent.id, None)
        self._kept.pop(agent.id, None)
        self._kept[agent.id] = card
        size = sum(kept.card.size for kept in self._kept.values())
        while len(self._kept) > 1 and (len(self._kept) > MAX_KEPT or size > MAX_KEPT_BYTES):
            oldest = next(iter(self._kept))
            size -= self._kept.pop(oldest).card.size
        if len(self._locks) > 2 * MAX_KEPT:
            self._locks = {name: lock for name, lock in self._locks.items() if lock.locked() or name in self._kept}
            self._failed = {name: failed for name, failed in self._failed.items() if name in self._locks}

    def _check_pause(self, agent: TrustedAgent, url: str, now: float) -> None:
        failed = self._failed.get(agent.id)
        # Whoever waited for the same attempt came after it began.
        if failed is not None and failed.url == url and failed.began <= now < failed.until:
            raise NotGranted(failed.stop.reason, failed.stop.message)

    async def _fetch(self, agent: TrustedAgent, url: str, now: float) -> RemoteCard:
        try:
            async with asyncio.timeout(self._patience):
                with tracing("card", Kind.CLIENT) as span:
                    span.tell(agent_id=agent.id)
                    return await self._both(agent, url, now)
        except SignerUnavailable as error:
            raise NotGranted(Reason.KEYS_UNAVAILABLE, "a key of this agent cannot be used now") from error
        except (InvalidCard, UnsafeAddress, ReplyTooLarge) as error:
            raise NotGranted(Reason.REMOTE_CARD_INVALID, f"the card of {agent.id}: {error}") from error
        except _Unavailable as error:
            raise NotGranted(Reason.REMOTE_UNAVAILABLE, f"{agent.id} hands out no card now: {error}") from error
        except (TimeoutError, httpx.TimeoutException) as error:
            raise NotGranted(Reason.REMOTE_TIMEOUT, f"{agent.id} did not answer in time") from error
        except (httpx.RequestError, OSError) as error:
            raise NotGranted(
                Reason.REMOTE_UNREACHABLE, f"{agent.id} cannot be reached; check that it runs at that address"
            ) from error
        except Exception as error:
            # Libraries raise what they like for a card that was made to break them; it is one agent's
            # card, and the others' must still be read.
            log.warning("reading the card of %s failed with %s", agent.id, type(error).__name__)
            raise NotGranted(Reason.REMOTE_CARD_INVALID, f"the card of {agent.id} cannot be read") from error

    async def _both(self, agent: TrustedAgent, url: str, now: float) -> RemoteCard:
        base = checked_url(url, private_network=self._private_network)
        kept = self._kept.get(agent.id)
        before = kept.card if kept is not None and kept.is_of(agent, url) else None
        public = await self._public(base, agent, before.public if before else None)
        reachable = self._rpc_url(public.read.card, base)
        extended = await self._extended(public.read.card, reachable, agent, now, before.extended if before else None)
        if before and before.public and public.read is before.public.read and _read(extended) is _read(before.extended):
            return replace(before, public=public, extended=extended)  # and all that was made of it stays
        full = (extended or public).read
        offers = _offers(agent, base, public.read, full, direct=extended is not None)
        return RemoteCard(agent.id, base, self._rpc_url(full.card, base), full.card, offers, public, extended)

    async def _public(self, base: str, agent: TrustedAgent, before: Seen | None) -> Seen:
        headers = {"Accept": "application/json"} | (before.conditions() if before else {})
        response = await self.http.get(base + CARD_PATH, headers=headers, extensions=CARD_BOUNDS.extensions)
        _check_available(response)
        if response.status_code == httpx.codes.NOT_MODIFIED and before is not None and before.conditions():
            return before.told(response.headers)
        if response.status_code != httpx.codes.OK:
            raise InvalidCard(f"the address answers with HTTP {response.status_code}")
        return await _seen(response, before, lambda data: read_card(data, agent))

    async def _extended(
        self, public: AgentCard, rpc_url: str, agent: TrustedAgent, now: float, before: Seen | None
    ) -> Seen | None:
        """The extended card; ``None`` where there is none, or where the agent does not know its reader."""
        if not public.capabilities.extended_agent_card:
            return None
        credentials = {"Authorization": await self._assertions.fresh(agent.id, now)}
        headers = service_parameters(None, {**credentials, **with_trace()})
        response = await self.http.post(rpc_url, json=_ASK_EXTENDED, headers=headers, extensions=CARD_BOUNDS.extensions)
        if response.status_code == httpx.codes.UNAUTHORIZED:
            return None
        _check_available(response)
        if response.status_code != httpx.codes.OK:
            raise InvalidCard("its extended card is not handed out")
        return await _seen(response, before, lambda data: read_extended(data, agent))

    def _rpc_url(self, card: AgentCard, base: str) -> str:
        for interface in card.supported_interfaces:
            if interface.protocol_binding == _JSONRPC and interface.protocol_version.startswith("1."):
                rpc_url = checked_url(interface.url, private_network=self._private_network)
                if not same_origin(rpc_url, base):
                    raise InvalidCard("its JSON-RPC address is of another origin than the card")
                return str(interface.url)
        raise InvalidCard("it offers no JSON-RPC interface of A2A 1.0")


def _check_available(response: httpx.Response) -> None:
    if response.status_code in UNAVAILABLE:
        away = "; its signer may be away" if response.status_code == httpx.codes.SERVICE_UNAVAILABLE else ""
        raise _Unavailable(busy(response) + away)


async def _seen(response: httpx.Response, before: Seen | None, read: Callable[[bytes], ReadCard]) -> Seen:
    """The card of a reply. Where it says what it said before, what was read then is the card still."""
    body = response.content
    if before is not None and before.is_read_from(body):
        return before.told(response.headers)
    found = Seen.of(await _aside(body, read), body, response.headers)
    return replace(found, read=before.read) if before is not None and found.read == before.read else found


def _read(seen: Seen | None) -> ReadCard | None:
    return None if seen is None else seen.read


async def _aside(data: bytes, read: Callable[[bytes], Read]) -> Read:
    """``read(data)``; for a large card in a thread, so that nobody else waits for it."""
    return read(data) if len(data) <= _AT_ONCE else await asyncio.to_thread(read, data)


def _offers(agent: TrustedAgent, base: str, public: ReadCard, full: ReadCard, *, direct: bool) -> tuple[Offer, ...]:
    shown: dict[str, Described] = {descriptor.dataset: descriptor for descriptor in public.descriptors}
    return tuple(
        Offer(agent.id, base, str(full.card.name), descriptor, shown.get(descriptor.dataset), direct)
        for descriptor in full.descriptors
    )
