"""One contract for every store of approvals: in memory, in a file of processes, and in Valkey."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from approvals import store as bounds
from approvals.redis_store import RedisApprovals, hash_of
from approvals.sqlite_store import SqliteApprovals
from approvals.store import ApprovalStore, Held, MemoryApprovals, StoreUnavailable
from grants.state_server import StateServer
from tests.approvals.approvals_world import AGENT, NOW
from tests.valkey_server import ValkeyServer


@pytest.fixture(scope="module")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyServer]:
    server = ValkeyServer(data_dir=tmp_path_factory.mktemp("valkey"))
    server.start()
    yield server
    server.stop()


def _redis(server: ValkeyServer, agent: str = AGENT) -> RedisApprovals:
    return RedisApprovals(
        StateServer(f"redis://127.0.0.1:{server.port}", key=hash_of(agent), waiting=1.0), agent, budget=5.0
    )


@pytest.fixture(params=["memory", "sqlite", "redis"])
async def stores(
    request: pytest.FixtureRequest, tmp_path: Path, valkey: ValkeyServer
) -> AsyncIterator[tuple[ApprovalStore, ApprovalStore]]:
    """Two handles on one store, as two processes have them (one alone in memory)."""
    if request.param == "memory":
        alone = MemoryApprovals()
        yield alone, alone
        return
    if request.param == "sqlite":
        yield (
            SqliteApprovals(tmp_path / "remote" / "approvals.sqlite"),
            SqliteApprovals(tmp_path / "remote" / "approvals.sqlite"),
        )
        return
    agent = f"{AGENT}:{tmp_path.name}"
    one, other = _redis(valkey, agent), _redis(valkey, agent)
    yield one, other
    await one.close()
    await other.close()


def held(name: str = "apr-1", **changes: Any) -> Held:
    members = {"id": name, "task_id": f"task-of-{name}", "owner": "o-1", "version": 1, "until": NOW + 60, "sealed": "x"}
    return Held(**{**members, **changes})  # type: ignore[arg-type]


def later(old: Held, sealed: str = "y") -> Held:
    return replace(old, version=old.version + 1, sealed=sealed)


async def test_what_one_process_adds_another_finds_by_id_and_by_task(
    stores: tuple[ApprovalStore, ApprovalStore],
) -> None:
    one, other = stores
    assert await one.get("apr-1") is None
    assert await one.add(held(), now=NOW)
    assert await other.get("apr-1") == held() == await other.of_task("task-of-apr-1")
    assert await other.of_task("task-of-apr-2") is None
    assert await other.all() == [held()]


async def test_an_id_and_a_task_have_one_record(stores: tuple[ApprovalStore, ApprovalStore]) -> None:
    one, other = stores
    assert await one.add(held(), now=NOW)
    assert not await other.add(held(sealed="z"), now=NOW)
    assert not await other.add(held("apr-2", task_id="task-of-apr-1"), now=NOW)
    assert await one.all() == [held()]


async def test_a_record_is_replaced_by_its_next_version_and_only_while_it_is_the_present_one(
    stores: tuple[ApprovalStore, ApprovalStore],
) -> None:
    one, other = stores
    await one.add(held(), now=NOW)
    assert await one.swap(held(), later(held()))
    assert not await other.swap(held(), later(held(), "forged"))
    assert not await other.swap(held(sealed="other"), later(held(), "forged"))
    assert await other.get("apr-1") == later(held())
    with pytest.raises(ValueError, match="next version"):
        await one.swap(later(held()), later(held()))


async def test_of_many_that_swap_one_version_exactly_one_succeeds(
    stores: tuple[ApprovalStore, ApprovalStore],
) -> None:
    await stores[0].add(held(), now=NOW)
    done = await asyncio.gather(*(stores[at % 2].swap(held(), later(held(), f"by {at}")) for at in range(16)))
    assert done.count(True) == 1
    assert (await stores[0].all())[0].sealed == f"by {done.index(True)}"


async def test_what_is_not_there_is_neither_replaced_nor_removed(stores: tuple[ApprovalStore, ApprovalStore]) -> None:
    assert not await stores[0].swap(held(), later(held()))
    assert not await stores[0].remove(held())
    assert await stores[0].all() == []


async def test_a_record_is_removed_once_and_only_as_it_was_read(stores: tuple[ApprovalStore, ApprovalStore]) -> None:
    one, other = stores
    await one.add(held(), now=NOW)
    assert not await other.remove(held(sealed="other"))
    assert [await one.remove(held()), await other.remove(held())] == [True, False]


async def test_what_is_over_is_forgotten_when_another_one_comes(stores: tuple[ApprovalStore, ApprovalStore]) -> None:
    one, _ = stores
    await one.add(held(), now=NOW)
    assert await one.add(held("apr-2"), now=NOW + 59.9)
    assert len(await one.all()) == 2
    assert await one.add(held("apr-3", until=NOW + 90), now=NOW + 60)
    assert [kept.id for kept in await one.all()] == ["apr-3"]


async def test_a_task_whose_record_is_gone_has_none_and_may_have_another(
    stores: tuple[ApprovalStore, ApprovalStore],
) -> None:
    one, other = stores
    await one.add(held(), now=NOW)
    assert await one.swap(held(), later(held()))
    assert await other.of_task("task-of-apr-1") == later(held())
    assert await one.remove(later(held()))
    assert await other.of_task("task-of-apr-1") is None
    assert await other.add(held("apr-2", task_id="task-of-apr-1"), now=NOW)
    assert await one.add(held("apr-3"), now=NOW + 60)  # which forgets that one
    assert await one.of_task("task-of-apr-1") is None
    assert await one.add(held("apr-4", task_id="task-of-apr-1", until=NOW + 90), now=NOW + 60)
    found = await other.of_task("task-of-apr-1")
    assert found is not None
    assert found.id == "apr-4"


async def test_a_task_is_found_without_reading_any_other_record(valkey: ValkeyServer, tmp_path: Path) -> None:
    """Whoever may ask for tasks may ask for any, and pays for none."""
    store = _redis(valkey, f"{AGENT}:{tmp_path.name}")
    for at in range(20):
        await store.add(held(f"apr-{at}", owner=f"o-{at}", sealed="x" * 10_000), now=NOW)
    sent = await _sent(store)
    assert await store.of_task("task-of-nobody") is None
    assert await store.of_task("task-of-apr-7") == held("apr-7", owner="o-7", sealed="x" * 10_000)
    assert await _sent(store) - sent < 30_000
    await store.close()


async def test_a_new_record_is_held_against_no_other_however_large(valkey: ValkeyServer, tmp_path: Path) -> None:
    """One person's many large ones would hold up the server, which everybody's spends wait for, at each that is refused."""
    agent = f"{AGENT}:{tmp_path.name}"
    store = _redis(valkey, agent)
    await store.add(held(), now=NOW)
    await store._server.ask(lambda server: server.hset(hash_of(agent), "apr-1", "x" * 100_000))  # type: ignore[arg-type, return-value]
    assert await store.add(held("apr-2"), now=NOW)
    assert not await store.add(held("apr-1", task_id="another"), now=NOW)
    assert not await store.add(held("apr-3", task_id="task-of-apr-1"), now=NOW)
    await store.close()


async def test_a_record_that_was_changed_is_forgotten_at_its_new_end(
    stores: tuple[ApprovalStore, ApprovalStore],
) -> None:
    one, _ = stores
    await one.add(held(), now=NOW)
    assert await one.swap(held(), replace(later(held()), until=NOW + 90))
    assert await one.add(held("apr-2"), now=NOW + 60)
    assert await one.of_task("task-of-apr-1") is not None
    assert await one.add(held("apr-3", until=NOW + 200), now=NOW + 90)
    assert await one.of_task("task-of-apr-1") is None
    assert await one.get("apr-1") is None


async def _sent(store: RedisApprovals) -> int:
    """Bytes that the server has sent to anybody so far."""
    stats: Any = await store._server.ask(lambda server: server.info("stats"))
    return int(stats["total_net_output_bytes"])


async def test_one_requester_cannot_fill_it(
    stores: tuple[ApprovalStore, ApprovalStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    from approvals import redis_store

    for name, most in (("MOST_OF_ONE", 3), ("MOST", 5)):
        monkeypatch.setattr(bounds, name, most)
        monkeypatch.setattr(
            redis_store, "ADD", redis_store.ADD.replace(f">= {10_000 if name == 'MOST' else 500}", f">= {most}")
        )
    one, _ = stores
    assert [await one.add(held(f"apr-{at}"), now=NOW) for at in range(4)] == [True, True, True, False]
    assert [await one.add(held(f"apr-o{at}", owner="o-2"), now=NOW) for at in range(3)] == [True, True, False]
    assert await one.add(held("apr-later", owner="o-3"), now=NOW + 60)


async def test_a_store_that_answers_is_well(stores: tuple[ApprovalStore, ApprovalStore]) -> None:
    await stores[0].health()


async def test_a_file_that_is_no_database_is_unavailable_and_its_text_is_not_told(tmp_path: Path) -> None:
    path = tmp_path / "approvals.sqlite"
    path.write_bytes(b"not a database at all, and long enough for a header " * 4)
    with pytest.raises(StoreUnavailable) as stop:
        await SqliteApprovals(path).get("apr-1")
    assert "not a database" not in str(stop.value)


async def test_a_server_that_is_away_is_unavailable(tmp_path: Path) -> None:
    server = ValkeyServer(data_dir=tmp_path)
    server.start()
    store = _redis(server)
    server.stop()
    with pytest.raises(StoreUnavailable):
        await store.add(held(), now=NOW)
    await store.close()


@pytest.mark.parametrize(
    "text",
    [
        "no json",
        "[]",
        "7",
        '{"id":"apr-1"}',
        '{"id":1,"task":"t","owner":"o","version":1,"until":1,"sealed":"s"}',
        '{"id":"i","task":"t","owner":"o","version":"1","until":1,"sealed":"s"}',
        '{"id":"i","task":"t","owner":"o","version":1,"until":1e999,"sealed":"s"}',
        '{"id":"i","task":"t","owner":"o","version":1,"until":1,"sealed":"s","state":"approved"}',
    ],
)
async def test_what_another_program_wrote_is_not_read(valkey: ValkeyServer, text: str, tmp_path: Path) -> None:
    agent = f"{AGENT}:{tmp_path.name}"
    store = _redis(valkey, agent)
    await store._server.ask(lambda server: server.hset(hash_of(agent), "apr-1", text))  # type: ignore[arg-type, return-value]
    with pytest.raises(StoreUnavailable):
        await store.get("apr-1")
    await store.close()


async def test_two_agents_at_one_server_do_not_see_each_others_approvals(valkey: ValkeyServer, tmp_path: Path) -> None:
    one, other = (_redis(valkey, f"{AGENT}:{tmp_path.name}:{name}") for name in ("a", "b"))
    await one.add(held(), now=NOW)
    assert await other.get("apr-1") is None
    assert await other.all() == []
    await one.close()
    await other.close()


async def test_only_its_owner_reads_the_file_and_a_commit_is_synced(tmp_path: Path) -> None:
    path = tmp_path / "remote" / "approvals.sqlite"
    await SqliteApprovals(path).add(held(), now=NOW)
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT count(*) FROM approvals").fetchone() == (1,)
    db.close()


async def test_a_writer_that_holds_the_file_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "approvals.sqlite"
    store = SqliteApprovals(path)
    await store.add(held(), now=NOW)
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    swapping = asyncio.create_task(store.swap(held(), later(held())))
    await asyncio.sleep(0.05)
    assert not swapping.done()
    with ThreadPoolExecutor(1) as thread:
        thread.submit(other.execute, "COMMIT").result()
    assert await swapping
    other.close()
