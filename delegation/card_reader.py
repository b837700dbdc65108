"""Reads a card from another agent: its signature is judged before anything costly is made of it.

``docs/extension.md`` says what is signed. The value that was parsed is the value that is
verified and the value that is used; protobuf, which costs most, gets only what is believed by
then, and without the datasets, which are read from the JSON itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from a2a.types.a2a_pb2 import AgentCard
from google.protobuf.json_format import ParseDict
from pydantic import ValidationError

from contract.canonical import InvalidJson, b64url, canonical_json, parse_json, unb64url
from contract.extension import EXTENSION_URI
from contract.ids import is_slug
from contract.signing import PublicKey
from control_plane.descriptor import DatasetDescriptor
from control_plane.registry import InvalidDataset
from delegation.http import Bounds
from delegation.reply_reader import whole_numbers
from grants.trust import TrustedAgent

CARD_BOUNDS: Final = Bounds(size=4 * 2**20, values=200_000)
"""Of a public or an extended card. A shipped dataset takes 7 kB and 330 values of it."""
MAX_DATASETS: Final = 20_000
_MAX_SIGNATURES: Final = 16
_MAX_HEADER: Final = 4_096
_ALGORITHM: Final = "EdDSA"

Described = DatasetDescriptor | InvalidDataset


class InvalidCard(Exception):
    """What is wrong with a card, without quoting it."""


@dataclass(frozen=True, slots=True)
class ReadCard:
    """A card whose signature held. ``card`` is without the extensions' params, which ``descriptors`` are from."""

    card: AgentCard = field(repr=False)
    descriptors: tuple[Described, ...]


def read_card(data: bytes, agent: TrustedAgent) -> ReadCard:
    """The card of ``agent`` in these bytes. Raises ``InvalidCard``."""
    return verified(parse(data), agent)


def read_extended(data: bytes, agent: TrustedAgent) -> ReadCard:
    """The card in the JSON-RPC response to GetExtendedAgentCard. Raises ``InvalidCard``."""
    reply = parse(data)
    if not isinstance(reply, dict) or reply.get("error") or "result" not in reply:
        raise InvalidCard("its extended card is not handed out")
    return verified(reply["result"], agent)


def parse(data: bytes) -> Any:
    """Strict JSON. Raises ``InvalidCard``."""
    try:
        return parse_json(data, limit=CARD_BOUNDS.size)
    except InvalidJson as error:
        raise InvalidCard(str(error)) from error


def verified(value: Any, agent: TrustedAgent) -> ReadCard:
    """The card as it was signed with a key that is accepted for ``agent``. Raises ``InvalidCard``."""
    if not isinstance(value, dict):
        raise InvalidCard("it is not an object")
    _check_signature(value, agent)
    params = _params(value)
    if params.get("agent_id") != agent.id:
        raise InvalidCard("it names another agent than the one its key is pinned for")
    try:
        card = ParseDict(_without_params(value), AgentCard(), ignore_unknown_fields=True)
    except Exception as error:  # protobuf's parse errors quote their input
        raise InvalidCard("it is not an agent card") from error
    return ReadCard(card, _descriptors(params))


def _check_signature(value: Mapping[str, Any], agent: TrustedAgent) -> None:
    """RFC 7515 over the canonical card; any other key, algorithm or ``jku`` is passed over."""
    claimed = list(_signed_with(value.get("signatures"), agent))
    if not claimed:
        raise InvalidCard("it has no signature by a key that is pinned for the agent")
    try:
        payload = b64url(canonical_json(_canonical({k: v for k, v in value.items() if k != "signatures"}) or {}))
    except InvalidJson as error:
        raise InvalidCard("it has no canonical form") from error
    if not any(key.verifies(signature, f"{protected}.{payload}".encode()) for key, protected, signature in claimed):
        raise InvalidCard("its signature does not hold")


def _signed_with(signatures: Any, agent: TrustedAgent) -> Iterator[tuple[PublicKey, str, bytes]]:
    """Of the first few signatures those that say to be by a key of ``agent``: key, protected header, signature."""
    for item in signatures[:_MAX_SIGNATURES] if isinstance(signatures, list) else ():
        protected, signature = (item.get("protected"), item.get("signature")) if isinstance(item, dict) else (0, 0)
        if not isinstance(protected, str) or not isinstance(signature, str):
            continue
        try:
            header, raw = parse_json(unb64url(protected), limit=_MAX_HEADER), unb64url(signature)
        except (InvalidJson, ValueError):
            continue
        if not isinstance(header, dict) or header.get("alg") != _ALGORITHM or "crit" in header:
            continue
        kid = header.get("kid")
        key = agent.key if kid is None else agent.accepted_key(kid) if isinstance(kid, str) else None
        if key is not None:
            yield key, protected, raw


def _canonical(value: Any) -> Any:
    """Without empty text, lists and objects, whole numbers as integers; ``None`` where nothing is left."""
    if isinstance(value, dict):
        return {k: kept for k, v in value.items() if (kept := _canonical(v)) is not None} or None
    if isinstance(value, list):
        return [kept for v in value if (kept := _canonical(v)) is not None] or None
    return None if value == "" else whole_numbers(value)


def _extensions(value: Mapping[str, Any]) -> list[dict[str, Any]]:
    capabilities = value.get("capabilities")
    listed = capabilities.get("extensions", []) if isinstance(capabilities, dict) else []
    return [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []


def _params(value: Mapping[str, Any]) -> Mapping[str, Any]:
    for extension in _extensions(value):
        if extension.get("uri") == EXTENSION_URI:
            if extension.get("required") is not True:
                raise InvalidCard("it does not require the execution-grant extension")
            params = whole_numbers(extension.get("params"))
            return params if isinstance(params, dict) else {}
    raise InvalidCard("it does not declare the execution-grant extension")


def _without_params(value: Mapping[str, Any]) -> dict[str, Any]:
    bare = [{k: v for k, v in item.items() if k != "params"} for item in _extensions(value)]
    return {**value, "capabilities": {**value["capabilities"], "extensions": bare}}


def _descriptors(params: Mapping[str, Any]) -> tuple[Described, ...]:
    """Every dataset on the card; one that cannot be read stays, as invalid, under its name."""
    listed = params.get("descriptors", [])
    if not isinstance(listed, list) or len(listed) > MAX_DATASETS:
        raise InvalidCard(f"its descriptors are not a list of at most {MAX_DATASETS}")
    found: dict[str, Described] = {}
    for raw in listed:
        descriptor = _descriptor(raw)
        if descriptor is None or descriptor.dataset in found:
            raise InvalidCard("it lists a dataset without a name, or one twice")
        found[descriptor.dataset] = descriptor
    return tuple(found.values())


def _descriptor(raw: Any) -> Described | None:
    try:
        return DatasetDescriptor.model_validate(raw)
    except Exception as error:  # validators raise more than ValidationError, such as OverflowError for a date
        name = raw.get("dataset") if isinstance(raw, dict) else None
        if not isinstance(name, str) or not is_slug(name):
            return None
        count = error.error_count() if isinstance(error, ValidationError) else 1
        return InvalidDataset(name, f"the card's descriptor has {count} errors")
