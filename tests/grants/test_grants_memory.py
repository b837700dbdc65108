"""What is remembered between calls saves work and decides nothing: everything that can end a grant still ends it."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import grants.chain as reader
import grants.claims as claims_module
import grants.client as client_door
import grants.details as details_module
import grants.jose as jose
from contract.errors import DatasetAgentError
from contract.grant import VerifiedGrant
from contract.verdict import NotGranted, Reason
from grants.client import authenticate_client, client_assertion
from grants.memory import Bounded, Remembered
from grants.state import RevocationKind
from grants.state_sqlite import SqliteState
from grants.trust import Trust, TrustedIssuer
from tests.grants.grants_world import (
    CHILD_HEADER,
    ISSUER,
    NOW,
    OTHER_ISSUER,
    REMOTE,
    ROOT,
    SECOND,
    SIGNERS,
    STRANGER,
    TRUST,
    Forge,
    accept,
    agent,
    claims_of,
    forge,
    make_chain,
    make_root,
    make_scope,
    make_trust,
    root_header,
)

POLICY = "BPD-DATA-014@2026.1"
KEY = SIGNERS[ISSUER].public_key


@pytest.fixture(autouse=True)
def nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test with memories of its own."""
    monkeypatch.setattr(reader, "_roots", Remembered[reader.Root](8))
    monkeypatch.setattr(client_door, "_assertions", Remembered[Any](8))
    monkeypatch.setattr(jose, "_headers", Bounded[str, Any](8))
    monkeypatch.setattr(details_module, "_entries", Bounded[bytes, Any](8))


def sizes() -> tuple[int, int, int, int]:
    return len(reader._roots), len(client_door._assertions), len(jose._headers), len(details_module._entries)


def refusal(chain: Any, **changes: Any) -> Reason:
    with pytest.raises(NotGranted) as stop:
        accept(chain, **changes)
    return stop.value.reason


@pytest.fixture
def remembered() -> Callable[[], tuple[str, ...]]:
    """A root token that was verified; each call gives a chain with a fresh leaf from it."""
    root = make_root()
    accept(make_chain(root))
    assert len(reader._roots) == 1
    return lambda: make_chain(root)


def issuers(**changes: Any) -> Trust:
    return make_trust(issuers=TRUST.issuers | {ISSUER: replace(TRUST.issuers[ISSUER], **changes)})


# what ends a grant whose root token is remembered


def test_a_key_that_is_retired_from_trust_ends_its_remembered_root_tokens(remembered: Any) -> None:
    retired = issuers(keys=(SIGNERS[SECOND].public_key,))
    assert refusal(remembered(), trust=retired) is Reason.GRANT_KEY_UNTRUSTED
    assert accept(remembered())


def test_an_issuer_that_is_struck_from_trust_ends_them(remembered: Any) -> None:
    others = make_trust(issuers={OTHER_ISSUER: TRUST.issuers[OTHER_ISSUER]})
    assert refusal(remembered(), trust=others) is Reason.GRANT_KEY_UNTRUSTED


def test_a_key_that_passes_to_another_issuer_ends_them(remembered: Any) -> None:
    heir = TrustedIssuer(OTHER_ISSUER, (KEY,), (), frozenset({"acme"}), "u-")
    assert refusal(remembered(), trust=make_trust(issuers={OTHER_ISSUER: heir})) is Reason.GRANT_ISSUER_UNTRUSTED


def test_what_an_issuer_may_speak_for_is_asked_each_time(remembered: Any) -> None:
    assert refusal(remembered(), trust=issuers(tenants=frozenset({"other"}))) is Reason.GRANT_TENANT_UNKNOWN
    assert refusal(remembered(), trust=issuers(subject_prefix="x-")) is Reason.GRANT_ISSUER_UNTRUSTED


def test_keys_that_cannot_be_read_leave_a_remembered_root_token_undecided(remembered: Any) -> None:
    unknown = replace(issuers(keys=()), unreachable=frozenset({ISSUER}))
    assert refusal(remembered(), trust=unknown) is Reason.KEYS_UNAVAILABLE


def test_a_holder_whose_key_was_replaced_is_refused(remembered: Any) -> None:
    replaced = make_trust(agents=TRUST.agents | {ROOT: replace(agent(ROOT), key=STRANGER.public_key)})
    assert refusal(remembered(), trust=replaced) is Reason.GRANT_KEY_UNTRUSTED


