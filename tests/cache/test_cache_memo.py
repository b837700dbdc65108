"""What is remembered of words: sealed, bounded, for whom it is, for as long as it was meant to be."""

from __future__ import annotations

import logging
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cache.memo import MAX_RECENT, MAX_RECORD_BYTES, Memo
from cache.memo_keys import MemoKeys, load_memo_secret
from cache.memo_opening import open_memo
from cache.sqlite_store import SqliteStore
from cache.store import CacheStore, StoreUnavailable
from contract.errors import DatasetAgentError
from contract.settings import Settings
from tests.authority_builder import NOW

SCOPE = (
    "1",
    "reader",
    "https://issuer.example",
    "acme",
    "analyst",
    "2026.1",
    [["agent", "batches", "d1"]],
    "UTC",
    None,
)
WORDS = "compare MARKER-WORDS and B002"
ARGUMENTS = {"batch_a": "MARKER-VALUE", "batch_b": "B002"}
TTL = 60.0


@pytest.fixture
def memo(store: CacheStore) -> Memo:
    return Memo(store, MemoKeys(bytes(32)), ttl_s=TTL)


async def keep(memo: Memo, words: str = WORDS, *, scope: tuple[Any, ...] = SCOPE, now: float = NOW) -> None:
    await memo.keep(scope, words, dataset="batches", capability="compare", arguments=ARGUMENTS, now=now)


async def test_very_words_are_found_with_their_call(memo: Memo) -> None:
    await keep(memo)
    found = await memo.exact(SCOPE, WORDS, now=NOW + 1)
    assert found is not None
    assert (found.dataset, found.capability, dict(found.arguments)) == ("batches", "compare", ARGUMENTS)


async def test_other_words_are_not_found_and_are_among_the_recent(memo: Memo) -> None:
    await keep(memo)
    assert await memo.exact(SCOPE, WORDS + " again", now=NOW) is None
    assert [item.words for item in await memo.recent(SCOPE, now=NOW)] == [WORDS]


@pytest.mark.parametrize("at", range(len(SCOPE)))
async def test_another_scope_in_any_one_dimension_finds_nothing(memo: Memo, at: int) -> None:
    await keep(memo)
    other = (*SCOPE[:at], "another", *SCOPE[at + 1 :])
    assert await memo.exact(other, WORDS, now=NOW) is None and await memo.recent(other, now=NOW) == ()


async def test_reading_extends_no_life(memo: Memo) -> None:
    await keep(memo)
    for second in range(0, 60, 10):
        assert await memo.exact(SCOPE, WORDS, now=NOW + second) is not None
        await keep(memo, now=NOW + second)  # asked and read again: what is kept stays as it is
    assert await memo.exact(SCOPE, WORDS, now=NOW + TTL) is None
    assert await memo.recent(SCOPE, now=NOW + TTL) == ()


async def test_a_recent_record_ends_when_it_would_alone(memo: Memo) -> None:
    await keep(memo, "one")
    await keep(memo, "two", now=NOW + 30)
    assert [item.words for item in await memo.recent(SCOPE, now=NOW + TTL + 1)] == ["two"]


async def test_a_record_from_the_future_is_not_used(memo: Memo) -> None:
    await keep(memo, now=NOW + 30)
    assert await memo.exact(SCOPE, WORDS, now=NOW) is None


async def test_so_many_are_recent_and_no_more(tmp_path: Path) -> None:
    memo = Memo(SqliteStore(tmp_path / "memo.sqlite", max_bytes=2**21), MemoKeys(bytes(32)), ttl_s=TTL)
    for number in range(MAX_RECENT + 3):
        await keep(memo, f"words {number}")
    found = [item.words for item in await memo.recent(SCOPE, now=NOW)]
    assert (len(found), found[0], found[-1]) == (MAX_RECENT, f"words {MAX_RECENT + 2}", "words 3")
    await memo.close()


async def test_a_record_that_is_too_large_is_not_kept(memo: Memo) -> None:
    await keep(memo, "x" * MAX_RECORD_BYTES)
    assert await memo.recent(SCOPE, now=NOW) == ()


async def test_arguments_that_json_cannot_carry_are_not_kept(memo: Memo) -> None:
    await memo.keep(SCOPE, WORDS, dataset="b", capability="c", arguments={"n": 2**70}, now=NOW)
    assert await memo.exact(SCOPE, WORDS, now=NOW) is None


async def test_the_file_stays_bounded(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "memo.sqlite", max_bytes=2**20)
    memo = Memo(store, MemoKeys(bytes(32)), ttl_s=TTL)
    for number in range(300):
        await keep(memo, f"{number} " + "x" * 4_000, scope=(*SCOPE[:-1], number))
    await memo.close()
    assert (tmp_path / "memo.sqlite").stat().st_size <= 2**20


async def test_nothing_of_it_is_readable_in_the_store(tmp_path: Path) -> None:
    memo = Memo(SqliteStore(tmp_path / "memo.sqlite", max_bytes=2**20), MemoKeys(bytes(32)), ttl_s=TTL)
    await keep(memo)
    await memo.close()
    raw = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert raw and not any(word in raw for word in (b"MARKER", b"batches", b"compare", b"acme", b"analyst", b"B002"))


async def test_sizes_do_not_tell_words_apart(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "memo.sqlite", max_bytes=2**20)
    memo = Memo(store, MemoKeys(bytes(32)), ttl_s=TTL)
    await keep(memo, "a")
    await keep(memo, "a longer question about something else")
    sizes = {entry.stored_bytes for entry in [item async for item in store.entries()] if ":w:" in entry.key}
    await memo.close()
    assert len(sizes) == 1


