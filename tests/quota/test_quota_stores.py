"""One contract for every store of quotas: a file of processes, and Valkey."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from grants.state_server import StateServer
from quota.rate import Rate
from quota.redis_store import RedisQuotas
from quota.sqlite_store import SqliteQuotas
from quota.store import QuotaStore, Room, StoreUnavailable, key_of
from tests.valkey_server import ValkeyServer

NOW = 1_790_000_000.0
RATE = Rate(10, 20)


@pytest.fixture(scope="module")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyServer]:
    server = ValkeyServer(data_dir=tmp_path_factory.mktemp("valkey"))
    server.start()
    yield server
    server.stop()


def redis_quotas(port: int) -> RedisQuotas:
    return RedisQuotas(StateServer(f"redis://127.0.0.1:{port}", key=RedisQuotas.KEY, waiting=1.0), budget=5.0)


@pytest.fixture(params=["sqlite", "redis"])
async def stores(
    request: pytest.FixtureRequest, tmp_path: Path, valkey: ValkeyServer
) -> AsyncIterator[tuple[QuotaStore, QuotaStore]]:
    """Two handles on one store, as two processes have them."""
    path = tmp_path / "home" / "quota.sqlite3"
    both: tuple[QuotaStore, QuotaStore] = (
        (SqliteQuotas(path), SqliteQuotas(path))
        if request.param == "sqlite"
        else (redis_quotas(valkey.port), redis_quotas(valkey.port))
    )
    yield both
    for store in both:
        await store.close()


def key(request: pytest.FixtureRequest, of: str = "x") -> str:
    return key_of("agent", request.node.name, of)


def rooms(request: pytest.FixtureRequest, *most: int) -> list[Room]:
    return [Room(key(request, f"room {number}"), size) for number, size in enumerate(most)]


async def test_processes_share_one_burst_and_one_rate(
    stores: tuple[QuotaStore, QuotaStore], request: pytest.FixtureRequest
) -> None:
    one, other = stores
    name = key(request)
    assert (await one.take(name, RATE, 15, now=NOW)).number == 15
    assert (await other.take(name, RATE, 15, now=NOW)).number == 5
    over = await one.take(name, RATE, 1, now=NOW)
    assert over.number == 0
    assert over.retry_after_s == pytest.approx(0.1, abs=1e-3)
    assert (await other.take(name, RATE, 9, now=NOW + 0.501)).number == 5
    assert (await other.take(key(request, "another"), RATE, 9, now=NOW)).number == 9


async def test_calls_at_once_get_no_more_than_there_is(
    stores: tuple[QuotaStore, QuotaStore], request: pytest.FixtureRequest
) -> None:
    taken = await asyncio.gather(*[store.take(key(request), RATE, 3, now=NOW) for store in stores * 10])
    assert sum(one.number for one in taken) == RATE.burst


async def test_a_room_takes_so_many_and_another_when_one_left(
    stores: tuple[QuotaStore, QuotaStore], request: pytest.FixtureRequest
) -> None:
    one, other = stores
    room = rooms(request, 2)
    assert await one.enter(room, "a", until=NOW + 30, now=NOW) is None
    assert await other.enter(room, "b", until=NOW + 30, now=NOW) is None
    assert await one.enter(room, "c", until=NOW + 30, now=NOW) == 0
    await other.leave(room, "a")
    assert await one.enter(room, "c", until=NOW + 30, now=NOW) is None


async def test_a_place_is_had_in_every_room_or_in_none(
    stores: tuple[QuotaStore, QuotaStore], request: pytest.FixtureRequest
) -> None:
    one, other = stores
    wide, narrow = rooms(request, 5, 1)
    assert await one.enter([wide, narrow], "a", until=NOW + 30, now=NOW) is None
    for number in range(8):
        assert await other.enter([wide, narrow], f"b{number}", until=NOW + 30, now=NOW) == 1
    for number in range(4):
        assert await other.enter([wide], f"c{number}", until=NOW + 30, now=NOW) is None
    assert await other.enter([wide], "d", until=NOW + 30, now=NOW) == 0


async def test_who_is_killed_holds_a_place_until_it_ends_and_who_stays_holds_it_on(
    stores: tuple[QuotaStore, QuotaStore], request: pytest.FixtureRequest
) -> None:
    one, other = stores
    room = rooms(request, 2)
    await one.enter(room, "killed", until=NOW + 30, now=NOW)
    await one.enter(room, "stays", until=NOW + 30, now=NOW)
    await one.stay(room, "stays", until=NOW + 60)
    await one.stay(room, "nobody", until=NOW + 60)
    assert await other.enter(room, "next", until=NOW + 59, now=NOW + 29) == 0
    assert await other.enter(room, "next", until=NOW + 61, now=NOW + 31) is None
    assert await other.enter(room, "more", until=NOW + 61, now=NOW + 31) == 0


async def test_no_name_is_in_a_store(tmp_path: Path) -> None:
    path = tmp_path / "quota.sqlite3"
    store = SqliteQuotas(path)
    name = key_of("person", "https://issuer", "acme", "alice@example.org")
    await store.take(name, RATE, 1, now=NOW)
    await store.enter([Room(name, 3)], "holder", until=NOW + 30, now=NOW)
    await store.close()
    held = b"".join(found.read_bytes() for found in tmp_path.iterdir())
    assert name.encode() in held
    assert b"alice" not in held
    assert path.stat().st_mode & 0o777 == 0o600


def test_parts_of_an_identity_are_not_confused() -> None:
    assert len({key_of("a", "b", "c"), key_of("a", "bc"), key_of("a", "", "bc"), key_of("ab", "c"), key_of("a")}) == 5


async def test_what_is_over_is_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "quota.sqlite3"
    store = SqliteQuotas(path)
    for number in range(200):
        await store.enter([Room(str(number), 1)], "h", until=NOW + 1, now=NOW)
        await store.take(str(number), RATE, 1, now=NOW)
    for number in range(200):
        await store.take("later", RATE, 1, now=NOW + 100 + number)
    await store.close()
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT COUNT(*) FROM rates").fetchone()[0] < 10
        assert db.execute("SELECT COUNT(*) FROM places").fetchone()[0] == 0


async def test_a_store_that_cannot_answer_says_so_without_a_path(tmp_path: Path) -> None:
    (tmp_path / "quota.sqlite3").write_bytes(b"no database" * 1_000)
    store = SqliteQuotas(tmp_path / "quota.sqlite3")
    with pytest.raises(StoreUnavailable, match=r"^quota\.sqlite3: "):
        await store.take("k", RATE, 1, now=NOW)
    await store.close()
    gone = redis_quotas(1)
    with pytest.raises(StoreUnavailable, match=r"^the server of quotas: "):
        await gone.enter([Room("k", 1)], "h", until=NOW, now=NOW)
    await gone.close()


async def test_processes_may_begin_a_file_at_once(tmp_path: Path) -> None:
    for number in range(10):
        path = tmp_path / f"{number}.sqlite3"
        stores = [SqliteQuotas(path) for _ in range(6)]
        taken = await asyncio.gather(*[store.take("k", RATE, 4, now=NOW) for store in stores])
        assert sum(one.number for one in taken) == RATE.burst
        for store in stores:
            await store.close()


async def test_a_clock_that_was_put_back_begins_anew(
    stores: tuple[QuotaStore, QuotaStore], request: pytest.FixtureRequest
) -> None:
    one, other = stores
    assert (await one.take(key(request), RATE, 99, now=NOW)).number == RATE.burst
    assert (await other.take(key(request), RATE, 1, now=NOW)).number == 0
    assert (await other.take(key(request), RATE, 99, now=NOW - 300)).number == RATE.burst
    assert (await one.take(key(request), RATE, 1, now=NOW - 300)).number == 0


async def test_where_the_file_was_replaced_processes_go_on_with_the_new_one_together(tmp_path: Path) -> None:
    path = tmp_path / "quota.sqlite3"
    one, other = SqliteQuotas(path), SqliteQuotas(path)
    assert (await one.take("a", RATE, 20, now=NOW)).number == 20
    for left in tmp_path.iterdir():
        left.unlink()
    assert (await other.take("a", RATE, 15, now=NOW)).number == 15
    assert (await one.take("a", RATE, 15, now=NOW)).number == 5
    assert (await other.take("a", RATE, 1, now=NOW)).number == 0
    await one.close()
    await other.close()
