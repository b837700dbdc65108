"""The attacker of the demo: somebody who holds a real grant and edits it on the way."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

import httpx

from contract.call import Operation
from contract.canonical import b64url, sha256_hex, unb64url
from contract.extension import DECISION_KEY, EXTENSION_URI, GRANT_HEADER
from contract.ids import new_id
from contract.scope import Scope, Sensitivity
from contract.settings import Settings
from contract.signing import Signer
from contract.verdict import Decision, Reason
from control_plane.principals import load_directory
from control_plane.registry import load_registry
from grants.client import client_assertion
from grants.derive import derive, header_value
from grants.key_store import KeyName
from grants.mint import mint_root
from grants.signers import open_signer
from grants.trust import load_trust

_DATASET, _CAPABILITY = "purification-batches", "compare_batches"
_CALL = json.dumps(
    {"dataset": _DATASET, "capability": _CAPABILITY, "arguments": {"batch_a": "B001", "batch_b": "B002"}}
).encode()


async def send_edited_grant(settings: Settings) -> dict[str, Any]:
    """Send a call whose leaf was edited after it was signed; the dataset agent's decision."""
    holder = open_signer(settings, KeyName.ROOT)
    root, *between, leaf = _chain(settings, holder)
    bearer = client_assertion(holder, agent_id=settings.root_id, audience=settings.agent_id, now=time.time())
    headers = {
        "A2A-Version": "1.0",
        "A2A-Extensions": EXTENSION_URI,
        "Authorization": f"Bearer {bearer}",
        GRANT_HEADER: header_value((root, *between, _later(leaf))),
    }
    part = {"raw": base64.b64encode(_CALL).decode(), "mediaType": "application/json"}
    message = {"messageId": new_id("msg"), "role": "ROLE_USER", "parts": [part]}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    async with httpx.AsyncClient(timeout=30, trust_env=False) as http:
        answer = (await http.post(f"{settings.url}/", json=body, headers=headers)).json()
    return dict(answer["result"]["task"]["metadata"][DECISION_KEY])


def _later(leaf: str) -> str:
    """The leaf with a later expiry and its old signature."""
    header, payload, signature = leaf.split(".")
    claims = json.loads(unb64url(payload))
    claims["exp"] += 30
    return ".".join((header, b64url(json.dumps(claims).encode()), signature))


def _chain(settings: Settings, holder: Signer) -> tuple[str, ...]:
    trust, now = load_trust(settings.trust_path), time.time()
    agent, audience = trust.agents[settings.root_id], trust.agents[settings.agent_id]
    principal = load_directory(settings.datasets / "principals.yaml").named("process_engineer")
    if principal is None:
        raise LookupError("the demo asks as process_engineer, whom the directory does not know")
    descriptor = load_registry(settings.datasets).datasets[_DATASET]
    token = mint_root(
        open_signer(settings, KeyName.ISSUER),
        issuer_url=settings.issuer_url,
        decision=Decision(Reason.PRINCIPAL_AUTHORIZED, "BPD-DATA-014", "2026.09.01", "the root admits the call"),
        principal=principal,
        holder=agent,
        scope=Scope(
            dataset=_DATASET,
            dataset_version=descriptor.version,
            revision=descriptor.revision,
            actions=frozenset({_CAPABILITY}),
            locations=frozenset({settings.agent_id}),
            max_sensitivity=Sensitivity.INTERNAL,
        ),
        intent=_CAPABILITY,
        rctx={"trace_id": sha256_hex(new_id("trace").encode())[:32]},
        now=now,
    )
    operation = Operation("SendMessage", call_hash=sha256_hex(_CALL))
    return derive((token,), holder, audience=audience, operation=operation, now=now)
