"""Agent cards: fetched by us, verified with the key pinned in ``trust.toml``, kept for a while.

Handing ADK a card object skips ADK's own checks of addresses, so every check is here: the
address is https or loopback (or a private network, by setting), no redirect is followed, the
signature is the pinned agent's (a ``jku`` is ignored), the card names that agent, the
extension is declared required, and the RPC address is of the same origin as the card.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import httpx
import jwt
from a2a.client.card_resolver import parse_agent_card
from a2a.client.client import ClientCallContext
from a2a.client.errors import A2AClientTimeoutError
from a2a.client.transports.jsonrpc import JsonRpcTransport
from a2a.types.a2a_pb2 import AgentCard, GetExtendedAgentCardRequest
from a2a.utils.errors import A2AError
from a2a.utils.signing import SignatureVerificationError, create_signature_verifier
from google.protobuf.json_format import MessageToDict
from pydantic import ValidationError

from contract.canonical import InvalidJson, parse_json
from contract.errors import SignerUnavailable
from contract.extension import EXTENSION_URI
from contract.ids import is_slug
from contract.verdict import NotGranted, Reason
from control_plane.descriptor import DatasetDescriptor
from control_plane.registry import InvalidDataset
from delegation.credentials import Assertions
from delegation.http import ReplyTooLarge, UnsafeAddress, checked_url, same_origin
from delegation.offer import Offer
from delegation.reply_reader import whole_numbers
from delegation.wire import service_parameters
from grants.trust import TrustedAgent

log = logging.getLogger(__name__)

CARD_PATH: Final = "/.well-known/agent-card.json"
MAX_CARD_BYTES: Final = 4 * 2**20
MAX_DATASETS: Final = 20_000
_JSONRPC: Final = "JSONRPC"


@dataclass(frozen=True, slots=True)
class RemoteCard:
    """A verified card. ``rpc_url`` is where its calls go, ``offers`` what it offers to whoever reads it here."""

    agent_id: str
    url: str
    rpc_url: str
    card: AgentCard = field(repr=False)
    offers: tuple[Offer, ...]


class CardBook:
    """Verified cards by agent id, each kept for ``ttl`` seconds after it was fetched."""

    def __init__(self, http: httpx.AsyncClient, assertions: Assertions, *, private_network: bool, ttl: float) -> None:
        self.http = http
        self._assertions = assertions
        self._private_network = private_network
        self._ttl = ttl
        self._kept: dict[str, tuple[float, RemoteCard]] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    async def card(self, agent: TrustedAgent, url: str, now: float) -> RemoteCard:
        """The agent's verified card, at most ``ttl`` seconds old.

        Raises ``NotGranted`` with REMOTE_UNREACHABLE, REMOTE_TIMEOUT or REMOTE_CARD_INVALID.
        """
        async with self._locks.setdefault(agent.id, asyncio.Lock()):
            kept = self._kept.get(agent.id)
            if kept is not None and kept[1].url == url.rstrip("/") and 0 <= now - kept[0] < self._ttl:
                return kept[1]
            card = await self._fetch(agent, url, now)
            self._kept[agent.id] = now, card
            return card

    async def offers(self, agent: TrustedAgent, url: str, now: float) -> tuple[Offer, ...]:
        """What the agent's card offers this reader. Raises as ``card``.

        An agent to which this reader is a stranger (401) is read from its public card, and what
        that offers is not ``direct``.
        """
        return (await self.card(agent, url, now)).offers

    def verified(self, agent_id: str) -> RemoteCard | None:
        """The newest verified card of an agent, however old; for calls planned from it."""
        kept = self._kept.get(agent_id)
        return None if kept is None else kept[1]

    def forget(self, agent_id: str) -> None:
        """The next ``card`` fetches again: what was kept turned out stale. Calls planned from it still go out."""
        kept = self._kept.get(agent_id)
        if kept is not None:
            self._kept[agent_id] = float("-inf"), kept[1]

    def forget_all(self) -> None:
        """As ``forget``, for every agent."""
        for agent_id in list(self._kept):
            self.forget(agent_id)

    async def _fetch(self, agent: TrustedAgent, url: str, now: float) -> RemoteCard:
        try:
            base = checked_url(url, private_network=self._private_network)
            public = _verified(await self._public(base), agent)
            rpc_url = self._rpc_url(public, base)
            extended = await self._extended(public, rpc_url, agent, now)
            full = public if extended is None else _verified(extended, agent)
            known = extended is not None or not public.capabilities.extended_agent_card
            return RemoteCard(
                agent.id, base, self._rpc_url(full, base), full, _offers(agent, base, public, full, known)
            )
        except SignerUnavailable as error:
            raise NotGranted(Reason.KEYS_UNAVAILABLE, "a key of this agent cannot be used now") from error
        except (_InvalidCard, UnsafeAddress, SignatureVerificationError) as error:
            raise NotGranted(Reason.REMOTE_CARD_INVALID, f"the card of {agent.id}: {error}") from error
        except ReplyTooLarge as error:
            raise NotGranted(Reason.REMOTE_CARD_INVALID, f"the card of {agent.id} is too large") from error
        except (httpx.TimeoutException, A2AClientTimeoutError) as error:
            raise NotGranted(Reason.REMOTE_TIMEOUT, f"{agent.id} did not answer in time") from error
        except (httpx.HTTPError, A2AError, OSError) as error:
            raise _unavailable(agent.id, error) from error
        except Exception as error:
            # Libraries raise what they like for a card that was made to break them; it is one agent's
            # card, and the others' must still be read.
            log.warning("reading the card of %s failed with %s", agent.id, type(error).__name__)
            raise NotGranted(Reason.REMOTE_CARD_INVALID, f"the card of {agent.id} cannot be read") from error

    async def _public(self, base: str) -> AgentCard:
        response = await self.http.get(base + CARD_PATH, headers={"Accept": "application/json"})
        if response.status_code != 200:
            raise _InvalidCard(f"the address answers with HTTP {response.status_code}")
        try:
            value = parse_json(response.content, limit=MAX_CARD_BYTES)
        except InvalidJson as error:
            raise _InvalidCard(str(error)) from error
        if not isinstance(value, dict):
            raise _InvalidCard("it is not an object")
        try:
            return parse_agent_card(value)
        except Exception as error:
            raise _InvalidCard("it is not an agent card") from error

    async def _extended(self, public: AgentCard, rpc_url: str, agent: TrustedAgent, now: float) -> AgentCard | None:
        """The extended card, unverified; ``None`` where there is none, or where the agent does not know its reader."""
        if not public.capabilities.extended_agent_card:
            return None
        transport = JsonRpcTransport(self.http, public, rpc_url, is_shared_httpx=True)
        headers = service_parameters(None, {"Authorization": await self._assertions.fresh(agent.id, now)})
        try:
            return await transport.get_extended_agent_card(
                GetExtendedAgentCardRequest(), context=ClientCallContext(service_parameters=headers)
            )
        except (A2AError, httpx.HTTPError) as error:
            if _is_unauthenticated(error):
                return None
            raise
        except Exception as error:  # protobuf's parse errors and malformed JSON-RPC quote their input
            raise _InvalidCard("its extended card cannot be read") from error

    def _rpc_url(self, card: AgentCard, base: str) -> str:
        for interface in card.supported_interfaces:
            if interface.protocol_binding == _JSONRPC and interface.protocol_version.startswith("1."):
                rpc_url = checked_url(interface.url, private_network=self._private_network)
                if not same_origin(rpc_url, base):
                    raise _InvalidCard("its JSON-RPC address is of another origin than the card")
                return str(interface.url)
        raise _InvalidCard("it offers no JSON-RPC interface of A2A 1.0")


class _InvalidCard(Exception):
    """What is wrong with a card, without quoting it."""


def _verified(card: AgentCard, agent: TrustedAgent) -> AgentCard:
    create_signature_verifier(_pinned(agent), ["EdDSA"])(card)
    if _params(card).get("agent_id") != agent.id:
        raise _InvalidCard("it names another agent than the one its key is pinned for")
    return card


def _pinned(agent: TrustedAgent) -> Any:
    """A key provider that knows the agent's accepted keys and follows no ``jku``."""

    def provide(kid: str | None, jku: str | None) -> jwt.PyJWK:
        key = agent.key if kid is None else agent.accepted_key(kid)
        if key is None:
            raise jwt.InvalidKeyError("the signature names another key")
        return jwt.PyJWK({"kty": "OKP", "crv": "Ed25519", "x": key.jwk()["x"]}, algorithm="EdDSA")

    return provide


