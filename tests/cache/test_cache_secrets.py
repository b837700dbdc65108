"""Several secrets: the first is looked up and written under, the others only open."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from cache.entry import MAGIC
from cache.keys import MAX_SECRETS, CacheKeys, load_keys, load_secret, load_secrets
from cache.result_cache import Hit, Miss, ResultCache
from cache.store import CacheStore
from cache.verification import verify
from contract.errors import DatasetAgentError
from contract.settings import Settings
from tests.authority_builder import NOW, make_authority
from tests.cache.cache_builder import make_document, make_execution, make_intent

FIRST, SECOND, THIRD = ("0a" * 32, "0b" * 32, "0c" * 32)
OLD, NEW = (CacheKeys.from_secret(bytes.fromhex(text)) for text in (FIRST, SECOND))


def in_file(folder: Path, text: str) -> Settings:
    path = folder / "keys" / "remote" / "cache.secret"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o600)
    return Settings(home=folder)


async def keep(results: ResultCache, **arguments: object) -> str:
    intent = make_intent(dict(arguments) or None)
    await results.keep(
        make_authority(), intent, make_document(), make_execution(), freshness_class="standard", reuse_s=60, now=NOW
    )
    return results.locate(make_authority(), intent, freshness_class="standard").key


async def look(results: ResultCache) -> Hit | Miss:
    return await results.find(make_authority(), make_intent(), freshness_class="standard", max_age_s=None, now=NOW)


def test_each_line_is_a_secret_and_the_first_is_the_current_one(tmp_path: Path) -> None:
    settings = in_file(tmp_path, f"{SECOND}\n{FIRST}\n")
    assert load_secrets(settings) == (bytes.fromhex(SECOND), bytes.fromhex(FIRST))
    assert load_secret(settings) == bytes.fromhex(SECOND)


def test_the_setting_holds_several_between_commas() -> None:
    held = load_secrets(Settings(cache_secret=f"{SECOND},{FIRST}"))
    assert held == (bytes.fromhex(SECOND), bytes.fromhex(FIRST))


@pytest.mark.parametrize(
    "text",
    [
        f"{FIRST}\n\n{SECOND}",
        f"{FIRST}\n{FIRST}",
        "\n".join(f"{n:02x}" * 32 for n in range(MAX_SECRETS + 1)),
        f"{FIRST}\nab",
    ],
    ids=["an empty line", "one twice", "too many", "a short one"],
)
def test_lines_that_are_not_secrets_are_a_fault(tmp_path: Path, text: str) -> None:
    with pytest.raises(DatasetAgentError) as caught:
        load_secrets(in_file(tmp_path, text))
    assert caught.value.code == "cache.secret.malformed"
    assert FIRST not in caught.value.message


def test_a_file_that_has_no_end_is_no_secret(tmp_path: Path) -> None:
    with pytest.raises(DatasetAgentError) as caught:
        load_secrets(in_file(tmp_path, FIRST + "\n" * 2_000))
    assert caught.value.code == "cache.secret.malformed"


def test_a_kid_is_the_same_each_time_and_differs_by_secret(tmp_path: Path) -> None:
    kids = [one.kid for one in load_keys(in_file(tmp_path, f"{FIRST}\n{SECOND}\n{THIRD}\n"))]
    assert kids == [CacheKeys.from_secret(bytes.fromhex(text)).kid for text in (FIRST, SECOND, THIRD)]
    assert len(set(kids)) == 3
    assert all(len(kid) == 8 and kid not in text for kid in kids for text in (FIRST, SECOND, THIRD))


async def test_the_header_names_the_secret_and_nothing_of_it(store: CacheStore) -> None:
    entry = await store.get(await keep(ResultCache(store, OLD)), now=NOW)
    assert entry is not None
    (length,) = struct.unpack_from(">I", entry, len(MAGIC))
    header = entry[len(MAGIC) + 4 :][:length]
    assert json.loads(header)["kid"] == OLD.kid
    assert FIRST.encode() not in entry
    assert bytes.fromhex(FIRST) not in entry


async def test_what_was_stored_under_another_secret_is_found_no_more_and_stays_openable(store: CacheStore) -> None:
    results = ResultCache(store, OLD)
    await keep(results)
    assert isinstance(await look(results), Hit)
    results.take_over(NEW)
    assert isinstance(await look(results), Miss)
    await keep(results)
    assert isinstance(await look(results), Hit)
    report = await verify(store, NEW, OLD, now=NOW)
    assert (report.checked, dict(report.opened)) == (2, {OLD.kid: 1, NEW.kid: 1})


async def test_a_lookup_under_way_while_the_secret_changes_opens_with_the_one_it_began_with(store: CacheStore) -> None:
    results = ResultCache(store, OLD)
    await keep(results)
    get = store.get

    async def slow(key: str, *, now: float, peek: bool = False) -> bytes | None:
        found = await get(key, now=now, peek=peek)
        results.take_over(NEW)
        return found

    store.get = slow  # type: ignore[method-assign]
    assert isinstance(await look(results), Hit)
