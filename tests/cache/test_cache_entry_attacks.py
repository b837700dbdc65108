"""An entry that was copied, replayed, edited, cut or moved, in either store: a MISS, a warning and a count, never rows."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from cache.entry import split
from cache.keys import CacheKeys
from cache.result_cache import Hit, Miss, ResultCache
from cache.sqlite_store import SqliteStore
from cache.store import CacheStore
from contract.authority import Authority
from contract.result import Intent
from contract.scope import Sensitivity
from tests.authority_builder import NOW, make_authority
from tests.cache.cache_builder import make_document, make_execution, make_intent

LOG = "dataset_agent.cache"
MAGIC, LENGTH, NONCE, TAG = 5, 4, 12, 16
THEIRS = b'{"rows":[["THEIR-ROW-9"]]}'
OURS = b'{"rows":[["OUR-ROW-3"]]}'


class Cache:
    """One cache and what was kept in it, with the store's bytes at hand."""

    def __init__(self, results: ResultCache, caplog: pytest.LogCaptureFixture) -> None:
        assert results.store is not None
        self.results, self.store, self.caplog = results, results.store, caplog

    def key(self, authority: Authority, intent: Intent) -> str:
        return self.results.locate(authority, intent, freshness_class="standard").key

    async def kept(
        self, authority: Authority, intent: Intent, body: bytes = OURS, *, began: float = NOW, reuse_s: float = 60
    ) -> bytes:
        """The bytes of a result that was just kept."""
        document, execution = make_document(body), make_execution(began)
        await self.results.keep(
            authority, intent, document, execution, freshness_class="standard", reuse_s=reuse_s, now=began
        )
        entry = await self.store.get(self.key(authority, intent), now=began)
        assert entry is not None
        return entry

    async def put(self, authority: Authority, intent: Intent, entry: bytes) -> None:
        assert await self.store.put(self.key(authority, intent), entry, exp=NOW + 3_600, now=NOW)

    async def found(self, authority: Authority, intent: Intent, now: float = NOW) -> Hit | Miss:
        return await self.results.find(authority, intent, freshness_class="standard", max_age_s=None, now=now)

    async def check_nothing_is_served(self, authority: Authority, intent: Intent) -> None:
        """The lookup misses, says so to the operator without a word of the content, and the next result heals it."""
        self.caplog.clear()
        before = self.results.counters.get("integrity", 0)
        with self.caplog.at_level(logging.WARNING, LOG):
            found = await self.found(authority, intent)
        assert isinstance(found, Miss), "rows were served"
        assert found.reason == "integrity"
        assert self.results.counters["integrity"] == before + 1
        told = [record.getMessage() for record in self.caplog.records if record.name == LOG]
        assert len(told) == 1
        restricted = authority.sensitivity is Sensitivity.RESTRICTED
        assert (self.key(authority, intent) in told[0]) is not restricted, "who asked for it is not in the log"
        assert "ROW" not in self.caplog.text
        await self.kept(authority, intent)
        assert isinstance(await self.found(authority, intent), Hit)


@pytest.fixture
def cache(results: ResultCache, caplog: pytest.LogCaptureFixture) -> Cache:
    return Cache(results, caplog)


A, INTENT = make_authority(), make_intent()
OTHERS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "dataset": ({"dataset": "chromatography-results"}, {"dataset": "chromatography-results"}),
    "dataset version": ({"dataset_version": "1.0.1"}, {}),
    "revision": ({"revision": "r2"}, {}),
    "schema version": ({"schema_version": "2"}, {}),
    "capability": ({"capability": "search"}, {"capability": "search"}),
    "template": ({}, {"template": "cd" * 32}),
    "issuer": ({"issuer": "https://other.example"}, {}),
    "tenant": ({"tenant": "other"}, {}),
    "principal class": ({"principal_class": "analyst"}, {}),
    "rows": ({"rows": {"orders.region": {"one_of": ["EU"]}}}, {}),
    "columns": ({"columns": ["orders.id"]}, {}),
    "masks": ({"masks": {"orders.id": "hash"}}, {}),
    "sensitivity": ({"sensitivity": Sensitivity.CONFIDENTIAL}, {}),
    "person of a restricted capability": ({"sensitivity": Sensitivity.RESTRICTED, "subject": "u-2"}, {}),
    "policy": ({"policy_id": "BPD-DATA-002"}, {}),
    "policy version": ({"policy_version": "2026.2"}, {}),
    "arguments": ({}, {"arguments": {"batch": "B002"}}),
}


