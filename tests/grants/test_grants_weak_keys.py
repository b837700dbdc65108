"""Nobody is trusted by a key that everybody can sign for: of small order, of mixed order, or spelled a second way."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from contract.canonical import b64url
from contract.errors import DatasetAgentError
from contract.verdict import NotGranted, Reason
from grants.jwks import read_jwks
from grants.trust import load_trust
from tests.contract.edwards import BASE, NOT_CANONICAL, SMALL, add, encode
from tests.grants.grants_world import Forge, accept, public

WEAK = {
    "zero": encode(SMALL[0]),
    "order 2": encode(SMALL[4]),
    "order 4": encode(SMALL[2]),
    "order 8": encode(SMALL[1]),
    "mixed order": encode(add(BASE, SMALL[1])),
    "not canonical": NOT_CANONICAL[0],
    "no point": (2).to_bytes(32, "little"),
}
weak_keys = pytest.mark.parametrize("raw", WEAK.values(), ids=WEAK.keys())


@weak_keys
def test_a_grant_for_such_a_holder_is_refused_though_its_issuer_signed_it(raw: bytes) -> None:
    jwk = {"kty": "OKP", "crv": "Ed25519", "x": b64url(raw)}
    for edit in ({"edit_root": lambda claims: claims.update(cnf={"jwk": jwk})},
                 {"edit_leaf": lambda claims: claims.update(cnf={"jwk": jwk})}):  # fmt: skip
        with pytest.raises(NotGranted) as stop:
            accept(Forge().chain(**edit))
        assert stop.value.reason is Reason.GRANT_CLAIMS_INVALID


def test_a_signature_that_fits_every_message_signs_no_leaf() -> None:
    """Under the key zero, R = zero and S = 0 hold for any message where small orders are let through."""
    jwk = {"kty": "OKP", "crv": "Ed25519", "x": b64url(WEAK["zero"])}
    root, leaf = Forge().chain(edit_root=lambda claims: claims.update(cnf={"jwk": jwk}))
    anything = b64url(WEAK["zero"] + bytes(32))
    with pytest.raises(NotGranted) as stop:
        accept(f"{root},{leaf.rpartition('.')[0]}.{anything}")
    assert stop.value.reason is Reason.GRANT_CLAIMS_INVALID


@weak_keys
@pytest.mark.parametrize("member", ["key", "keys", "retired_keys", "issuer"])
def test_a_trust_file_with_such_a_key_is_not_loaded(raw: bytes, member: str, tmp_path: Path) -> None:
    good, weak = b64url(public(21).raw), b64url(raw)
    lines = {
        "key": f'key = "{weak}"',
        "keys": f'key = "{good}"\nkeys = ["{weak}"]',
        "retired_keys": f'key = "{good}"\nretired_keys = ["{weak}"]',
        "issuer": f'key = "{good}"\n[[issuer]]\nurl = "https://i.example"\ntenants = ["t"]\nkeys = ["{weak}"]',
    }
    path = tmp_path / "trust.toml"
    path.write_text(f'[[agent]]\nid = "urn:a"\nurl = "https://a.example"\n{lines[member]}\n')
    with pytest.raises(DatasetAgentError) as fault:
        load_trust(path)
    assert weak not in str(fault.value)
    path.write_text(path.read_text().replace(weak, b64url(public(22).raw)))
    load_trust(path)


@weak_keys
def test_such_a_key_among_published_ones_is_passed_over(raw: bytes) -> None:
    good = public(21)
    weak = good.jwk() | {"x": b64url(raw)}
    del weak["kid"]
    assert read_jwks(json.dumps({"keys": [weak, good.jwk()]}).encode()) == (good,)
