"""One contract for both state stores, SQLite and a real Valkey: replay, revocation, and a store that is silent."""

from __future__ import annotations

import asyncio
import json
import math
from collections import Counter
from pathlib import Path

import pytest

from contract.errors import Category, DatasetAgentError
from contract.grant import VerifiedGrant
from contract.scope import Scope
from contract.settings import Settings
from contract.verdict import NotGranted, Reason
from grants.derive import header_value
from grants.state import (
    PUT_BACK,
    Revocation,
    RevocationKind,
    StateStore,
    names_of,
    open_state,
    replay_key,
    revoked_by_now,
)
from grants.state_redis import RedisState
from grants.state_sqlite import SqliteState
from tests.grants.grants_world import (
    CHILD_HEADER,
    ISSUER,
    NOW,
    REMOTE,
    ROOT,
    SECOND,
    SIGNERS,
    Forge,
    accept,
    claims_of,
    forge,
    make_chain,
    make_decision,
    make_root,
    make_scope,
    par_hash,
)
from tests.grants.state_worlds import POLICY, StateWorld, code_of, issued, refused, refused_again
from tests.valkey_server import ValkeyServer

# replay


async def test_a_leaf_is_spent_once(store: StateStore) -> None:
    grant = accept(make_chain())
    await store.spend(grant, policy=POLICY, now=NOW)
    for later in (0, 1, 64):
        assert await refused(store, grant, now=NOW + later) is Reason.GRANT_REPLAYED


async def test_a_fresh_leaf_of_the_same_grant_is_accepted(store: StateStore) -> None:
    root = make_root()
    for _ in range(3):
        await store.spend(accept(make_chain(root)), policy=POLICY, now=NOW)


async def test_a_spent_leaf_may_be_rechecked(store: StateStore) -> None:
    grant = accept(make_chain())
    await store.spend(grant, policy=POLICY, now=NOW)
    await store.recheck(grant, policy=POLICY, now=NOW + 200)


async def test_what_was_spent_is_remembered_by_the_next_process(world: StateWorld) -> None:
    grant = accept(make_chain())
    first = world.open(NOW)
    await first.spend(grant, policy=POLICY, now=NOW)
    await first.close()
    second = world.open(NOW + 30)
    assert await refused(second, grant, now=NOW + 30) is Reason.GRANT_REPLAYED
    await second.close()


def test_the_replay_key_is_the_leafs_issuer_and_jti() -> None:
    chain = make_chain()
    grant = accept(chain)
    assert replay_key(grant) == replay_key(accept(header_value(chain)))
    assert replay_key(grant) != replay_key(accept(make_chain()))
    assert grant.leaf_jti not in replay_key(grant)


async def test_a_refused_grant_is_not_burned(store: StateStore) -> None:
    grant = accept(make_chain())
    with pytest.raises(NotGranted):
        accept(make_chain(), client=SECOND)
    await store.spend(grant, policy=POLICY, now=NOW)


# revocation

KINDS = list(RevocationKind)


def value_of(kind: RevocationKind, grant: VerifiedGrant) -> str:
    return dict(names_of(grant, POLICY))[kind]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_revocation_of_each_kind_stops_spending_and_release(store: StateStore, kind: RevocationKind) -> None:
    grant = accept(make_chain())
    await store.spend(grant, policy=POLICY, now=NOW)
    await store.revoke(kind, value_of(kind, grant), not_before=NOW)
    assert await refused_again(store, grant) is Reason.GRANT_REVOKED
    assert await refused(store, grant) is Reason.GRANT_REVOKED


@pytest.mark.parametrize("kind", KINDS)
async def test_a_revocation_of_something_else_stops_nothing(store: StateStore, kind: RevocationKind) -> None:
    grant = accept(make_chain())
    other = value_of(kind, grant)
    await store.revoke(
        kind, ("B" if other[0] == "A" else "A") + other[1:] if len(other) == 43 else other + "x", not_before=NOW
    )
    await store.spend(grant, policy=POLICY, now=NOW)