def test_a_policy_version_that_is_no_longer_known_ends_them(remembered: Any) -> None:
    assert accept(remembered(), trust=make_trust(policy_versions=frozenset({"2026.1"})))
    dropped = make_trust(policy_versions=frozenset({"2026.2"}))
    assert refusal(remembered(), trust=dropped) is Reason.UNKNOWN_POLICY_VERSION


@pytest.mark.parametrize(
    ("later", "reason"),
    [
        (-6, Reason.GRANT_NOT_YET_VALID),
        (305, Reason.GRANT_EXPIRED),
        (306, Reason.GRANT_EXPIRED),
        (10_000, Reason.GRANT_EXPIRED),
    ],
)
def test_a_remembered_root_token_expires_as_any_other(later: int, reason: Reason) -> None:
    root = make_root()
    assert accept(make_chain(root))
    leaf = make_chain(root, now=NOW + 299)
    assert refusal(leaf if later > 0 else make_chain(root), now=float(NOW + later)) is reason


def test_the_last_moment_of_a_root_token_is_the_same_remembered_or_not() -> None:
    root = make_root()
    leaf = make_chain(root, now=NOW + 299)
    assert accept(leaf, now=NOW + 304.999)
    assert accept(leaf, now=NOW + 304.999)
    assert refusal(leaf, now=float(NOW + 305)) is Reason.GRANT_EXPIRED


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"audience": SECOND}, Reason.GRANT_AUDIENCE_MISMATCH),
        ({"client": SECOND}, Reason.GRANT_CLIENT_MISMATCH),
    ],
)
def test_receiver_and_sender_are_asked_each_time(remembered: Any, changes: dict[str, str], reason: Reason) -> None:
    assert refusal(remembered(), **changes) is reason


def test_a_leaf_is_verified_though_its_root_token_is_remembered(remembered: Any) -> None:
    root, leaf = remembered()
    head, body, signature = leaf.split(".")
    for at in (0, 40, 84):
        other = signature[:at] + ("B" if signature[at] == "A" else "A") + signature[at + 1 :]
        assert refusal((root, f"{head}.{body}.{other}")) is Reason.GRANT_SIGNATURE_INVALID


def test_no_other_spelling_of_a_remembered_root_token_is_taken_for_it(remembered: Any) -> None:
    """Every bit of the text counts: those of the signature, which par_hash does not cover, and the last, unused ones."""
    root, leaf = remembered()
    head, body, signature = root.split(".")
    for at in (0, 43, 84):
        other = signature[:at] + ("B" if signature[at] == "A" else "A") + signature[at + 1 :]
        assert refusal((f"{head}.{body}.{other}", leaf)) is Reason.GRANT_SIGNATURE_INVALID
    last = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    unused = last[last.index(signature[-1]) ^ 1]
    for text in (
        f"{root}=",
        f"{head}.{body}.{signature[:-1]}{unused}",
        f"{head}.{body}.",
        f"{head}={'.'}{body}.{signature}",
    ):
        assert refusal((text, leaf)) in {Reason.GRANT_MALFORMED, Reason.GRANT_HEADER_INVALID}
    assert sizes()[0] == 1


@pytest.fixture
async def state(tmp_path: Path) -> Any:
    store = SqliteState.open(tmp_path / "state.sqlite3", now=float(NOW - 1_000))
    yield store
    await store.close()


REVOKED: dict[RevocationKind, Callable[[VerifiedGrant], str]] = {
    RevocationKind.SUBJECT: lambda grant: grant.subject,
    RevocationKind.GRANT: lambda grant: grant.root_jti,
    RevocationKind.POLICY: lambda grant: POLICY,
    RevocationKind.DATASET: lambda grant: "purification-batches@1.0.0",
    RevocationKind.HOLDER: lambda grant: grant.holders[0],
    RevocationKind.KEY: lambda grant: grant.issuer_kid,
    RevocationKind.TXN: lambda grant: grant.txn,
}


@pytest.mark.parametrize("kind", RevocationKind)
async def test_a_revocation_of_any_kind_ends_a_remembered_root_token(
    kind: RevocationKind, state: SqliteState, remembered: Any
) -> None:
    grant, next_one = accept(remembered()), accept(remembered())
    await state.spend(grant, policy=POLICY, now=float(NOW))
    await state.revoke(kind, REVOKED[kind](grant), not_before=float(NOW))
    again = accept(remembered())
    for late in (next_one, again):
        with pytest.raises(NotGranted) as stop:
            await state.spend(late, policy=POLICY, now=float(NOW))
        assert stop.value.reason is Reason.GRANT_REVOKED
    with pytest.raises(NotGranted) as stop:
        await state.recheck(grant, policy=POLICY, now=float(NOW))
    assert stop.value.reason is Reason.GRANT_REVOKED


