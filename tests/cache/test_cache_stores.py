"""One contract, both stores."""

from __future__ import annotations

import asyncio

from cache.partition import KEY_PREFIX
from cache.sqlite_store import SqliteStore
from cache.store import CacheStore

NOW = 1_800_000_000.0


def key(name: str) -> str:
    return f"{KEY_PREFIX}{{{name}}}:e:{name}"


async def test_what_was_put_is_got(store: CacheStore) -> None:
    entry = bytes(range(256)) * 40
    assert await store.put(key("a"), entry, exp=NOW + 60, now=NOW)
    assert await store.get(key("a"), now=NOW) == entry


async def test_what_was_never_put_is_none(store: CacheStore) -> None:
    assert await store.get(key("a"), now=NOW) is None


async def test_a_second_put_replaces_the_first(store: CacheStore) -> None:
    await store.put(key("a"), b"one", exp=NOW + 60, now=NOW)
    await store.put(key("a"), b"two", exp=NOW + 60, now=NOW)
    assert await store.get(key("a"), now=NOW) == b"two"
    assert (await store.stats()).entries == 1


async def test_deleting_says_how_many_there_were(store: CacheStore) -> None:
    for name in "abc":
        await store.put(key(name), b"x", exp=NOW + 60, now=NOW)
    assert await store.delete([key("a"), key("b"), key("z")]) == 2
    assert await store.get(key("a"), now=NOW) is None
    assert await store.get(key("c"), now=NOW) == b"x"


async def test_deleting_nothing_is_nothing(store: CacheStore) -> None:
    assert await store.delete([]) == 0


async def test_every_entry_is_listed_once_with_its_size(store: CacheStore) -> None:
    sizes = {key(f"k{index}"): 1 + index % 7 for index in range(1_203)}
    for name, size in sizes.items():
        await store.put(name, b"x" * size, exp=NOW + 60, now=NOW)
    listed = [entry async for entry in store.entries()]
    assert {entry.key: entry.stored_bytes for entry in listed} == sizes
    assert len(listed) == len(sizes)


async def test_a_listing_holds_only_the_head_of_a_large_entry(store: CacheStore) -> None:
    await store.put(key("a"), b"h" * 5_000 + b"t" * 100_000, exp=NOW + 60, now=NOW)
    (entry,) = [entry async for entry in store.entries()]
    assert entry.head.startswith(b"h" * 100)
    assert len(entry.head) < 5_000
    assert entry.stored_bytes == 105_000


async def test_a_burst_of_lookups_waits_for_its_turn(store: CacheStore) -> None:
    await store.put(key("a"), b"x", exp=NOW + 60, now=NOW)
    assert await asyncio.gather(*(store.get(key("a"), now=NOW) for _ in range(200))) == [b"x"] * 200


async def test_counters_add_up_and_are_not_entries(store: CacheStore) -> None:
    await store.count({"hit": 2, "absent": 1})
    await store.count({"hit": 3})
    stats = await store.stats()
    assert (stats.counters, stats.entries, stats.bytes) == ({"hit": 5, "absent": 1}, 0, 0)


async def test_totals_are_entries_and_their_bytes(store: CacheStore) -> None:
    await store.put(key("a"), b"x" * 100, exp=NOW + 60, now=NOW)
    await store.put(key("b"), b"x" * 50, exp=NOW + 60, now=NOW)
    stats = await store.stats()
    assert (stats.entries, stats.bytes) == (2, 150)


async def test_a_store_that_works_is_healthy(store: CacheStore) -> None:
    await store.health()


async def test_one_owner_holds_a_lease_until_it_ends(store: CacheStore) -> None:
    assert await store.lease(key("a"), "one", life_s=60, now=NOW)
    assert not await store.lease(key("a"), "two", life_s=60, now=NOW)
    assert await store.lease(key("a"), "one", life_s=60, now=NOW)
    await store.release(key("a"), "two")
    assert not await store.lease(key("a"), "two", life_s=60, now=NOW)
    await store.release(key("a"), "one")
    assert await store.lease(key("a"), "two", life_s=60, now=NOW)


async def test_a_lease_that_is_not_renewed_ends_by_itself(store: CacheStore) -> None:
    assert await store.lease(key("a"), "one", life_s=0.05, now=NOW)
    while not await store.lease(key("a"), "two", life_s=60, now=NOW + 0.1):
        await asyncio.sleep(0.01)


async def test_a_lease_is_not_an_entry(store: CacheStore) -> None:
    await store.lease(key("a"), "one", life_s=60, now=NOW)
    assert await store.get(key("a"), now=NOW) is None
    assert (await store.stats()).entries == 0


async def test_the_owner_of_the_lease_writes(store: CacheStore) -> None:
    assert await store.lease(key("a"), "one", life_s=60, now=NOW)
    assert await store.put(key("a"), b"x", exp=NOW + 60, now=NOW, owner="one")
    assert await store.get(key("a"), now=NOW) == b"x"