async def test_every_name_of_a_grant_can_be_revoked() -> None:
    grant = accept(make_chain())
    assert set(names_of(grant, POLICY)) == {
        (RevocationKind.SUBJECT, "u-eng-01"),
        (RevocationKind.GRANT, grant.root_jti),
        (RevocationKind.GRANT, grant.leaf_jti),
        (RevocationKind.TXN, grant.txn),
        (RevocationKind.POLICY, POLICY),
        (RevocationKind.POLICY, "BPD-DATA-014@2026.1"),
        (RevocationKind.DATASET, "purification-batches@1.0.0"),
        (RevocationKind.HOLDER, SIGNERS[ROOT].public_key.thumbprint),
        (RevocationKind.HOLDER, SIGNERS[REMOTE].public_key.thumbprint),
        (RevocationKind.KEY, SIGNERS[ISSUER].public_key.thumbprint),
    }


async def test_a_grant_issued_after_the_instant_is_accepted(store: StateStore) -> None:
    await store.revoke(RevocationKind.SUBJECT, "u-eng-01", not_before=NOW + 10.5)
    assert await refused(store, accept(make_chain()), now=NOW + 11) is Reason.GRANT_REVOKED
    later = accept(make_chain(make_root(now=NOW + 11), now=NOW + 11), now=NOW + 11)
    await store.spend(later, policy=POLICY, now=NOW + 11)


async def test_a_fresh_leaf_does_not_outrun_a_revocation(store: StateStore) -> None:
    """A holder could date a leaf as it likes; the root token's date is the issuer's."""
    root = make_root()
    await store.revoke(RevocationKind.SUBJECT, "u-eng-01", not_before=NOW + 10)
    fresh = accept(make_chain(root, now=NOW + 30), now=NOW + 30)
    assert await refused(store, fresh, now=NOW + 30) is Reason.GRANT_REVOKED


async def test_an_instant_is_raised_and_never_lowered(store: StateStore) -> None:
    for instant in (NOW + 5.25, NOW, NOW + 7.5, NOW - 100):
        await store.revoke(RevocationKind.TXN, "txn-a", not_before=instant)
    assert await store.revocations() == [Revocation(RevocationKind.TXN, "txn-a", NOW + 7.5)]


async def test_revocations_are_listed_in_order_and_seen_by_other_processes(world: StateWorld) -> None:
    first, second = world.open(NOW), world.open(NOW)
    await first.revoke(RevocationKind.SUBJECT, "u b", not_before=NOW)
    await first.revoke(RevocationKind.DATASET, "a@1", not_before=NOW)
    await first.revoke(RevocationKind.SUBJECT, "ü", not_before=NOW)
    assert await second.revocations() == [
        Revocation(RevocationKind.DATASET, "a@1", NOW),
        Revocation(RevocationKind.SUBJECT, "u b", NOW),
        Revocation(RevocationKind.SUBJECT, "ü", NOW),
    ]
    await first.close()
    await second.close()


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("subject", ""),
        ("subject", "a\nb"),
        ("subject", "cafe\N{COMBINING ACUTE ACCENT}"),
        ("grant", "a\N{ZERO WIDTH SPACE}b"),
        ("policy", "p"),
        ("dataset", "@1"),
        ("dataset", "d@"),
        ("holder", "agent"),
        ("key", "k" * 44),
        ("key", "A" * 42 + "B"),  # no bytes have this spelling
        ("holder", "A" * 42 + " "),
        ("dataset", "Purification-Batches@1.0.0"),
        ("dataset", "purification-batches@1.0.0 "),
        ("dataset", " purification-batches@1.0.0"),
        ("dataset", "purification-batches @1.0.0"),
        ("dataset", "purification-batches@1.0@0"),
        ("policy", "@1"),
        ("policy", "p@"),
        ("policy", "p" * 257 + "@1"),
        ("grant", "g" * 257),
        ("txn", "t" * 257),
        ("subject", "s" * 513),
        ("subject", "a\N{LINE SEPARATOR}b"),
        ("subject", "\ud800"),
    ],
)
async def test_a_revocation_names_something(store: StateStore, kind: str, value: str) -> None:
    with pytest.raises(DatasetAgentError) as stop:
        await store.revoke(RevocationKind(kind), value, not_before=NOW)
    assert (stop.value.code, stop.value.category) == ("grants.state.value", Category.INVALID_INPUT)