# nothing that was not signed is remembered


def test_of_a_root_token_by_anybody_else_nothing_is_remembered() -> None:
    forged = Forge(root_signer=STRANGER).chain()
    before = sizes()
    assert refusal(forged) is Reason.GRANT_SIGNATURE_INVALID
    assert refusal(forged, trust=issuers(keys=())) is Reason.GRANT_KEY_UNTRUSTED
    assert sizes() == before
    assert len(reader._roots) == len(jose._headers) == 0


def test_of_a_leaf_by_anybody_else_nothing_is_remembered(remembered: Any) -> None:
    root, leaf = remembered()
    before = sizes()
    entries = [claims_of(leaf)["authorization_details"][0] | {"revision": "rev-2"}]
    header = {"typ": "execution-grant+jwt", "alg": "Ed25519"}
    forged = forge(claims_of(leaf) | {"authorization_details": entries}, STRANGER, header)
    assert refusal((root, forged)) is Reason.GRANT_SIGNATURE_INVALID
    assert sizes() == before


def test_a_signed_root_token_that_does_not_read_is_not_remembered() -> None:
    chain = Forge().chain(edit_root=lambda claims: claims.update(extra=1))
    assert refusal(chain) is Reason.GRANT_CLAIMS_INVALID
    assert len(reader._roots) == 0


def test_of_an_assertion_by_anybody_else_nothing_is_remembered() -> None:
    header = {"alg": "Ed25519", "typ": "client-authentication+jwt", "kid": SIGNERS[ROOT].public_key.thumbprint}
    assert unauthenticated(forge(claims_of(assertion()), STRANGER, header)) == "signature"
    assert unauthenticated(client_assertion(STRANGER, agent_id=ROOT, audience=REMOTE, now=NOW)) == "key"
    assert sizes() == (0, 0, 0, 0)


# client assertions


def assertion() -> str:
    return client_assertion(SIGNERS[ROOT], agent_id=ROOT, audience=REMOTE, now=NOW)


def unauthenticated(token: str, *, trust: Trust = TRUST, audience: str = REMOTE, now: float = NOW) -> str:
    with pytest.raises(DatasetAgentError) as stop:
        authenticate_client(token, trust=trust, audience=audience, now=now)
    return stop.value.code.removeprefix("grants.client.")


def test_everything_about_a_remembered_assertion_is_asked_again() -> None:
    token = assertion()
    assert authenticate_client(token, trust=TRUST, audience=REMOTE, now=NOW).agent == ROOT
    assert len(client_door._assertions) == 1
    gone = make_trust(agents={name: held for name, held in TRUST.agents.items() if name != ROOT})
    renamed = make_trust(agents={SECOND: replace(agent(SECOND), key=SIGNERS[ROOT].public_key)})
    replaced = make_trust(agents=TRUST.agents | {ROOT: replace(agent(ROOT), key=STRANGER.public_key)})
    assert unauthenticated(token, trust=gone) == "key"
    assert unauthenticated(token, trust=replaced) == "key"
    assert unauthenticated(token, trust=renamed) == "subject"
    assert unauthenticated(token, audience=SECOND) == "audience"
    assert unauthenticated(token, now=float(NOW + 65)) == "expired"
    assert unauthenticated(token, now=float(NOW - 6)) == "not_yet_valid"
    assert authenticate_client(token, trust=TRUST, audience=REMOTE, now=NOW + 64.9).agent == ROOT


def test_another_spelling_of_a_remembered_assertion_is_not_taken_for_it() -> None:
    token = assertion()
    authenticate_client(token, trust=TRUST, audience=REMOTE, now=NOW)
    head, body, signature = token.split(".")
    other = ("B" if signature[0] == "A" else "A") + signature[1:]
    assert unauthenticated(f"{head}.{body}.{other}") == "signature"
    assert unauthenticated(f"{token}=") == "malformed"
    assert unauthenticated(f"{token}\udc80") == "malformed"
    assert len(client_door._assertions) == 1


# headers and entries


