"""Cards as JSON, signed as docs/extension.md says, without the SDK that makes honest ones."""

from __future__ import annotations

import base64
from typing import Any

import orjson
import rfc8785

from contract.extension import EXTENSION_URI
from tests.root_agent.scripted_remote import TestSigner

AGENT_ID = "urn:dataset-agent:remote"


def card_with(*, descriptors: Any) -> dict[str, Any]:
    params = {"agent_id": AGENT_ID, "descriptors": descriptors}
    extension = {"uri": EXTENSION_URI, "required": True, "params": params}
    return {"name": "a card", "version": "1", "capabilities": {"extensions": [extension]}}


def signed_card(card: dict[str, Any], signer: TestSigner) -> dict[str, Any]:
    protected = _b64(orjson.dumps({"alg": "EdDSA", "kid": signer.public_key.thumbprint, "typ": "JOSE"}))
    payload = _b64(rfc8785.dumps(_kept(card) or {}))
    signature = _b64(signer.sign(f"{protected}.{payload}".encode()))
    return {**card, "signatures": [{"protected": protected, "signature": signature}]}


def _kept(value: Any) -> Any:
    """Without empty text, lists and objects: what protobuf would not write is not signed."""
    if isinstance(value, dict):
        return {name: kept for name, item in value.items() if (kept := _kept(item)) is not None} or None
    if isinstance(value, list):
        return [kept for item in value if (kept := _kept(item)) is not None] or None
    return None if value == "" else value


def _b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
