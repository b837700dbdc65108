"""Project Wycheproof's vectors: signatures, and tokens and keys of every kind that this profile does not take."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from contract.signing import InvalidKey, PublicKey
from contract.verdict import NotGranted, Reason
from grants.jwks import read_jwks
from tests.grants.grants_world import accept, make_chain

VECTORS = Path(__file__).with_name("vectors")
REFUSED_BY_FORM = {
    Reason.NO_ACTIVE_GRANT,
    Reason.GRANT_MALFORMED,
    Reason.GRANT_HEADER_INVALID,
    Reason.GRANT_ALGORITHM_NOT_ALLOWED,
    Reason.GRANT_TOO_DEEP,
}


def vectors(name: str) -> list[dict[str, Any]]:
    held = json.loads((VECTORS / f"{name}.json").read_text(encoding="utf-8"))["vectors"]
    assert isinstance(held, list)
    return held


ED25519 = vectors("ed25519_test")
JWS = vectors("json_web_signature_test")
JWK = vectors("json_web_key_test")


def test_all_vectors_are_here() -> None:
    assert (len(ED25519), len(JWS), len(JWK)) == (151, 401, 26)


@pytest.mark.parametrize("vector", ED25519, ids=lambda vector: str(vector["id"]))
def test_a_signature_holds_exactly_where_it_should(vector: dict[str, Any]) -> None:
    key = PublicKey(bytes.fromhex(vector["key"]))
    holds = key.verifies(bytes.fromhex(vector["sig"]), bytes.fromhex(vector["msg"]))
    assert holds == (vector["result"] == "valid")


@pytest.mark.parametrize("vector", JWS, ids=lambda vector: str(vector["id"]))
def test_a_token_of_another_algorithm_is_refused_before_any_key_is_sought(vector: dict[str, Any]) -> None:
    """Valid or not in their own profiles: none is Ed25519, so form alone refuses them, as root and as leaf."""
    root = make_chain()[0]
    for header in (vector["jws"], f"{root},{vector['jws']}"):
        with pytest.raises(NotGranted) as stop:
            accept(header)
        assert stop.value.reason in REFUSED_BY_FORM


@pytest.mark.parametrize("vector", JWK, ids=lambda vector: str(vector["id"]))
def test_a_key_of_another_kind_is_no_key(vector: dict[str, Any]) -> None:
    for key in vector["keys"]:
        with pytest.raises(InvalidKey):
            PublicKey.from_jwk(key)
    assert read_jwks(json.dumps({"keys": vector["keys"]}).encode()) == ()