def test_a_remembered_header_is_judged_again_in_every_place() -> None:
    """A header that is right for a root token is wrong for a leaf, however well it is known."""
    known = root_header()
    accept(make_chain())
    assert len(jose._headers) == 2
    assert refusal(Forge(leaf_head=known).chain()) is Reason.GRANT_HEADER_INVALID
    assert refusal(Forge(root_head=CHILD_HEADER).chain()) is Reason.GRANT_HEADER_INVALID
    assert unauthenticated(forge(claims_of(assertion()), SIGNERS[ROOT], known)) == "header"


def with_bound(bound: Any, *, site: str = "basel") -> tuple[str, str]:
    """A chain whose entries bound a column by ``bound``."""
    details = claims_of(make_root(make_scope(constraints={})))["authorization_details"]
    details[0]["constraints"] = {"batches.size": {"max": bound}, "batches.site": {"one_of": [site]}}
    return Forge().chain(
        edit_root=lambda claims: claims.update(authorization_details=details),
        edit_leaf=lambda claims: claims.update(authorization_details=details),
    )


def test_entries_that_are_equal_in_python_and_not_in_json_are_told_apart() -> None:
    assert accept(with_bound(1))
    for alike in (True, 1.0):
        assert refusal(with_bound(alike)) is Reason.GRANT_CONSTRAINT_UNKNOWN
    assert accept(with_bound(1))


def test_entries_that_are_remembered_grant_nothing_to_another_holder_or_issuer() -> None:
    assert accept(make_chain())
    assert len(details_module._entries) == 1
    assert refusal(make_chain(make_root(), SECOND)) is Reason.GRANT_AUDIENCE_MISMATCH
    narrower = make_root(make_scope(actions=frozenset({"batch_yield"})))
    wider = claims_of(make_chain()[1])["authorization_details"]
    forged = Forge(root=claims_of(narrower)).chain(edit_leaf=lambda claims: claims.update(authorization_details=wider))
    assert refusal(forged) is Reason.GRANT_WIDENED


def test_entries_that_are_refused_are_refused_again() -> None:
    for _ in range(3):
        assert refusal(with_bound("no bound")) is Reason.GRANT_CONSTRAINT_UNKNOWN
        assert refusal(with_bound(10**30)) is Reason.GRANT_CONSTRAINT_UNKNOWN


def test_long_entries_are_read_each_time() -> None:
    long = make_scope(columns=frozenset(f"batches.column_{number:03}" for number in range(50)))
    for _ in range(2):
        assert accept(make_chain(make_root(long))).scopes == (long,)
        assert len(details_module._entries) == 0


# bounds, and threads


def test_every_memory_is_bounded() -> None:
    for number in range(20):
        accept(make_chain(make_root(make_scope(revision=f"rev-{number}"))))
        authenticate_client(assertion(), trust=TRUST, audience=REMOTE, now=NOW)
        spaced = json.dumps(CHILD_HEADER).encode() + b" " * number
        accept(Forge(leaf_head=spaced).chain())
    assert sizes() == (8, 8, 8, 8)
    assert claims_module._interned.cache_info().maxsize == 1_024


def test_the_oldest_makes_room_and_a_key_that_is_there_takes_none() -> None:
    memory: Bounded[str, int] = Bounded(2)
    for name, value in (("a", 1), ("b", 2), ("b", 3), ("a", 4)):
        memory.keep(name, value)
    assert len(memory) == 2
    memory.keep("c", 5)
    assert "a" not in memory
    assert memory.get("b") == 3
    assert memory.get("c") == 5


def test_threads_that_share_a_memory_agree_with_one_that_has_none() -> None:
    """Good and bad chains at once, more than the memory holds: each is judged as if alone."""
    roots = [make_root() for _ in range(12)]
    good = [make_chain(root) for root in roots]
    bad = []
    for root, leaf in good:
        head, body, signature = root.split(".")
        bad.append((f"{head}.{body}.{'B' if signature[0] == 'A' else 'A'}{signature[1:]}", leaf))
    start = threading.Barrier(8)

    def work(seed: int) -> int:
        order = random.Random(seed)
        start.wait(10)
        for _ in range(150):
            at = order.randrange(len(good))
            assert accept(good[at]).root_jti == claims_of(roots[at])["jti"]
            assert refusal(bad[at]) is Reason.GRANT_SIGNATURE_INVALID
            assert sizes()[0] <= 8
        return 150

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(work, range(8))) == 8 * 150
