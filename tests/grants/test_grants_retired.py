"""Keys an agent had before: kept for what they signed, believed for nothing that arrives."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from contract.errors import DatasetAgentError
from contract.settings import Settings
from contract.verdict import NotGranted, Reason
from grants.client import authenticate_client, client_assertion
from grants.derive import header_value
from grants.jwks import PublishedKeys
from grants.keys import init_keys
from grants.trust import Trust, load_trust
from tests.grants.grants_world import (
    ISSUER,
    NOW,
    REMOTE,
    ROOT,
    SIGNERS,
    TRUST,
    Forge,
    accept,
    make_chain,
    make_trust,
    public,
    root_header,
    signer,
)

X1, X2, X3 = (public(seed).jwk()["x"] for seed in (21, 22, 23))
AGENTS = (
    f'[[agent]]\nid = "urn:a"\nurl = "https://a.example"\nkey = "{X1}"\nretired_keys = ["{X2}"]\n'
    f'[[agent]]\nid = "urn:b"\nurl = "https://b.example"\nkey = "{X3}"\n'
)


def after_rotation(agent_id: str) -> Trust:
    """The world in which ``agent_id`` has another key, and the one it signs with in tests is retired."""
    held = TRUST.agents[agent_id]
    rotated = replace(held, key=public(70), retired_keys=(held.key,))
    return make_trust(agents={**TRUST.agents, agent_id: rotated})


def test_force_keeps_an_agents_old_keys_as_retired_ones_oldest_first(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    init_keys(settings)
    keys = [load_trust(settings.trust_path).agents[settings.agent_id].key]
    for _ in range(2):
        init_keys(settings, force=True, roles=("remote",))
        keys.append(load_trust(settings.trust_path).agents[settings.agent_id].key)
    trust = load_trust(settings.trust_path)
    assert trust.agents[settings.agent_id].retired_keys == (keys[0], keys[1])
    assert trust.agents[settings.agent_id].every_key == (keys[2], keys[0], keys[1])
    assert trust.agents[settings.root_id].retired_keys == ()


def test_keys_init_without_force_retires_nothing_and_keeps_what_is_retired(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    init_keys(settings)
    init_keys(settings, force=True)
    before = settings.trust_path.read_text()
    init_keys(settings)
    assert settings.trust_path.read_text() == before


def test_retired_keys_are_read_from_the_trust_file(tmp_path: Path) -> None:
    path = tmp_path / "trust.toml"
    path.write_text(AGENTS)
    trust = load_trust(path)
    assert [len(trust.agents[name].retired_keys) for name in ("urn:a", "urn:b")] == [1, 0]


@pytest.mark.parametrize("owned", [X1, X3], ids=["its own", "another agent's"])
def test_a_retired_key_is_nobodys_present_one(tmp_path: Path, owned: str) -> None:
    path = tmp_path / "trust.toml"
    path.write_text(AGENTS.replace(X2, owned))
    with pytest.raises(DatasetAgentError, match="twice"):
        load_trust(path)


def test_a_retired_key_authenticates_no_client() -> None:
    token = client_assertion(SIGNERS[ROOT], agent_id=ROOT, audience=REMOTE, now=NOW)
    assert authenticate_client(token, trust=TRUST, audience=REMOTE, now=NOW).agent == ROOT
    with pytest.raises(DatasetAgentError) as stop:
        authenticate_client(token, trust=after_rotation(ROOT), audience=REMOTE, now=NOW)
    assert stop.value.code == "grants.client.key"


@pytest.mark.parametrize("rotated", [ROOT, REMOTE])
def test_a_retired_key_holds_no_grant(rotated: str) -> None:
    chain = make_chain()
    assert accept(chain)
    with pytest.raises(NotGranted) as stop:
        accept(chain, trust=after_rotation(rotated))
    assert stop.value.reason is Reason.GRANT_KEY_UNTRUSTED


def test_a_retired_key_has_no_owner_by_thumbprint() -> None:
    kid = SIGNERS[ROOT].public_key.thumbprint
    assert TRUST.agent_key(kid) is not None
    assert after_rotation(ROOT).agent_key(kid) is None


async def test_a_retired_key_does_not_become_an_issuers_by_being_published() -> None:
    thief = signer(71)
    issuer = replace(TRUST.issuers[ISSUER], keys=(), jwks_url="https://issuer.example/jwks.json")
    held = replace(TRUST.agents[ROOT], retired_keys=(thief.public_key,))
    trust = make_trust(issuers={ISSUER: issuer}, agents={**TRUST.agents, ROOT: held})

    async def fetch(_: str) -> bytes:
        return b'{"keys": [%s]}' % str(thief.public_key.jwk()).replace("'", '"').encode()

    header = header_value(Forge(root_signer=thief, root_head=root_header(thief)).chain())
    completed = await PublishedKeys(fetch).complete(trust, header, now=NOW)
    assert completed.grant_key(thief.public_key.thumbprint) is None
