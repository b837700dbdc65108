from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cache.encoding import encode
from cache.keys import CacheKeys
from cache.partition import Partition, _made, entry_key, parse_key, partition, plain
from contract import authority as authority_module
from contract.authority import Authority
from contract.errors import DatasetAgentError
from contract.result import Intent
from contract.scope import Constraint, Obligations, Scope, Sensitivity
from tests.authority_builder import make_authority
from tests.cache.cache_builder import TEMPLATE, make_intent

KEYS = CacheKeys.from_secret(bytes(range(32)))
RESTRICTED = {"sensitivity": Sensitivity.RESTRICTED}

# One strategy per dimension of an authorization. Each draws from a few values that look alike.
DIMENSIONS: dict[str, st.SearchStrategy[Any]] = {
    "issuer": st.sampled_from(["https://a.example", "https://b.example"]),
    "tenant": st.sampled_from(["acme", "acme2", "a"]),
    "dataset": st.sampled_from(["purification-batches", "purification"]),
    "dataset_version": st.sampled_from(["1.0.0", "1.0.1", "1.0"]),
    "revision": st.sampled_from(["r1", "r2", "1"]),
    "schema_version": st.sampled_from(["1", "2", "r1"]),
    "capability": st.sampled_from(["batch_yield", "batch"]),
    "principal_class": st.sampled_from(["process_engineer", "analyst"]),
    "grant_rows": st.sampled_from(
        [
            {},
            {"orders.region": {"one_of": ["EU"]}},
            {"orders.region": {"one_of": ["US"]}},
            {"orders.region": {"one_of": ["EU", "US"]}},
            {"orders.region": {"one_of": []}},
            {"orders.region": {"prefix": "EU"}},
            {"orders.site": {"one_of": ["EU"]}},
            {"orders.year": {"max": 2023}},
            {"orders.year": {"max": "2023"}},
            {"orders.year": {"min": 2023}},
            {"orders.year": {"not_one_of": [2023]}},
        ]
    ),
    "columns": st.sampled_from([None, (), ("orders.region",), ("orders.region", "orders.id")]),
    "masks": st.sampled_from([{}, {"orders.id": "null"}, {"orders.id": "hash"}, {"orders.region": "hash"}]),
    "max_sensitivity": st.sampled_from([Sensitivity.CONFIDENTIAL, Sensitivity.RESTRICTED]),
    "policy_id": st.sampled_from(["BPD-DATA-001", "BPD-DATA-014"]),
    "policy_version": st.sampled_from(["2026.1", "2026.2"]),
    "freshness_class": st.sampled_from(["standard", "strict"]),
    "media_type": st.sampled_from(["application/json", "application/vnd.apache.arrow.stream"]),
    "template": st.sampled_from([TEMPLATE, "cd" * 32]),
}
WORLDS = st.fixed_dictionaries(DIMENSIONS)


def place(
    *, freshness_class: str = "standard", media_type: str = "application/json", template: str = TEMPLATE, **fields: Any
) -> Partition:
    authority = make_authority(**fields)
    intent = Intent(authority.dataset, authority.capability, template, {})
    return partition(authority, intent, freshness_class=freshness_class, media_type=media_type, keys=KEYS)


@settings(max_examples=300, deadline=None)
@given(WORLDS, st.sampled_from(sorted(DIMENSIONS)), st.data())
def test_authorities_that_differ_in_one_dimension_never_share_a_partition(
    world: dict[str, Any], name: str, data: st.DataObject
) -> None:
    other = data.draw(DIMENSIONS[name].filter(lambda value: value != world[name]))
    assert place(**world).id != place(**{**world, name: other}).id


@settings(max_examples=300, deadline=None)
@given(WORLDS, WORLDS)
def test_authorities_share_a_partition_exactly_when_every_dimension_is_equal(
    left: dict[str, Any], right: dict[str, Any]
) -> None:
    assert (place(**left).id == place(**right).id) == (left == right)


