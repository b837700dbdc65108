"""A claim has its one type at every depth: nothing is converted, nothing is optional by being null, nothing is added."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from contract.verdict import NotGranted, Reason
from tests.grants.grants_world import CALL, Forge, accept, claims_of, make_chain, make_root

OTHERS: tuple[Any, ...] = (None, True, False, 0, 1, 1.0, 1.5, -1, 2**53, "", "1", "true", [], ["a"], {}, {"a": 1}, [[]])
CHAIN = make_chain(make_root())
ROOT, LEAF = (claims_of(token) for token in CHAIN)
LEAF["rctx"] = ROOT["rctx"]


def places(claims: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every claim, of every member of one and of every entry of a list."""
    if path:
        yield path
    if "constraints" in path:
        return  # their own vocabulary, with tests of its own
    members = claims.items() if isinstance(claims, dict) else enumerate(claims) if isinstance(claims, list) else ()
    for name, value in members:
        yield from places(value, (*path, name))


def put(claims: dict[str, Any], path: tuple[Any, ...], value: Any) -> None:
    place: Any = claims
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value


def reached(claims: dict[str, Any], path: tuple[Any, ...]) -> Any:
    place: Any = claims
    for name in path:
        place = place[name]
    return place


def reason(**edits: Any) -> Reason | None:
    try:
        accept(Forge(root=ROOT, leaf=LEAF).chain(**edits))
    except NotGranted as stop:
        return stop.reason
    return None


@pytest.mark.parametrize("path", list(places(LEAF)), ids=lambda path: ".".join(map(str, path)))
def test_a_claim_of_another_type_is_refused(path: tuple[Any, ...]) -> None:
    assert reason() is None
    present = reached(LEAF, path)
    for other in (value for value in OTHERS if type(value) is not type(present)):
        refused = reason(edit_leaf=lambda claims, other=other: put(claims, path, other))
        assert refused is Reason.GRANT_CLAIMS_INVALID, other


@pytest.mark.parametrize(
    "path",
    [(), *(path for path in places(LEAF) if isinstance(reached(LEAF, path), dict) and "constraints" not in path)],
    ids=lambda path: ".".join(map(str, path)) or "the token",
)
def test_a_member_that_is_not_the_profiles_is_refused_at_every_depth(path: tuple[Any, ...]) -> None:
    def add(claims: dict[str, Any]) -> None:
        put(claims, (*path, "extra"), 1)

    assert reason(edit_leaf=add) is Reason.GRANT_CLAIMS_INVALID
    assert reason(edit_root=add) is Reason.GRANT_CLAIMS_INVALID


@pytest.mark.parametrize("negotiate", [True, *(other for other in OTHERS if other is not True)], ids=repr)
def test_a_negotiation_is_true_and_nothing_like_it(negotiate: Any) -> None:
    def edit(claims: dict[str, Any]) -> None:
        claims["op"] = {"method": "SendMessage", "negotiate": negotiate}

    expected = Reason.GRANT_OPERATION_MISMATCH if negotiate is True else Reason.GRANT_CLAIMS_INVALID
    assert CALL.negotiate is False
    assert reason(edit_leaf=edit) is expected