async def test_a_token_in_the_middle_of_a_chain_can_be_revoked(store: StateStore) -> None:
    """What the second agent was given is worth nothing once what the first was given is taken back."""
    chain = make_chain(make_root(), SECOND, REMOTE)
    grant = accept(chain, client=SECOND)
    middle = claims_of(chain[1])["jti"]
    assert middle not in (grant.root_jti, grant.leaf_jti)
    await store.revoke(RevocationKind.GRANT, middle, not_before=NOW)
    assert await refused(store, grant) is Reason.GRANT_REVOKED


async def test_any_dataset_version_of_a_grant_revokes_it_all(store: StateStore) -> None:
    scopes = (make_scope(), make_scope(dataset="chromatography-results", dataset_version="3.1.0"))
    names = [value for kind, value in names_of(several(scopes), None) if kind is RevocationKind.DATASET]
    assert sorted(names) == ["chromatography-results@3.1.0", "purification-batches@1.0.0"]
    grant = several(scopes)
    await store.spend(grant, policy=POLICY, now=NOW)
    await store.revoke(RevocationKind.DATASET, "chromatography-results@3.1.0", not_before=NOW)
    assert await refused_again(store, grant) is Reason.GRANT_REVOKED
    assert await refused(store, several(scopes)) is Reason.GRANT_REVOKED
    assert await refused(store, several(scopes[::-1])) is Reason.GRANT_REVOKED
    await store.spend(several(scopes[:1]), policy=POLICY, now=NOW)


def several(scopes: tuple[Scope, ...]) -> VerifiedGrant:
    further = [(scope, make_decision()) for scope in scopes[1:]]
    return accept(make_chain(make_root(scopes[0], further=further)))


async def test_the_policy_that_the_issuer_recorded_takes_back_what_it_granted_without_a_policy_here(
    store: StateStore,
) -> None:
    await store.revoke(RevocationKind.POLICY, "BPD-DATA-014@2026.1", not_before=NOW)
    assert await refused(store, accept(make_chain()), policy=None) is Reason.GRANT_REVOKED


@pytest.mark.parametrize("kind", [RevocationKind.HOLDER, RevocationKind.KEY])
async def test_a_key_is_revoked_by_either_spelling_of_its_thumbprint(store: StateStore, kind: RevocationKind) -> None:
    grant = accept(make_chain())
    await store.revoke(kind, "urn:ietf:params:oauth:jwk-thumbprint:sha-256:" + value_of(kind, grant), not_before=NOW)
    assert await refused(store, grant) is Reason.GRANT_REVOKED


@pytest.mark.parametrize("instant", [math.nan, math.inf, -math.inf, -1.0, 2.0**53])
async def test_a_revocation_has_an_instant_that_can_be_compared(store: StateStore, instant: float) -> None:
    grant = accept(make_chain())
    with pytest.raises(DatasetAgentError) as stop:
        await store.revoke(RevocationKind.TXN, grant.txn, not_before=instant)
    assert (stop.value.code, stop.value.category) == ("grants.state.value", Category.INVALID_INPUT)
    await store.revoke(RevocationKind.TXN, grant.txn, not_before=NOW)
    assert await refused(store, grant) is Reason.GRANT_REVOKED


async def test_a_revocation_dated_ahead_holds_until_then_and_one_dated_back_spares_what_is_younger(
    store: StateStore,
) -> None:
    await store.revoke(RevocationKind.SUBJECT, "u-eng-01", not_before=NOW - 1)
    await store.spend(accept(make_chain()), policy=POLICY, now=NOW)
    await store.revoke(RevocationKind.SUBJECT, "u-eng-01", not_before=NOW + 3_600)
    for later in (NOW, NOW + 3_600):
        assert await refused(store, issued(later), now=later) is Reason.GRANT_REVOKED
    await store.spend(issued(NOW + 3_601), policy=POLICY, now=NOW + 3_601)