@pytest.mark.parametrize("name", OTHERS)
async def test_an_entry_copied_to_the_key_of_another_request_is_not_served(cache: Cache, name: str) -> None:
    authority_fields, intent_fields = OTHERS[name]
    authority, intent = make_authority(**authority_fields), make_intent(**intent_fields)
    await cache.put(authority, intent, await cache.kept(A, INTENT, THEIRS))
    await cache.check_nothing_is_served(authority, intent)
    own = await cache.found(A, INTENT)
    assert isinstance(own, Hit), "the entry is still good where it belongs"
    assert own.document.body == THEIRS


@pytest.mark.parametrize("name", OTHERS)
async def test_an_entry_replayed_over_the_entry_of_another_request_is_not_served(cache: Cache, name: str) -> None:
    authority_fields, intent_fields = OTHERS[name]
    authority, intent = make_authority(**authority_fields), make_intent(**intent_fields)
    theirs = await cache.kept(A, INTENT, THEIRS)
    await cache.kept(authority, intent)
    await cache.put(authority, intent, theirs)
    await cache.check_nothing_is_served(authority, intent)


def regions(entry: bytes) -> dict[str, range]:
    """The parts of an entry, as places in its bytes."""
    _, end = split(entry)
    start, sealed = MAGIC + LENGTH, end + NONCE
    members = {
        f"header: {name}": range(at, at + len(name) + 6)
        for name in json.loads(entry[start:end])
        for at in [start + entry[start:end].index(f'"{name}"'.encode())]
    }
    return {
        "magic": range(MAGIC),
        "length": range(MAGIC, start),
        "header's end": range(end - 3, end),
        **members,
        "nonce": range(end, sealed),
        "ciphertext's start": range(sealed, sealed + 8),
        "ciphertext": range(sealed + 8, len(entry) - TAG),
        "tag": range(len(entry) - TAG, len(entry)),
    }


