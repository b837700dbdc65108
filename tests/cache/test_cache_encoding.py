from __future__ import annotations

from collections import ChainMap
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache.encoding import MAX_DEPTH, NotEncodable, begin_list, encode, encode_last

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(max_size=8)
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


def typed(value: Any) -> Any:
    """Equal exactly where the values are equal and of equal types."""
    if isinstance(value, dict):
        return ("map", frozenset((name, typed(item)) for name, item in value.items()))
    if isinstance(value, list):
        return ("list", tuple(typed(item) for item in value))
    return (type(value).__name__, repr(value))


@given(VALUES, VALUES)
def test_two_values_share_bytes_exactly_when_they_are_equal_and_of_equal_type(left: Any, right: Any) -> None:
    assert (encode(left) == encode(right)) == (typed(left) == typed(right))


@given(st.lists(st.text(), max_size=3), VALUES)
def test_a_list_that_is_begun_and_ended_apart_is_the_same_list(texts: list[str], last: Any) -> None:
    assert encode_last(begin_list(len(texts) + 1, *texts), last) == encode([*texts, last])


@given(st.dictionaries(st.text(), VALUES, min_size=2))
def test_a_mapping_that_cannot_be_changed_is_encoded_like_another(value: dict[str, Any]) -> None:
    assert encode(MappingProxyType(value)) == encode(value) == encode(ChainMap(value))


@given(st.dictionaries(st.text(), SCALARS, min_size=2))
def test_the_order_of_a_mapping_carries_no_meaning(value: dict[str, Any]) -> None:
    assert encode(value) == encode(dict(reversed(value.items())))


@given(st.lists(st.text() | st.integers(), unique=True))
def test_the_order_of_a_set_carries_no_meaning(items: list[Any]) -> None:
    assert encode(frozenset(items)) == encode(frozenset(reversed(items)))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("1", 1),
        (1, 1.0),
        (1, True),
        (0, False),
        (0.0, -0.0),
        (None, []),
        ([], {}),
        ([], frozenset()),
        ("", b""),
        ([None], None),
        (["ab", "c"], ["a", "bc"]),
        (["a", "b"], ["b", "a"]),
        ([["a"], "b"], [["a", "b"]]),
        ({"a": "b"}, ["a", "b"]),
        ("é", "e\u0301"),
        ("s1:a", ["a"]),
    ],
)
def test_values_that_look_alike_stay_apart(left: Any, right: Any) -> None:
    assert encode(left) != encode(right)


@pytest.mark.parametrize("value", [Decimal("1.0"), object(), {1: "a"}, {"a": Decimal(1)}, [{"a", Decimal(1)}]])
def test_a_type_without_a_canonical_form_is_not_encodable(value: Any) -> None:
    with pytest.raises(NotEncodable):
        encode(value)


def test_deep_nesting_is_not_encodable() -> None:
    value: Any = "x"
    for _ in range(40):
        value = [value]
    with pytest.raises(NotEncodable):
        encode(value)


@pytest.mark.parametrize("depth", [MAX_DEPTH - 2, MAX_DEPTH - 1, MAX_DEPTH])
def test_what_ends_a_list_may_be_as_deep_as_in_a_whole_one(depth: int) -> None:
    last: Any = "x"
    for _ in range(depth):
        last = [last]
    if depth < MAX_DEPTH:
        assert encode_last(begin_list(1), last) == encode([last])
        return
    for made in (lambda: encode_last(begin_list(1), last), lambda: encode([last])):
        with pytest.raises(NotEncodable):
            made()