async def test_an_issuer_whose_clock_is_ahead_does_not_date_grants_past_a_revocation(store: StateStore) -> None:
    early = accept(make_chain(make_root(now=NOW + 5), now=NOW + 5))
    await store.revoke(RevocationKind.GRANT, early.root_jti, not_before=revoked_by_now(NOW))
    assert await refused(store, early) is Reason.GRANT_REVOKED


async def test_a_subject_or_jti_that_a_claim_may_hold_can_be_revoked(store: StateStore) -> None:
    for value in (" u", "u ", "a\N{NO-BREAK SPACE}b", "\N{GRINNING FACE}", "x" * 512):
        await store.revoke(RevocationKind.SUBJECT, value, not_before=NOW)
    assert len(await store.revocations()) == 5


async def test_once_a_revocation_is_taken_no_call_is_spent_or_released(world: StateWorld) -> None:
    """Spends, rechecks and the revocation race over two handles; what began after it was taken is refused."""
    first, second = world.open(NOW), world.open(NOW)
    root = make_root()
    taken = asyncio.Event()
    began_after: list[str] = []

    async def use(store: StateStore) -> None:
        while len(began_after) < 20:
            grant, late = accept(make_chain(root)), taken.is_set()
            try:
                await store.spend(grant, policy=POLICY, now=NOW)
                await store.recheck(grant, policy=POLICY, now=NOW)
                outcome = "released"
            except NotGranted as stop:
                outcome = stop.reason.value
            if late:
                began_after.append(outcome)
            await asyncio.sleep(0)

    async def revoke() -> None:
        await asyncio.sleep(0.01)
        await first.revoke(RevocationKind.GRANT, accept(make_chain(root)).root_jti, not_before=NOW)
        taken.set()

    await asyncio.gather(use(first), use(second), revoke())
    assert set(began_after) == {"GRANT_REVOKED"}
    await first.close()
    await second.close()


# two spellings


async def test_two_tokens_that_spell_one_jti_differently_are_one_leaf(store: StateStore) -> None:
    """A holder may sign what it likes; what is spent is the value."""
    root = make_root()
    claims = claims_of(make_chain(root)[-1]) | {"jti": "leaf-a", "par_hash": par_hash(root)}
    plain = json.dumps(claims).encode()
    escaped = plain.replace(b'"leaf-a"', b'"\\u006ceaf-a"')
    spaced = plain.replace(b'"jti"', b' "jti"')
    headers = [f"{root},{forge(body, SIGNERS[ROOT], CHILD_HEADER)}" for body in (plain, escaped, spaced)]
    outcomes: Counter[str] = Counter()
    for header in headers:
        try:
            await store.spend(accept(header), policy=POLICY, now=NOW)
            outcomes["SPENT"] += 1
        except NotGranted as stop:
            outcomes[stop.reason.value] += 1
    assert outcomes["SPENT"] == 1
    assert sum(outcomes.values()) == 3


async def test_the_same_jti_of_two_holders_is_two_leaves(store: StateStore) -> None:
    made = Forge()
    first = accept(made.chain(edit_leaf=lambda leaf: leaf.update(jti="same")))
    chain = make_chain(make_root(), SECOND, REMOTE)
    claims = claims_of(chain[-1]) | {"jti": "same"}
    second = accept((*chain[:2], forge(claims, SIGNERS[SECOND], CHILD_HEADER)), client=SECOND)
    await store.spend(first, policy=POLICY, now=NOW)
    await store.spend(second, policy=POLICY, now=NOW)


# clocks


async def test_a_clock_that_is_put_back_makes_no_leaf_good_again(store: StateStore) -> None:
    grant = accept(make_chain())
    await store.spend(grant, policy=POLICY, now=NOW)
    for later in (NOW + 71, NOW + 60 + 10 + PUT_BACK - 1, NOW + 60 + 10 + PUT_BACK + 1, NOW + 3_600):
        await store.spend(issued(later), policy=POLICY, now=later)
        assert await refused(store, grant) in (Reason.GRANT_REPLAYED, Reason.STATE_UNAVAILABLE)
    assert await refused(store, accept(make_chain())) is Reason.STATE_UNAVAILABLE  # nobody can say any more