async def _records(store: SqliteStore) -> list[str]:
    return [entry.key async for entry in store.entries() if ":w:" in entry.key]


@pytest.mark.parametrize("damage", ["moved", "edited", "cut", "other secret", "empty"])
async def test_a_record_that_was_moved_edited_or_sealed_elsewhere_is_none(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = SqliteStore(tmp_path / "memo.sqlite", max_bytes=2**20)
    memo = Memo(store, MemoKeys(bytes(32)), ttl_s=TTL)
    await keep(memo)
    (key,) = await _records(store)
    sealed = await store.get(key, now=NOW)
    assert sealed is not None
    if damage == "moved":
        await keep(memo, "other words")
        other = next(item for item in await _records(store) if item != key)
        sealed = await store.get(other, now=NOW) or b""
    elif damage == "edited":
        sealed = sealed[:-1] + bytes([sealed[-1] ^ 1])
    elif damage == "cut":
        sealed = sealed[:20]
    elif damage == "other secret":
        memo = Memo(store, MemoKeys(b"\x01" * 32), ttl_s=TTL)
        await keep(memo)
        sealed, memo = (
            await store.get((await _records(store))[-1], now=NOW) or b"",
            Memo(store, MemoKeys(bytes(32)), ttl_s=TTL),
        )
    else:
        sealed = b""
    await store.put(key, sealed, exp=NOW + TTL, now=NOW)
    with caplog.at_level(logging.ERROR):
        assert await memo.exact(SCOPE, WORDS, now=NOW) is None
    assert "integrity" in caplog.text and "MARKER" not in caplog.text
    await store.close()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(one=st.lists(st.text(max_size=4), max_size=3), other=st.lists(st.text(max_size=4), max_size=3))
def test_scopes_that_differ_share_no_partition(one: list[str], other: list[str]) -> None:
    from cache.encoding import encode

    keys = MemoKeys(bytes(32))
    assert (keys.partition_id(encode(one)) == keys.partition_id(encode(other))) is (one == other)


class DownStore:
    """A store that fails at everything."""

    def __getattr__(self, name: str) -> Any:
        async def fail(*args: Any, **named: Any) -> Any:
            raise StoreUnavailable("down")

        return fail


async def test_a_store_that_is_down_is_a_memo_that_remembers_nothing() -> None:
    memo = Memo(DownStore(), MemoKeys(bytes(32)), ttl_s=TTL)  # type: ignore[arg-type]
    await keep(memo)
    assert await memo.exact(SCOPE, WORDS, now=NOW) is None and await memo.recent(SCOPE, now=NOW) == ()
    await memo.close()


def test_the_secret_is_made_once_and_is_private(tmp_path: Path) -> None:
    wanted = Settings(home=tmp_path)
    wanted.root_dir.mkdir(parents=True, mode=0o700)
    first = load_memo_secret(wanted)
    path = wanted.root_dir / "memo.secret"
    assert load_memo_secret(wanted) == first and stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [item.name for item in wanted.root_dir.iterdir()] == ["memo.secret"]


def test_where_no_secret_can_be_kept_one_is_drawn(tmp_path: Path) -> None:
    wanted = Settings(home=tmp_path / "nowhere")
    assert load_memo_secret(wanted) != load_memo_secret(wanted)


def test_a_secret_that_others_may_read_is_refused(tmp_path: Path) -> None:
    wanted = Settings(home=tmp_path)
    wanted.root_dir.mkdir(parents=True)
    load_memo_secret(wanted)
    (wanted.root_dir / "memo.secret").chmod(0o640)
    with pytest.raises(DatasetAgentError, match="chmod 600"):
        load_memo_secret(wanted)


def test_a_malformed_secret_is_refused_without_its_text(tmp_path: Path) -> None:
    with pytest.raises(DatasetAgentError, match="DATASET_AGENT_MEMO_SECRET must be 64 hex digits") as refused:
        load_memo_secret(Settings(home=tmp_path, memo_secret="XYZ"))  # type: ignore[arg-type]
    assert "XYZ" not in str(refused.value)


def test_too_few_bytes_are_no_secret() -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        MemoKeys(bytes(31))


def test_keys_are_not_printed() -> None:
    assert repr(MemoKeys(bytes(32))) == "MemoKeys(…)"


def test_with_no_time_to_live_there_is_no_memo(tmp_path: Path) -> None:
    assert open_memo(Settings(home=tmp_path, memo_ttl=0)) is None


async def test_it_lies_in_the_roots_own_folder(tmp_path: Path) -> None:
    memo = open_memo(Settings(home=tmp_path))
    assert memo is not None
    await keep(memo)
    await memo.close()
    assert (tmp_path / "root" / "memo.sqlite").exists() and not (tmp_path / "cache.sqlite").exists()


async def test_it_lies_where_the_settings_say(tmp_path: Path, valkey: Any, valkey_url: str) -> None:
    memo = open_memo(Settings(home=tmp_path, memo_url=valkey_url, memo_secret="ab" * 32))  # type: ignore[arg-type]
    assert memo is not None
    await keep(memo)
    await memo.close()
    names = [key.decode() for key in valkey.keys("*")]
    assert len(names) == 2 and all(name.startswith("dsc:1:{memo:") for name in names)
