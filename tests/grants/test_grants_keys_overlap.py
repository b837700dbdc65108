"""While a key is changed, the next one and the one before are believed like the present one, and no longer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from contract.errors import DatasetAgentError
from contract.key_ring import KeyRing, sign_with, signer_of, waits
from contract.verdict import NotGranted, Reason
from grants.client import authenticate_client, client_assertion
from grants.derive import derive
from grants.trust import Trust, load_trust
from grants.trust_editor import edit_trust
from tests.grants.grants_world import (
    CALL,
    NOW,
    REMOTE,
    ROOT,
    SECOND,
    SIGNERS,
    TRUST,
    accept,
    agent,
    make_chain,
    make_trust,
    public,
    signer,
)

X1, X2, X3 = (public(seed).jwk()["x"] for seed in (21, 22, 23))
AGENT = f'[[agent]]\nid = "urn:a"\nurl = "https://a.example"\nkey = "{X1}"\n'
NEXT = signer(80)


def changing(agent_id: str, *, switched: bool) -> Trust:
    """The world in which ``agent_id`` changes from its key in tests to ``NEXT``."""
    held = TRUST.agents[agent_id]
    pinned = (
        replace(held, key=NEXT.public_key, further_keys=(held.key,))
        if switched
        else replace(held, further_keys=(NEXT.public_key,))
    )
    return make_trust(agents={**TRUST.agents, agent_id: pinned})


def test_further_keys_are_read_from_and_written_to_the_trust_file(tmp_path: Path) -> None:
    path = tmp_path / "trust.toml"
    path.write_text(AGENT + f'keys = ["{X2}"]\nretired_keys = ["{X3}"]\n')
    held = load_trust(path).agents["urn:a"]
    assert (len(held.accepted_keys), len(held.every_key)) == (2, 3)
    with edit_trust(path) as editor:
        editor.switch_agent_key("urn:a", held.further_keys[0])
    after = load_trust(path).agents["urn:a"]
    assert (after.key, after.further_keys, after.retired_keys) == (held.further_keys[0], (held.key,), held.retired_keys)


def test_a_trust_file_without_further_keys_still_reads(tmp_path: Path) -> None:
    path = tmp_path / "trust.toml"
    path.write_text(AGENT)
    held = load_trust(path).agents["urn:a"]
    assert held.accepted_keys == (held.key,)


@pytest.mark.parametrize(
    "line", [f'keys = ["{X1}"]', f'keys = ["{X2}", "{X2}"]', f'keys = ["{X2}"]\nretired_keys = ["{X2}"]']
)
def test_a_key_stands_in_the_trust_file_once(tmp_path: Path, line: str) -> None:
    path = tmp_path / "trust.toml"
    path.write_text(AGENT + line + "\n")
    with pytest.raises(DatasetAgentError, match="twice"):
        load_trust(path)


@pytest.mark.parametrize("switched", [False, True], ids=["staged", "replaced"])
@pytest.mark.parametrize("by", [SIGNERS[ROOT], NEXT], ids=["the one before", "the next"])
def test_a_client_is_known_by_both_keys_while_it_changes_them(switched: bool, by: object) -> None:
    token = client_assertion(by, agent_id=ROOT, audience=REMOTE, now=NOW)  # type: ignore[arg-type]
    assert authenticate_client(token, trust=changing(ROOT, switched=switched), audience=REMOTE, now=NOW).agent == ROOT


def test_an_assertion_by_a_key_that_was_retired_is_refused_though_it_was_accepted_before() -> None:
    token = client_assertion(SIGNERS[ROOT], agent_id=ROOT, audience=REMOTE, now=NOW)
    assert authenticate_client(token, trust=changing(ROOT, switched=True), audience=REMOTE, now=NOW)
    retired = replace(TRUST.agents[ROOT], key=NEXT.public_key, retired_keys=(TRUST.agents[ROOT].key,))
    with pytest.raises(DatasetAgentError, match="not in the trust file"):
        authenticate_client(token, trust=make_trust(agents={**TRUST.agents, ROOT: retired}), audience=REMOTE, now=NOW)


@pytest.mark.parametrize("holder", [ROOT, REMOTE])
@pytest.mark.parametrize("switched", [False, True], ids=["staged", "replaced"])
def test_a_grant_that_names_either_key_of_a_holder_is_accepted(holder: str, switched: bool) -> None:
    assert accept(make_chain(), trust=changing(holder, switched=switched))


@pytest.mark.parametrize("holder", [ROOT, REMOTE])
def test_a_grant_that_names_a_third_key_is_not(holder: str) -> None:
    other = replace(TRUST.agents[holder], key=public(81), further_keys=(public(82),))
    with pytest.raises(NotGranted) as stop:
        accept(make_chain(), trust=make_trust(agents={**TRUST.agents, holder: other}))
    assert stop.value.reason is Reason.GRANT_KEY_UNTRUSTED


def test_a_grant_for_the_replaced_key_is_derived_from_with_that_key() -> None:
    ring = KeyRing(NEXT, SIGNERS[REMOTE])
    chain = derive(make_chain(), ring, audience=agent(SECOND), operation=CALL, now=NOW)
    assert accept(chain, audience=SECOND, client=REMOTE).holder_key == SIGNERS[SECOND].public_key


def test_a_grant_for_a_key_that_is_not_held_cannot_be_derived_from() -> None:
    with pytest.raises(DatasetAgentError) as stop:
        derive(make_chain(), KeyRing(NEXT), audience=agent(SECOND), operation=CALL, now=NOW)
    assert stop.value.code == "grants.derive.key"


def test_everybody_who_holds_a_ring_signs_with_the_key_it_was_given_last() -> None:
    ring = KeyRing(SIGNERS[ROOT])
    before = ring.current
    ring.take(KeyRing(NEXT, SIGNERS[ROOT]))
    assert ring.public_key == NEXT.public_key
    assert NEXT.public_key.verifies(ring.sign(b"x"), b"x")
    assert before.public_key == SIGNERS[ROOT].public_key
    assert signer_of(ring, SIGNERS[ROOT].public_key) is SIGNERS[ROOT]
    assert signer_of(ring, public(83)) is None
    assert signer_of(NEXT, NEXT.public_key) is NEXT


async def test_what_is_being_signed_keeps_the_key_it_began_with() -> None:
    ring = KeyRing(SIGNERS[ROOT], waits=True)
    assert waits(ring)
    assert not waits(SIGNERS[ROOT])

    def work(by: object) -> object:
        ring.take(KeyRing(NEXT))
        return by

    assert await sign_with(ring, work) is SIGNERS[ROOT]