async def test_a_clock_that_is_put_back_a_little_or_differs_refuses_nobody(world: StateWorld) -> None:
    ahead, behind = world.open(NOW - PUT_BACK), world.open(NOW - PUT_BACK)
    for seconds in (0, 5, 60, PUT_BACK):
        await ahead.spend(accept(make_chain()), policy=POLICY, now=NOW)
        earlier = NOW - seconds
        await behind.spend(issued(earlier), policy=POLICY, now=earlier)
    await ahead.close()
    await behind.close()


async def test_a_leaf_is_refused_by_clocks_that_differ_as_much_as_they_may(world: StateWorld) -> None:
    """Spent where the clock is 5 s ahead, presented in its last second where it is 5 s behind."""
    ahead, behind = world.open(NOW), world.open(NOW)
    grant = accept(make_chain(), now=NOW - 5)
    await ahead.spend(grant, policy=POLICY, now=NOW + 64.9)
    for _ in range(3):
        await ahead.spend(issued(NOW + 70), policy=POLICY, now=NOW + 75)
    assert await refused(behind, grant, now=NOW + 64.9) is Reason.GRANT_REPLAYED
    await ahead.close()
    await behind.close()


# the end of a grant


async def test_the_root_tokens_end_governs_the_release(store: StateStore) -> None:
    grant = accept(make_chain())
    await store.recheck(grant, policy=POLICY, now=NOW + 304.9)
    assert await refused_again(store, grant, now=NOW + 305) is Reason.GRANT_EXPIRED


# a store that does not answer


async def test_a_silent_store_is_indeterminate_and_a_fault_for_its_operator(
    world: StateWorld, store: StateStore
) -> None:
    grant = accept(make_chain())
    await store.health()
    with world.silent():
        assert await refused(store, grant) is Reason.STATE_UNAVAILABLE
        assert await refused_again(store, grant) is Reason.STATE_UNAVAILABLE
        for ask in (
            store.health(),
            store.revocations(),
            store.revoke(RevocationKind.TXN, "txn", not_before=NOW),
        ):
            with pytest.raises(DatasetAgentError) as stop:
                await ask
            assert (stop.value.code, stop.value.category) == ("grants.state.unavailable", Category.UNAVAILABLE)
        with pytest.raises(DatasetAgentError) as stop:
            world.open(NOW)
        assert stop.value.code == "grants.state.unavailable"
    await store.health()
    await store.spend(accept(make_chain()), policy=POLICY, now=NOW)


async def test_spends_at_once_in_one_process_are_all_answered(store: StateStore) -> None:
    grants = [accept(make_chain()) for _ in range(64)]
    await asyncio.gather(*(store.spend(grant, policy=POLICY, now=NOW) for grant in grants))


# choosing


@pytest.mark.parametrize("url", ["http://localhost", "nonsense", "redis://[::1"])
def test_an_address_that_is_no_server_is_named(tmp_path: Path, url: str) -> None:
    with pytest.raises(DatasetAgentError, match="DATASET_AGENT_STATE_URL") as stop:
        # as settings that nobody checked
        open_state(Settings(home=tmp_path).model_copy(update={"state_url": url}), now=NOW)
    assert code_of(stop) == "grants.state.url"


def test_no_password_is_in_a_fault(tmp_path: Path) -> None:
    url = "redis://user:hunter2@127.0.0.1:1"
    with pytest.raises(DatasetAgentError) as stop:
        open_state(Settings(home=tmp_path, state_url=url), now=NOW)
    assert code_of(stop) == "grants.state.unavailable"
    assert "hunter2" not in stop.value.message


async def test_the_settings_choose_the_store(tmp_path: Path, valkey: ValkeyServer) -> None:
    for url, kind in ((None, SqliteState), (valkey.connection_url, RedisState)):
        store = open_state(Settings(home=tmp_path, state_url=url), now=NOW)
        assert isinstance(store, kind)
        await store.close()
    assert (tmp_path / "state.sqlite3").exists()