async def test_a_write_after_the_lease_was_lost_is_dropped(store: CacheStore) -> None:
    """Another took it, worked and wrote, and perhaps gave it back: what is there stays."""
    for given_back in (False, True):
        assert await store.lease(key("a"), "one", life_s=60, now=NOW)
        await store.release(key("a"), "one")
        assert await store.lease(key("a"), "two", life_s=60, now=NOW)
        assert await store.put(key("a"), b"younger", exp=NOW + 60, now=NOW, owner="two")
        if given_back:
            await store.release(key("a"), "two")
        assert not await store.put(key("a"), b"older", exp=NOW + 60, now=NOW, owner="one")
        assert await store.get(key("a"), now=NOW) == b"younger"
        await store.release(key("a"), "two")


async def test_a_lease_on_another_key_writes_nothing(store: CacheStore) -> None:
    assert await store.lease(key("a"), "one", life_s=60, now=NOW)
    assert not await store.put(key("b"), b"x", exp=NOW + 60, now=NOW, owner="one")
    assert await store.get(key("b"), now=NOW) is None


async def test_an_unleased_write_needs_no_owner(store: CacheStore) -> None:
    assert await store.lease(key("a"), "one", life_s=60, now=NOW)
    assert await store.put(key("a"), b"x", exp=NOW + 60, now=NOW)
    assert await store.get(key("a"), now=NOW) == b"x"


async def test_a_lease_is_renewed_by_its_owner_and_never_taken_again(store: CacheStore) -> None:
    assert await store.lease(key("a"), "one", life_s=60, now=NOW)
    assert await store.renew(key("a"), "one", life_s=60, now=NOW)
    assert not await store.renew(key("a"), "two", life_s=60, now=NOW)
    assert await store.release(key("a"), "one")
    assert not await store.renew(key("a"), "one", life_s=60, now=NOW)
    assert not await store.release(key("a"), "one")
    assert await store.lease(key("a"), "two", life_s=60, now=NOW)


async def test_a_renewed_lease_is_held_for_another_life(store: CacheStore) -> None:
    assert await store.lease(key("a"), "one", life_s=0.05, now=NOW)
    assert await store.renew(key("a"), "one", life_s=60, now=NOW)
    await asyncio.sleep(0.06)
    assert not await store.lease(key("a"), "two", life_s=60, now=NOW + 0.06)


async def test_reading_never_lengthens_a_life(store: CacheStore) -> None:
    """Whatever ends with the clock of the store is gone though it is read all the time; what does not says when it ends."""
    await store.put(key("a"), b"x", exp=NOW + 0.2, now=NOW)
    ends = asyncio.get_running_loop().time() + 0.3
    while asyncio.get_running_loop().time() < ends:
        await store.get(key("a"), now=NOW + 0.1)
        await asyncio.sleep(0.02)
    assert await expiry_of(store, key("a")) in (None, NOW + 0.2)


async def expiry_of(store: CacheStore, name: str) -> float | None:
    """What a SQLite file says of an entry's end; ``None`` where a server has removed it."""
    if isinstance(store, SqliteStore):
        return float(store._read().execute("SELECT exp FROM entries WHERE key = ?", (name,)).fetchone()[0])
    assert await store.get(name, now=NOW) is None
    return None


async def test_a_lease_that_is_revoked_is_nobodys(store: CacheStore) -> None:
    """Whoever held it writes and renews nothing, and another may lead at once; the others are left alone."""
    for name in ("a", "b"):
        assert await store.lease(key(name), "one", life_s=60, now=NOW)
    assert await store.revoke(lambda held: held == key("a")) == 1
    assert not await store.put(key("a"), b"x", exp=NOW + 60, now=NOW, owner="one")
    assert not await store.renew(key("a"), "one", life_s=60, now=NOW)
    assert await store.holder(key("a")) == ""
    assert await store.lease(key("a"), "two", life_s=60, now=NOW)
    assert await store.put(key("b"), b"x", exp=NOW + 60, now=NOW, owner="one")
    assert await store.revoke(lambda held: False) == 0


async def test_what_is_written_beside_an_entry_needs_that_entry(store: CacheStore) -> None:
    assert not await store.put(key("b"), b"x", exp=NOW + 60, now=NOW, beside=key("a"))
    assert await store.get(key("b"), now=NOW) is None
    await store.put(key("a"), b"x", exp=NOW + 60, now=NOW)
    assert await store.put(key("b"), b"x", exp=NOW + 60, now=NOW, beside=key("a"))
    assert await store.get(key("b"), now=NOW) == b"x"
    await store.delete([key("a")])
    assert not await store.put(key("b"), b"y", exp=NOW + 60, now=NOW, beside=key("a"))
    assert await store.get(key("b"), now=NOW) == b"x"


async def test_what_is_written_under_a_lease_beside_an_entry_needs_both(store: CacheStore) -> None:
    async def put(owner: str) -> bool:
        return await store.put(key("b"), b"y", exp=NOW + 60, now=NOW, owner=owner, beside=key("a"))

    assert await store.lease(key("b"), "one", life_s=60, now=NOW)
    assert not await put("one")
    await store.put(key("a"), b"x", exp=NOW + 60, now=NOW)
    assert not await put("two")
    assert await store.get(key("b"), now=NOW) is None
    assert await put("one")
