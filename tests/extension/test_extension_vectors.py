"""The vectors of the extension: made again they are the same, and this product and a stranger's verifier agree on each."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from contract.call import Operation
from contract.signing import PublicKey
from contract.verdict import VERDICTS, NotGranted, Reason
from grants.details import details_of
from grants.trust import Trust, TrustedAgent, TrustedIssuer
from grants.verify import verify
from remote_agent.outcome import Request
from remote_agent.refusals import OUTWARD
from tests.extension import tiny_verifier
from tests.extension.vector_maker import FILE, written

DOCUMENT: Final = json.loads(FILE.read_text(encoding="utf-8"))
VECTORS: Final = DOCUMENT["vectors"]
PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "extension.md"
OURS: Final = {path.name for path in PAGE.parents[1].iterdir() if path.is_dir()} - {"tests"}


def trust() -> Trust:
    stated = DOCUMENT["trust"]
    return Trust(
        issuers={
            url: TrustedIssuer(
                url,
                tuple(PublicKey.from_jwk(key) for key in issuer["keys"]),
                (),
                frozenset(issuer["tenants"]),
                issuer["subject_prefix"],
            )
            for url, issuer in stated["issuers"].items()
        },
        agents={
            name: TrustedAgent(name, "http://127.0.0.1:1", PublicKey.from_jwk(agent["keys"][0]))
            for name, agent in stated["agents"].items()
        },
        policy_versions=frozenset(stated["policy_versions"]),
    )


def of_the_product(vector: Mapping[str, Any]) -> dict[str, Any]:
    received = vector["received"]
    operation = Operation(**received["operation"])
    request = Request(client=received["client"], operation=operation, grants=tuple(vector["headers"]))
    try:
        grant = verify(
            request.grant_header(),
            trust=trust(),
            audience=received["audience"],
            client=received["client"],
            operation=operation,
            now=received["now"],
        )
    except NotGranted as stop:
        return {"reason": stop.reason.value}
    return {
        "subject": grant.subject,
        "client": grant.client,
        "txn": grant.txn,
        "leaf_jti": grant.leaf_jti,
        "leaf_digest": grant.leaf_digest,
        "details": [plain(detail) for detail in details_of(grant.scopes)],
    }


def expected(vector: Mapping[str, Any]) -> dict[str, Any]:
    told = dict(vector["expect"])
    if "details" in told:
        told["details"] = [plain(detail) for detail in sorted(told["details"], key=lambda one: one["identifier"])]
    return told


def plain(detail: Mapping[str, Any]) -> dict[str, Any]:
    """A detail with its lists in one order: they are sets."""
    constraints = {
        column: {kind: sorted(value, key=repr) if isinstance(value, list) else value for kind, value in held.items()}
        for column, held in detail.get("constraints", {}).items()
    }
    lists = {name: sorted(value) for name, value in detail.items() if isinstance(value, list)}
    return {**detail, **lists, **({"constraints": constraints} if constraints else {})}


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["id"])
def test_the_product_says_what_the_vector_says(vector: dict[str, Any]) -> None:
    assert of_the_product(vector) == expected(vector)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["id"])
def test_a_verifier_written_from_the_document_alone_says_what_the_vector_says(vector: dict[str, Any]) -> None:
    assert tiny_verifier.verify(DOCUMENT["trust"], vector["headers"], vector["received"]) == vector["expect"]


def test_the_vectors_made_again_are_the_same() -> None:
    assert FILE.read_text(encoding="utf-8") == written()


def test_every_vector_has_a_name_of_its_own() -> None:
    assert len({vector["id"] for vector in VECTORS}) == len(VECTORS)


def test_the_vectors_hold_every_reason_that_needs_no_memory() -> None:
    met = {vector["expect"].get("reason") for vector in VECTORS} - {None}
    grants = {reason.value for reason in Reason if reason.value.startswith("GRANT_")}
    needs_memory = {"GRANT_REPLAYED", "GRANT_REVOKED"}
    assert met == grants - needs_memory | {"NO_ACTIVE_GRANT", "UNKNOWN_POLICY_VERSION"}


def test_the_verifier_of_a_stranger_imports_nothing_of_the_product() -> None:
    for name in ("tiny_verifier.py", "forge.py", "vector_cases.py"):
        tree = ast.parse(Path(__file__).with_name(name).read_text(encoding="utf-8"))
        imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert not {module.partition(".")[0] for module in imported} & OURS, name


def test_the_table_of_reason_codes_is_the_code() -> None:
    rows = [line.split("|")[1:4] for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    told = {
        row[0].strip(" `"): (row[1].strip(), row[2].strip())
        for row in rows
        if row[1].strip() in ("REFUSED", "INDETERMINATE")
    }
    named = [reason for reason in Reason if reason.value.startswith("GRANT_")]
    named += [Reason.NO_ACTIVE_GRANT, Reason.UNKNOWN_POLICY_VERSION]
    named += [Reason.REPLAY_MEMORY_LOST, Reason.STATE_UNAVAILABLE, Reason.KEYS_UNAVAILABLE]
    assert told == {
        reason.value: (VERDICTS[reason].value, "yes" if OUTWARD[reason].retryable else "no") for reason in named
    }
