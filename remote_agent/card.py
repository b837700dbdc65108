"""The agent card: ``agent_card.json`` filled in with addresses, keys, skills and a signature.

What a card shows comes from the descriptors alone, so editing a descriptor changes the card
and nothing has to be edited twice. Restricted datasets and capabilities are on no public card.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from a2a.types.a2a_pb2 import AgentCard, AgentCardSignature, AgentInterface, AgentSkill
from a2a.utils.constants import PROTOCOL_VERSION_1_0
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.struct_pb2 import Struct

from contract.canonical import b64url, canonical_json, sha256_hex
from contract.extension import EXTENSION_URI
from contract.scope import Sensitivity
from contract.signing import Signer
from control_plane.descriptor import DatasetDescriptor

CARD_FILE: Final = Path(__file__).resolve().parent.parent / "agent_card.json"
# The registered JOSE name that A2A SDKs verify today (RFC 8037); the key is Ed25519.
CARD_ALGORITHM: Final = "EdDSA"


def card_version() -> str:
    """The version of this agent, as its card says it."""
    return str(json.loads(CARD_FILE.read_text(encoding="utf-8"))["version"])


def public_view(descriptor: DatasetDescriptor) -> DatasetDescriptor | None:
    """The descriptor as anyone may see it; ``None`` where nothing of it is public."""
    if descriptor.is_restricted:
        return None
    shown = [c for c in descriptor.capabilities if c.sensitivity is not Sensitivity.RESTRICTED]
    return only(descriptor, {capability.name for capability in shown})


def only(descriptor: DatasetDescriptor, names: set[str]) -> DatasetDescriptor | None:
    """The descriptor with just these capabilities; ``None`` where none is left."""
    kept = tuple(capability for capability in descriptor.capabilities if capability.name in names)
    return descriptor.model_copy(update={"capabilities": kept}) if kept else None


def build_card(
    descriptors: Iterable[DatasetDescriptor],
    *,
    agent_id: str,
    public_url: str,
    signer: Signer,
    broken: Iterable[str] = (),
) -> AgentCard:
    """A signed card for these descriptors, in their order. ``public_url`` has no trailing slash.

    ``broken`` datasets are listed by name alone, so that a client knows them as invalid and
    not as unknown.
    """
    card = ParseDict(json.loads(CARD_FILE.read_text(encoding="utf-8")), AgentCard())
    shown = list(descriptors)
    for url, binding in ((f"{public_url}/", "JSONRPC"), (public_url, "HTTP+JSON")):
        card.supported_interfaces.append(
            AgentInterface(url=url, protocol_binding=binding, protocol_version=PROTOCOL_VERSION_1_0)
        )
    for descriptor in shown:
        card.skills.extend(_skills(descriptor))
    params = {
        "agent_id": agent_id,
        "jwk": signer.public_key.jwk(),
        "jwks_url": f"{public_url}/.well-known/jwks.json",
        "descriptors": [descriptor.to_json() for descriptor in shown] + [{"dataset": name} for name in broken],
    }
    for extension in card.capabilities.extensions:
        if extension.uri == EXTENSION_URI:
            extension.params.CopyFrom(ParseDict(params, Struct()))
    return sign_card(card, signer)


@dataclass(frozen=True, slots=True)
class PublicCard:
    """The public card as it is sent: made once, since any stranger may ask for it as often as they like."""

    body: bytes
    etag: str

    @classmethod
    def of(cls, card: dict[str, Any]) -> PublicCard:
        body = canonical_json(card)
        return cls(body, f'"{sha256_hex(body)}"')


def public_card_json(
    descriptors: Iterable[DatasetDescriptor], *, agent_id: str, public_url: str, signer: Signer
) -> dict[str, Any]:
    """The public card as JSON."""
    views = (public_view(descriptor) for descriptor in descriptors)
    shown = [view for view in views if view is not None]
    return dict(MessageToDict(build_card(shown, agent_id=agent_id, public_url=public_url, signer=signer)))


def sign_card(card: AgentCard, signer: Signer) -> AgentCard:
    """Append a JWS over the canonical card (A2A 1.0, section 8.4; RFC 7515, RFC 8785)."""
    header = {"alg": CARD_ALGORITHM, "kid": signer.public_key.thumbprint, "typ": "JOSE"}
    protected = b64url(canonical_json(header))
    signature = signer.sign(f"{protected}.{b64url(card_payload(card))}".encode())
    card.signatures.append(AgentCardSignature(protected=protected, signature=b64url(signature)))
    return card


def card_payload(card: AgentCard) -> bytes:
    """The bytes a card signature covers: no signatures, no empty members, canonical JSON."""
    raw = MessageToDict(card)
    raw.pop("signatures", None)
    return canonical_json(_without_empty(raw) or {})


def _skills(descriptor: DatasetDescriptor) -> list[AgentSkill]:
    return [
        AgentSkill(
            id=f"{descriptor.dataset}.{capability.name}",
            name=capability.name.replace("_", " "),
            description=capability.description,
            tags=[descriptor.dataset, capability.effect.value, capability.sensitivity.value],
            examples=list(capability.examples),
        )
        for capability in descriptor.capabilities
    ]


def _without_empty(value: Any) -> Any:
    """The value without empty text, lists and objects; ``None`` where nothing is left."""
    if isinstance(value, dict):
        return {k: kept for k, v in value.items() if (kept := _without_empty(v)) is not None} or None
    if isinstance(value, list):
        return [kept for v in value if (kept := _without_empty(v)) is not None] or None
    return None if value == "" else value
