"""Looking into the memory: the same answer that a spend would get, and nothing is spent or written by it."""

from __future__ import annotations

from pathlib import Path

import pytest

from contract.settings import Settings
from contract.verdict import Reason
from grants.state import RevocationKind, StateStore
from grants.state_look import has_memory, look
from tests.grants.grants_world import ISSUER, NOW, SIGNERS, accept, make_chain, make_root
from tests.grants.state_worlds import POLICY, SqliteWorld, StateWorld, issued, refused


@pytest.fixture
def settings(world: StateWorld, tmp_path: Path) -> Settings:
    """Of somebody who shares the store of the world."""
    home = world.path.parent if isinstance(world, SqliteWorld) else tmp_path / "elsewhere"
    return Settings(home=home, state_url=None if isinstance(world, SqliteWorld) else world.address)


async def reason(settings: Settings, **changes: object) -> Reason | None:
    stop = await look(settings, accept(make_chain(), **changes))
    return None if stop is None else stop.reason


async def test_looking_spends_nothing(store: StateStore, settings: Settings) -> None:
    grant = accept(make_chain())
    for _ in range(3):
        assert await look(settings, grant) is None
    await store.spend(grant, policy=POLICY, now=NOW)


async def test_a_leaf_that_was_spent_is_called_so(store: StateStore, settings: Settings) -> None:
    grant, other = accept(make_chain()), accept(make_chain())
    await store.spend(grant, policy=POLICY, now=NOW)
    for looked, expected in ((grant, Reason.GRANT_REPLAYED), (other, None)):
        stop = await look(settings, looked)
        assert (stop.reason if stop else None) is expected
    assert await refused(store, grant) is Reason.GRANT_REPLAYED


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (RevocationKind.SUBJECT, "u-eng-01"),
        (RevocationKind.KEY, SIGNERS[ISSUER].public_key.thumbprint),
        (RevocationKind.DATASET, "purification-batches@1.0.0"),
        (RevocationKind.POLICY, "BPD-DATA-014@2026.1"),
    ],
)
async def test_a_revocation_is_seen(store: StateStore, settings: Settings, kind: RevocationKind, value: str) -> None:
    assert await reason(settings) is None
    await store.revoke(kind, value, not_before=NOW)
    assert await reason(settings) is Reason.GRANT_REVOKED


async def test_a_grant_that_is_older_than_the_memory_is_indeterminate(store: StateStore, settings: Settings) -> None:
    stop = await look(settings, issued(NOW - 100))
    assert stop is not None
    assert stop.reason is Reason.REPLAY_MEMORY_LOST


async def test_looking_writes_nothing_where_the_memory_was_lost(
    store: StateStore, world: StateWorld, settings: Settings
) -> None:
    world.flush()
    assert await reason(settings) is None  # it cannot know; whoever spends next does
    assert await refused(store, accept(make_chain(make_root()))) is Reason.REPLAY_MEMORY_LOST


async def test_a_store_that_is_silent_is_unavailable(store: StateStore, world: StateWorld, settings: Settings) -> None:
    grant = accept(make_chain())
    with world.silent():
        stop = await look(settings, grant)
    assert stop is not None
    assert stop.reason is Reason.STATE_UNAVAILABLE


def test_without_a_store_there_is_nothing_to_look_into(tmp_path: Path) -> None:
    assert not has_memory(Settings(home=tmp_path / "home"))
    assert has_memory(Settings(home=tmp_path, state_url="redis://127.0.0.1:1"))
    assert list(tmp_path.iterdir()) == []