async def test_an_entry_with_one_bit_changed_in_any_region_is_not_served(cache: Cache) -> None:
    entry = await cache.kept(A, INTENT)
    found = regions(entry)
    assert {place for places in found.values() for place in places} >= set(range(MAGIC + LENGTH))
    for places in found.values():
        for place in {places[0], places[len(places) // 2], places[-1]}:
            for bit in (0x01, 0x20, 0x80):
                altered = bytearray(entry)
                altered[place] ^= bit
                await cache.put(A, INTENT, bytes(altered))
                await cache.check_nothing_is_served(A, INTENT)


async def test_an_entry_with_a_later_end_or_another_age_in_its_header_is_not_served(cache: Cache) -> None:
    entry = await cache.kept(A, INTENT)
    _, end = split(entry)
    held = json.loads(entry[MAGIC + LENGTH : end])
    for change in ({"exp": NOW + 3_000.0}, {"started": NOW + 1.0}, {"size": 1}, {"as_of": "2027-01-01T00:00:00Z"}):
        assert set(change) <= set(held)
        header = json.dumps(held | change, separators=(",", ":")).encode()
        await cache.put(A, INTENT, entry[:MAGIC] + len(header).to_bytes(LENGTH, "big") + header + entry[end:])
        await cache.check_nothing_is_served(A, INTENT)


async def test_a_header_written_in_another_way_with_the_same_content_is_not_served(cache: Cache) -> None:
    entry = await cache.kept(A, INTENT)
    _, end = split(entry)
    held = json.loads(entry[MAGIC + LENGTH : end])
    for header in (json.dumps(held), json.dumps(dict(reversed(held.items())), separators=(",", ":"))):
        written = header.encode()
        await cache.put(A, INTENT, entry[:MAGIC] + len(written).to_bytes(LENGTH, "big") + written + entry[end:])
        await cache.check_nothing_is_served(A, INTENT)


def lengths(entry: bytes) -> set[int]:
    """Within and at the end of every region, and one byte less than all."""
    ends = {
        place for places in regions(entry).values() for place in (places[0], places[0] + 1, places[-1], places[-1] + 1)
    }
    return {1, *ends, len(entry) - 1} - {0, len(entry)}


async def test_an_entry_that_was_cut_within_or_after_any_region_is_not_served(cache: Cache) -> None:
    entry = await cache.kept(A, INTENT)
    for length in sorted(lengths(entry)):
        await cache.put(A, INTENT, entry[:length])
        await cache.check_nothing_is_served(A, INTENT)


Splice = Callable[[bytes, bytes], bytes]


def head_of(entry: bytes) -> bytes:
    return entry[: split(entry)[1]]


def sealed_of(entry: bytes) -> bytes:
    return entry[split(entry)[1] :]


SPLICES: dict[str, Splice] = {
    "the header of one, the rows of the other": lambda one, other: head_of(one) + sealed_of(other),
    "the nonce of the other": lambda one, other: head_of(one) + sealed_of(other)[:NONCE] + sealed_of(one)[NONCE:],
    "the tag of the other": lambda one, other: one[:-TAG] + other[-TAG:],
    "both, one after the other": lambda one, other: one + other,
    "more bytes at its end": lambda one, other: one + b"\x00",
    "more bytes before it": lambda one, other: b"\x00" + one,
    "its sealed half twice": lambda one, other: one + sealed_of(one),
}


@pytest.mark.parametrize("name", SPLICES)
@pytest.mark.parametrize("same_key", [True, False], ids=["of one key", "of two keys"])
async def test_an_entry_put_together_from_two_is_not_served(cache: Cache, name: str, same_key: bool) -> None:
    other = await cache.kept(
        A, INTENT if same_key else make_intent({"batch": "B002"}), THEIRS, began=NOW - 5, reuse_s=3_000
    )
    one = await cache.kept(A, INTENT)
    for spliced in (SPLICES[name](one, other), SPLICES[name](other, one)):
        await cache.put(A, INTENT, spliced)
        await cache.check_nothing_is_served(A, INTENT)


async def test_an_older_entry_of_the_same_key_that_is_put_back_lives_no_longer_than_it_would_have(
    cache: Cache,
) -> None:
    older = await cache.kept(A, INTENT, THEIRS, began=NOW - 50, reuse_s=60)
    await cache.kept(A, INTENT)
    await cache.put(A, INTENT, older)
    found = await cache.found(A, INTENT, now=NOW + 10)
    assert isinstance(found, Miss)
    assert found.reason == "expired"


# --- between servers ---------------------------------------------------------------------------------


@pytest.fixture
async def elsewhere(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> AsyncIterator[Cache]:
    """Another server, whose agent has another secret."""
    store: CacheStore = SqliteStore(tmp_path / "elsewhere.sqlite", max_bytes=8 * 2**20)
    yield Cache(ResultCache(store, CacheKeys.from_secret(bytes(32))), caplog)
    await store.close()


async def test_a_whole_store_that_was_moved_under_another_secret_hits_nothing(cache: Cache, elsewhere: Cache) -> None:
    requests = [(A, make_intent({"n": number})) for number in range(20)]
    for authority, intent in requests:
        entry = await cache.kept(authority, intent, THEIRS)
        assert await elsewhere.store.put(cache.key(authority, intent), entry, exp=NOW + 60, now=NOW)
    for authority, intent in requests:
        found = await elsewhere.found(authority, intent)
        assert isinstance(found, Miss)
        assert found.reason == "absent"


async def test_an_entry_moved_to_the_key_that_another_secret_makes_is_not_served(
    cache: Cache, elsewhere: Cache
) -> None:
    await elsewhere.put(A, INTENT, await cache.kept(A, INTENT, THEIRS))
    await elsewhere.check_nothing_is_served(A, INTENT)
    await cache.put(A, INTENT, await elsewhere.kept(A, INTENT, THEIRS))
    await cache.check_nothing_is_served(A, INTENT)


async def test_an_entry_moved_between_datasets_and_servers_at_once_is_not_served(
    cache: Cache, elsewhere: Cache
) -> None:
    authority, intent = make_authority(dataset="clinical-private"), make_intent(dataset="clinical-private")
    await elsewhere.put(A, INTENT, await cache.kept(authority, intent, THEIRS))
    await elsewhere.check_nothing_is_served(A, INTENT)
