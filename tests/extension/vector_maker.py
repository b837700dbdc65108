"""``python -m tests.extension.vector_maker`` writes ``conformance/execution-grant-v1.json``."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any, Final

from tests.extension.forge import CALL, FIRST, ISSUER, NOW, OTHER_ISSUER, ROOT, SECOND, THIRD, jwk
from tests.extension.vector_cases import Case, cases

FILE: Final = Path(__file__).resolve().parents[2] / "conformance" / "execution-grant-v1.json"

TRUST: Final = {
    "issuers": {
        ISSUER: {"keys": [jwk(ISSUER)], "tenants": ["acme"], "subject_prefix": "u-"},
        OTHER_ISSUER: {"keys": [jwk(OTHER_ISSUER)], "tenants": ["other"], "subject_prefix": "o-"},
    },
    "agents": {agent: {"keys": [jwk(agent)]} for agent in (ROOT, FIRST, SECOND, THIRD)},
    "policy_versions": ["p-1"],
}


def document() -> dict[str, Any]:
    """Everything that is written, always the same: keys are made from names, and Ed25519 takes no chance."""
    return {
        "extension": "urn:dataset-agent:ext:execution-grant:v1",
        "about": "Grants a receiver must accept or refuse; see docs/extension.md. The keys are good for nothing else.",
        "trust": TRUST,
        "vectors": [_vector(case) for case in cases()],
    }


def written() -> str:
    return json.dumps(document(), indent=1, ensure_ascii=True) + "\n"


def _vector(case: Case) -> dict[str, Any]:
    received = {"audience": FIRST, "client": ROOT, "now": NOW, "operation": dict(CALL), **case.received}
    headers = [case.forge.header()] if case.text is None else list(case.text)
    expect = {"reason": case.reason} if case.reason else _accepted(case, headers[0])
    return {"id": case.id, "about": case.about, "headers": headers, "received": received, "expect": expect}


def _accepted(case: Case, header: str) -> dict[str, Any]:
    root, leaf = (_claims(token) for token in (header.split(",")[0], header.split(",")[-1]))
    signed = header.split(",")[-1].rpartition(".")[0]
    return {
        "subject": root["sub"],
        "client": leaf["act"]["sub"],
        "txn": root["txn"],
        "leaf_jti": leaf["jti"],
        "leaf_digest": hashlib.sha256(signed.encode()).hexdigest(),
        "details": leaf["authorization_details"],
    }


def _claims(token: str) -> dict[str, Any]:
    payload = token.split(".")[1]
    claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return claims


if __name__ == "__main__":
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(written(), encoding="utf-8")
    print(f"{len(document()['vectors'])} vectors in {FILE.name}")
