"""Keys that are revoked: believed for nothing that arrives, whoever pins, holds or publishes them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from contract.errors import DatasetAgentError
from contract.verdict import NotGranted, Reason
from grants.client import authenticate_client, client_assertion
from grants.key_sets import agent_key_set, issuer_key_set
from grants.trust import MAX_REVOKED, Trust, load_trust
from tests.grants.grants_world import ISSUER, NOW, REMOTE, ROOT, SIGNERS, TRUST, accept, make_chain, public

KEYS = [public(seed) for seed in (21, 22, 23, 24, 25)]
X1, X2, X3, X4, X5 = (key.jwk()["x"] for key in KEYS)
K1, K2, K3, K4, K5 = (key.thumbprint for key in KEYS)
TEXT = (
    f'[[issuer]]\nurl = "https://i.example"\nkeys = ["{X1}", "{X2}"]\nidentity_keys = ["{X3}"]\ntenants = ["acme"]\n'
    f'[[agent]]\nid = "urn:a"\nurl = "https://a.example"\nkey = "{X4}"\nkeys = ["{X5}"]\n'
)


def load(tmp_path: Path, *kids: str, text: str = TEXT) -> Trust:
    path = tmp_path / "trust.toml"
    path.write_text("revoked_keys = [" + ", ".join(f'"{kid}"' for kid in kids) + "]\n" + text)
    return load_trust(path)


def test_a_revoked_key_is_no_issuers_though_the_file_pins_it(tmp_path: Path) -> None:
    issuer = load(tmp_path, K1, K3).issuers["https://i.example"]
    assert (issuer.keys, issuer.identity_keys) == ((KEYS[1],), ())


@pytest.mark.parametrize(("kid", "left"), [(K4, K5), (K5, K4)])
def test_an_agent_is_believed_by_the_keys_that_are_left_to_it(tmp_path: Path, kid: str, left: str) -> None:
    trust = load(tmp_path, kid)
    assert [key.thumbprint for key in trust.agents["urn:a"].accepted_keys] == [left]
    assert trust.agents["urn:a"].key.thumbprint == left
    assert trust.agent_key(kid) is None


def test_an_agent_without_a_key_that_is_left_is_nobody_and_its_keys_are_of_no_use(tmp_path: Path) -> None:
    trust = load(tmp_path, K4, K5, text=TEXT + f'retired_keys = ["{public(26).jwk()["x"]}"]\n')
    assert trust.agent("urn:a") is None
    assert trust.revoked_keys == {K4, K5, public(26).thumbprint}


def test_a_trust_file_that_revokes_nothing_is_as_before(tmp_path: Path) -> None:
    (tmp_path / "trust.toml").write_text(TEXT)
    assert load(tmp_path) == load_trust(tmp_path / "trust.toml")


@pytest.mark.parametrize(
    "kid", ["", "x", "A" * 42, "A" * 44, "A" * 42 + "=", "A" * 42 + "B", "A" * 42 + "\\n", "../" + "A" * 40]
)
def test_what_is_revoked_is_a_thumbprint(tmp_path: Path, kid: str) -> None:
    with pytest.raises(DatasetAgentError, match="revoked_keys"):
        load(tmp_path, kid)


def test_the_list_of_revoked_keys_is_bounded(tmp_path: Path) -> None:
    kids = [f"{number:042}A" for number in range(MAX_REVOKED + 1)]
    assert len(load(tmp_path, *kids[1:]).revoked_keys) == MAX_REVOKED
    with pytest.raises(DatasetAgentError, match="revoked_keys"):
        load(tmp_path, *kids)


@pytest.mark.parametrize("holder", [ROOT, REMOTE])
@pytest.mark.parametrize("known", [True, False], ids=["pinned", "not pinned"])
def test_no_grant_names_a_revoked_key_as_a_holders(holder: str, known: bool) -> None:
    chain = make_chain()
    assert accept(chain)
    agents = {name: agent for name, agent in TRUST.agents.items() if known or name != holder}
    trust = replace(TRUST, agents=agents, revoked_keys=frozenset({SIGNERS[holder].public_key.thumbprint}))
    with pytest.raises(NotGranted) as stop:
        accept(chain, trust=trust)
    assert stop.value.reason is Reason.GRANT_KEY_UNTRUSTED


def test_a_revoked_key_authenticates_nobody(tmp_path: Path) -> None:
    x = SIGNERS[ROOT].public_key.jwk()["x"]
    text = f'[[agent]]\nid = "{ROOT}"\nurl = "https://r.example"\nkey = "{x}"\n'
    token = client_assertion(SIGNERS[ROOT], agent_id=ROOT, audience=REMOTE, now=NOW)
    assert authenticate_client(token, trust=load(tmp_path, text=text), audience=REMOTE, now=NOW).agent == ROOT
    revoked = load(tmp_path, SIGNERS[ROOT].public_key.thumbprint, text=text)
    with pytest.raises(DatasetAgentError):
        authenticate_client(token, trust=revoked, audience=REMOTE, now=NOW)


def test_a_revoked_key_is_published_by_nobody() -> None:
    for held, published in ((ISSUER, issuer_key_set), (REMOTE, agent_key_set)):
        key = SIGNERS[held].public_key
        assert published(TRUST, held, SIGNERS[held])["keys"] == [key.jwk()]
        trust = replace(TRUST, revoked_keys=frozenset({key.thumbprint}))
        assert published(trust, held, SIGNERS[held])["keys"] == []