@settings(max_examples=100, deadline=None)
@given(WORLDS, st.sampled_from(["u-eng-01", "u-eng-02"]), st.text("ab", min_size=1, max_size=3))
def test_equal_authorities_share_a_partition_whoever_asks_and_whichever_grant(
    world: dict[str, Any], subject: str, jti: str
) -> None:
    other = place(**world, subject=subject, name=subject, leaf_jti=jti, txn=jti, client=f"urn:agent:{jti}", now=1)
    assert place(**world).id == other.id


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ({"sensitivity": Sensitivity.INTERNAL}, {"sensitivity": Sensitivity.CONFIDENTIAL}),
        ({"sensitivity": Sensitivity.CONFIDENTIAL}, RESTRICTED),
        ({**RESTRICTED, "subject": "u-1"}, {**RESTRICTED, "subject": "u-2"}),
        ({"columns": None}, {"columns": ()}),
        ({"rows": {}}, {"rows": {"orders.region": {"one_of": []}}}),
    ],
)
def test_what_narrows_the_answer_is_part_of_the_partition(left: dict[str, Any], right: dict[str, Any]) -> None:
    assert place(**left).id != place(**right).id


def test_a_constraint_from_the_grant_and_the_same_from_the_policy_are_one_partition() -> None:
    rows = {"orders.region": {"one_of": ["EU", "US"]}}
    reordered = {"orders.region": {"one_of": ["US", "EU"]}}
    assert place(rows=rows).id == place(grant_rows=reordered).id


@settings(max_examples=200, deadline=None)
@given(st.lists(WORLDS, min_size=1, max_size=4))
def test_a_partition_that_is_remembered_is_the_one_that_is_made(worlds: list[dict[str, Any]]) -> None:
    for world in worlds:
        remembered = place(**world)
        again = place(**world)
        _made.cache_clear()
        made = place(**world)
        for other in (remembered, again):
            assert other == made
            assert (dict(other.scope), other.place) == (dict(made.scope), made.place)


@pytest.mark.parametrize(("left", "right"), [(1, True), (0, False), ("1", 1)])
def test_values_that_a_dictionary_takes_for_one_are_two_partitions(left: Any, right: Any) -> None:
    held = [place(rows={"orders.year": {"max": 3}})]
    for value in (left, right):
        rows = {"orders.year": Constraint(one_of=frozenset({value}))}
        authority = dataclasses.replace(make_authority(), rows=rows, proof=authority_module._AUTHORIZED)
        intent = Intent(authority.dataset, authority.capability, TEMPLATE, {})
        held.append(partition(authority, intent, freshness_class="standard", media_type="x", keys=KEYS))
    assert len({one.id for one in held}) == 3


def test_keys_of_earlier_releases_find_what_these_stored() -> None:
    authority = make_authority(
        grant_rows={"orders.region": {"one_of": ["EU", "US"]}, "orders.year": {"max": 2023}},
        columns=("orders.region", "orders.id"),
        masks={"orders.id": "hash", "orders.region": "null"},
        sensitivity=Sensitivity.RESTRICTED,
    )
    intent = make_intent({"b": [1, 2.5, True, None, "x"], "a": {"é": "1"}})
    where = partition(authority, intent, freshness_class="3600s", media_type="application/json", keys=KEYS)
    assert entry_key(where, intent, keys=KEYS) == (
        "dsc:1:{purification-batches:1.0.0:batch_yield:2026.1:1:3600s:00197d105f093e4c9ffbd5870dde9114}"
        ":e:977f3e472e4c3b37d6904fbc538f4990"
    )


def test_an_authority_s_fields_are_all_accounted_for() -> None:
    """A field added to what may be done must be added to the partition, or here with a reason."""
    carried = {
        Authority: {
            "principal scope dataset dataset_version revision schema_version capability sensitivity rows columns masks",
            "grant decision",
        },
        Obligations: {"rows columns masks", "stale_s"},
        Scope: {"dataset dataset_version revision max_sensitivity columns constraints", "actions locations"},
        Constraint: {"one_of not_one_of max min prefix"},
        Intent: {"dataset capability template_digest arguments"},
    }
    for kind, names in carried.items():
        fields = {field.name for field in dataclasses.fields(kind)} - {"proof"}
        assert fields == {name for group in names for name in group.split()}, kind.__name__


def test_another_agent_with_the_same_secret_makes_other_partitions() -> None:
    authority, intent = make_authority(), make_intent()
    told = {"freshness_class": "standard", "media_type": "x", "keys": KEYS}
    made = [partition(authority, intent, agent_id=agent, **told) for agent in ("urn:a", "urn:b", "urn:a", "")]
    assert made[0] == made[2]
    assert len({one.id for one in made}) == 3
    assert {one.part_ids(KEYS)["agent"] for one in made[:2]} == {
        KEYS.part_id("agent", encode(name)) for name in ("urn:a", "urn:b")
    }


