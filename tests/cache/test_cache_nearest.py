"""What comes nearest to a call that is not stored, and by which part of its key it differs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from cache import inspect
from cache.entry import seal, split
from cache.inspect import EntryView
from cache.keys import CacheKeys
from cache.nearest import SHOWN, Near, Sought, nearest, parts_of
from cache.partition import HIDDEN, PLAIN, entry_key, hidden_parts, partition
from cache.result_cache import ResultCache
from cache.store import CacheStore
from contract.authority import Authority
from contract.scope import Sensitivity
from tests.authority_builder import NOW, make_authority
from tests.cache.cache_builder import make_document, make_execution, make_intent, views

OTHER = CacheKeys.from_secret(bytes(32))


async def keep(results: ResultCache, authority: Authority, **arguments: Any) -> str:
    intent = make_intent(arguments or None)
    await results.keep(
        authority, intent, make_document(), make_execution(), freshness_class="standard", reuse_s=60, now=NOW
    )
    return results.locate(authority, intent, freshness_class="standard").key


def sought(keys: CacheKeys, authority: Authority | None = None) -> Sought:
    asked, intent = authority or make_authority(), make_intent()

    def parts(under: CacheKeys) -> Mapping[str, str]:
        where = partition(asked, intent, freshness_class="standard", media_type="application/json", keys=under)
        return hidden_parts(where, intent, keys=under)

    where = partition(asked, intent, freshness_class="standard", media_type="application/json", keys=keys)
    key = entry_key(where, intent, keys=keys)
    return Sought(intent.dataset, intent.capability, key, keys.kid, where.dimensions, parts)


async def near(store: CacheStore, keys: CacheKeys, *more: CacheKeys) -> tuple[Near, ...]:
    return await nearest(store, sought(keys), keys, *more, now=NOW)


CHANGES: list[tuple[dict[str, Any], set[str]]] = [
    ({"tenant": "other"}, {"tenant"}),
    ({"issuer": "https://other.example"}, {"issuer"}),
    ({"rows": {"orders.region": {"one_of": ["EU"]}}}, {"rows"}),
    ({"columns": ["orders.region"]}, {"columns"}),
    ({"masks": {"orders.region": "hash"}}, {"masks"}),
    ({"max_sensitivity": Sensitivity.INTERNAL}, {"max_sensitivity"}),
    ({"principal_class": "analyst"}, {"principal_class"}),
    ({"revision": "r2"}, {"revision"}),
    ({"policy_version": "2026.2"}, {"policy_version"}),
    ({"policy_id": "OTHER-1", "tenant": "other"}, {"policy_id", "tenant"}),
]


@pytest.mark.parametrize(("change", "named"), CHANGES, ids=["+".join(sorted(named)) for _, named in CHANGES])
async def test_each_part_by_which_the_nearest_entry_differs_is_named(
    results: ResultCache, store: CacheStore, keys: CacheKeys, change: dict[str, Any], named: set[str]
) -> None:
    await keep(results, make_authority(**change))
    (found,) = await near(store, keys)
    assert set(found.differs) == named


async def test_another_question_differs_in_its_arguments_alone(
    results: ResultCache, store: CacheStore, keys: CacheKeys
) -> None:
    await keep(results, make_authority(), n=1)
    assert [one.differs for one in await near(store, keys)] == [("arguments",)]


async def test_an_equal_call_differs_in_nothing_and_comes_first(
    results: ResultCache, store: CacheStore, keys: CacheKeys
) -> None:
    for number in range(40):
        await keep(results, make_authority(), n=number)
    equal = await keep(results, make_authority())
    found = await near(store, keys)
    assert len(found) == SHOWN
    assert (found[0].entry.key, found[0].differs) == (equal, ())


async def test_under_another_secret_only_that_differs_where_it_is_at_hand(store: CacheStore, keys: CacheKeys) -> None:
    await keep(ResultCache(store, OTHER), make_authority())
    assert [one.differs for one in await near(store, keys, OTHER)] == [("secret",)]
    assert [one.differs for one in await near(store, keys)] == [("secret", "scope")]


async def test_nothing_of_a_restricted_entry_or_of_another_capability_is_near(
    results: ResultCache, store: CacheStore, keys: CacheKeys
) -> None:
    await keep(results, make_authority(sensitivity=Sensitivity.RESTRICTED))
    other = make_intent(capability="search")
    await results.keep(
        make_authority(capability="search"),
        other,
        make_document(),
        make_execution(),
        freshness_class="standard",
        reuse_s=60,
        now=NOW,
    )
    assert await near(store, keys) == ()


async def test_an_entry_that_was_edited_tells_no_parts(
    results: ResultCache, store: CacheStore, keys: CacheKeys
) -> None:
    key = await keep(results, make_authority())
    entry = await store.get(key, now=NOW)
    assert entry is not None
    await store.put(key, entry[:-1] + bytes([entry[-1] ^ 1]), exp=NOW + 60, now=NOW)
    assert [(one.differs, dict(one.parts)) for one in await near(store, keys)] == [(("scope",), {})]


async def test_digests_of_parts_hold_no_value_and_are_sealed(
    results: ResultCache, store: CacheStore, keys: CacheKeys
) -> None:
    key = await keep(results, make_authority(tenant="tenant-SECRET"), batch="B-SECRET")
    (view,) = await views(store, now=NOW)
    parts = await parts_of(store, view, keys, now=NOW)
    assert parts is not None
    assert set(parts) == {*HIDDEN, "arguments"}
    assert "SECRET" not in str(parts)
    entry = await store.get(key, now=NOW)
    assert entry is not None
    assert not any(digest.encode() in entry for digest in parts.values())


async def test_a_difference_of_two_entries_names_hidden_parts_where_the_secret_is_at_hand(
    results: ResultCache, store: CacheStore, keys: CacheKeys
) -> None:
    wanted = [await keep(results, make_authority()), await keep(results, make_authority(tenant="other"), n=2)]
    by_key = {view.key: view for view in await views(store, now=NOW)}
    left, right = by_key[wanted[0]], by_key[wanted[1]]
    parts = (await told(store, left, keys), await told(store, right, keys))
    assert [one.dimension for one in inspect.diff(left, right, parts)] == ["tenant", "arguments"]
    assert [one.dimension for one in inspect.diff(left, right)] == ["scope"]


async def told(store: CacheStore, view: EntryView, keys: CacheKeys) -> Mapping[str, str]:
    found = await parts_of(store, view, keys, now=NOW)
    assert found is not None
    return found


def test_every_part_of_a_scope_is_plain_or_hidden() -> None:
    where = partition(
        make_authority(), make_intent(), freshness_class="standard", media_type="application/json", keys=OTHER
    )
    assert set(where.scope) == {*PLAIN, *HIDDEN}
    assert "acme" not in repr(where)


async def test_an_entry_of_an_earlier_form_tells_no_parts(
    store: CacheStore, results: ResultCache, keys: CacheKeys
) -> None:
    key = await keep(results, make_authority())
    (view,) = await views(store, now=NOW)
    entry = await store.get(key, now=NOW)
    assert entry is not None
    header, _ = split(entry)
    bare = seal(
        header._replace(kid=""), make_document(), make_execution(), key=key, partition_id=view.partition, keys=keys
    )
    await store.put(key, bare, exp=NOW + 60, now=NOW)
    assert await parts_of(store, view, keys, now=NOW) == {}