def _params(card: AgentCard) -> Mapping[str, Any]:
    for extension in card.capabilities.extensions:
        if extension.uri == EXTENSION_URI:
            if not extension.required:
                raise _InvalidCard("it does not require the execution-grant extension")
            return dict(whole_numbers(MessageToDict(extension.params)))
    raise _InvalidCard("it does not declare the execution-grant extension")


def _offers(agent: TrustedAgent, base: str, public: AgentCard, full: AgentCard, known: bool) -> tuple[Offer, ...]:
    shown = {descriptor.dataset: descriptor for descriptor in _descriptors(public)}
    return tuple(
        Offer(agent.id, base, str(full.name), descriptor, shown.get(descriptor.dataset), known)
        for descriptor in _descriptors(full)
    )


def _descriptors(card: AgentCard) -> tuple[DatasetDescriptor | InvalidDataset, ...]:
    """Every dataset on the card; one that cannot be read stays, as invalid, under its name."""
    listed = _params(card).get("descriptors", [])
    if not isinstance(listed, list) or len(listed) > MAX_DATASETS:
        raise _InvalidCard(f"its descriptors are not a list of at most {MAX_DATASETS}")
    found: dict[str, DatasetDescriptor | InvalidDataset] = {}
    for raw in listed:
        descriptor = _descriptor(raw)
        if descriptor is None or descriptor.dataset in found:
            raise _InvalidCard("it lists a dataset without a name, or one twice")
        found[descriptor.dataset] = descriptor
    return tuple(found.values())


def _descriptor(raw: Any) -> DatasetDescriptor | InvalidDataset | None:
    try:
        return DatasetDescriptor.model_validate(raw)
    except Exception as error:  # validators raise more than ValidationError, such as OverflowError for a date
        name = raw.get("dataset") if isinstance(raw, dict) else None
        if not isinstance(name, str) or not is_slug(name):
            return None
        count = error.error_count() if isinstance(error, ValidationError) else 1
        return InvalidDataset(name, f"the card's descriptor has {count} errors")


def _is_unauthenticated(error: Exception) -> bool:
    cause = error.__cause__ if isinstance(error, A2AError) else error
    return isinstance(cause, httpx.HTTPStatusError) and cause.response.status_code == httpx.codes.UNAUTHORIZED


def _unavailable(agent_id: str, error: Exception) -> NotGranted:
    cause = error.__cause__ if isinstance(error, A2AError) else error
    if isinstance(cause, ReplyTooLarge):
        return NotGranted(Reason.REMOTE_CARD_INVALID, f"the card of {agent_id} is too large")
    if isinstance(cause, httpx.RequestError | OSError):
        return NotGranted(
            Reason.REMOTE_UNREACHABLE, f"{agent_id} cannot be reached; check that it runs at that address"
        )
    return NotGranted(Reason.REMOTE_CARD_INVALID, f"{agent_id} does not hand its extended card to this root agent")