def test_another_secret_makes_other_partitions() -> None:
    authority, intent = make_authority(), make_intent()
    ids = {
        partition(authority, intent, freshness_class="standard", media_type="x", keys=CacheKeys.from_secret(secret)).id
        for secret in (bytes(32), bytes(31) + b"\x01")
    }
    assert len(ids) == 2


@pytest.mark.parametrize("intent", [make_intent(dataset="other"), make_intent(capability="other")])
def test_an_intent_that_was_not_authorized_is_a_fault(intent: Intent) -> None:
    with pytest.raises(DatasetAgentError, match="not the authorized call"):
        partition(make_authority(), intent, freshness_class="standard", media_type="x", keys=KEYS)


def test_a_key_reads_as_its_plain_dimensions_and_two_digests() -> None:
    where = place()
    key = entry_key(where, make_intent(), keys=KEYS)
    pattern = r"dsc:1:\{purification-batches:1\.0\.0:batch_yield:2026\.1:1:standard:[0-9a-f]{32}\}:e:[0-9a-f]{32}"
    assert re.fullmatch(pattern, key)
    parts = parse_key(key)
    assert parts is not None
    assert parts.partition_id == where.id


def test_the_dimensions_anyone_may_read_are_exactly_these() -> None:
    assert dict(place().dimensions) == {
        "dataset": "purification-batches",
        "dataset_version": "1.0.0",
        "capability": "batch_yield",
        "policy_version": "2026.1",
        "schema_version": "1",
        "freshness": "standard",
        "revision": "r1",
        "policy_id": "BPD-DATA-001",
        "principal_class": "process_engineer",
        "sensitivity": "internal",
        "media_type": "application/json",
    }


@pytest.mark.parametrize("text", ["a:b", "{x}", "*", "", "a b", "x" * 65, "é", "a\n", "\x1b[31m", "~0123", "[ab]", "?"])
def test_text_that_would_break_a_key_is_replaced_by_a_digest(text: str) -> None:
    key = entry_key(place(policy_version=text), make_intent(), keys=KEYS)
    assert parse_key(key) is not None
    assert plain(text) in key


@pytest.mark.parametrize(
    "key",
    [
        "",
        "dsc:1:{}:e:",
        "dsc:1:{a:b:c:d:e:f:" + "0" * 32 + "}:e:" + "0" * 31,
        "dsc:1:{a:b:c:d:e:" + "0" * 32 + "}:e:" + "0" * 32,
        "dsc:2:{a:b:c:d:e:f:" + "0" * 32 + "}:e:" + "0" * 32,
        "dsc:1:{a:b:c:d:e:f:" + "0" * 32 + "}:e:" + "0" * 32 + "\n",
        "dsc:1:{\x1b:b:c:d:e:f:" + "0" * 32 + "}:e:" + "0" * 32,
    ],
)
def test_a_key_this_cache_never_makes_is_not_parsed(key: str) -> None:
    assert parse_key(key) is None


ARGUMENTS = st.dictionaries(
    st.text("abc", min_size=1, max_size=3),
    st.text(max_size=4) | st.integers() | st.booleans() | st.none() | st.lists(st.text(max_size=2), max_size=3),
    max_size=4,
)


@given(ARGUMENTS)
def test_the_order_of_arguments_carries_no_meaning(arguments: dict[str, Any]) -> None:
    turned = dict(reversed(arguments.items()))
    where = place()
    assert entry_key(where, make_intent(arguments), keys=KEYS) == entry_key(where, make_intent(turned), keys=KEYS)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ({"batch": "B001"}, {"batch": "B002"}),
        ({"year": 2023}, {"year": 2024}),
        ({"year": 2023}, {"year": "2023"}),
        ({"above": "95"}, {"below": "95"}),
        ({"batch": None}, {}),
        ({"a": "x", "b": "y"}, {"a": "y", "b": "x"}),
        ({"n": 9007199254740993}, {"n": 9007199254740992}),
    ],
)
def test_another_question_is_another_key(left: dict[str, Any], right: dict[str, Any]) -> None:
    where = place()
    assert entry_key(where, make_intent(left), keys=KEYS) != entry_key(where, make_intent(right), keys=KEYS)


@given(ARGUMENTS)
def test_an_argument_or_a_person_never_shows_in_a_key(arguments: dict[str, Any]) -> None:
    intent = make_intent({**arguments, "batch": "ARGSECRET"})
    where = place(subject="PERSONSECRET", tenant="TENANTSECRET", grant_rows={"t.c": {"one_of": ["SCOPESECRET"]}})
    assert "SECRET" not in entry_key(where, intent, keys=KEYS)
