"""Half calls are held for their person and task, for a while, and within a bound for each client agent."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from contract.call import Call, encode_call
from remote_agent.half_calls import LIFE_S, HalfCalls

ALICE, BOB = ("urn:a", "iss", "t", "alice"), ("urn:a", "iss", "t", "bob")
OTHER = ("urn:b", "iss", "t", "alice")


def call(number: int = 0, size: int = 0) -> Call:
    return Call.parse(encode_call("d", "c", {"n": number, "text": "x" * size}))


def test_a_half_call_is_its_owners_and_its_tasks_alone() -> None:
    held = HalfCalls()
    held.keep(ALICE, "t-1", call(), now=0)
    assert held.find(ALICE, "t-1", now=1) == call()
    for owner, task in ((BOB, "t-1"), (OTHER, "t-1"), (("urn:a",), "t-1"), (ALICE, "t-2")):
        assert held.find(owner, task, now=1) is None
        held.drop(owner, task)
    assert held.find(ALICE, "t-1", now=1) == call()


def test_a_half_call_lives_so_long_and_a_further_message_begins_anew() -> None:
    held = HalfCalls()
    held.keep(ALICE, "t-1", call(1), now=0)
    assert held.find(ALICE, "t-1", now=LIFE_S - 1) is not None
    assert held.find(ALICE, "t-1", now=LIFE_S) is None
    held.keep(ALICE, "t-1", call(2), now=LIFE_S)
    assert held.find(ALICE, "t-1", now=2 * LIFE_S - 1) == call(2)


def test_what_is_dropped_is_gone() -> None:
    held = HalfCalls()
    held.keep(ALICE, "t-1", call(), now=0)
    held.drop(ALICE, "t-1")
    assert held.find(ALICE, "t-1", now=0) is None


def test_no_argument_is_in_its_representation() -> None:
    held = HalfCalls()
    held.keep(ALICE, "t-1", Call.parse(encode_call("d", "c", {"text": "zebra"})), now=0)
    assert "zebra" not in repr(vars(held))


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3_000)), max_size=40))
def test_an_agent_holds_no_more_than_its_bound_and_takes_nothing_from_another(kept: list[tuple[int, int]]) -> None:
    held = HalfCalls(max_bytes=10_000, limit=4)
    held.keep(OTHER, "t-0", call(), now=0)
    for number, size in kept:
        held.keep(ALICE, f"t-{number}", call(number, size), now=0)
        found = [held.find(ALICE, f"t-{other}", now=0) for other in range(6)]
        assert sum(len(item.raw) for item in found if item) <= 10_000
        assert sum(item is not None for item in found) <= 4
        assert found[number] == call(number, size), "the newest is held"
    assert held.find(OTHER, "t-0", now=0) == call()


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 900)), max_size=40))
def test_a_person_who_leaves_many_calls_half_makes_nobody_elses_be_forgotten(kept: list[tuple[int, int]]) -> None:
    held = HalfCalls(max_bytes=10_000, limit=12)
    held.keep(BOB, "t-bob", call(), now=0)
    for number, size in kept:
        held.keep(ALICE, f"t-{number}", call(number, size), now=0)
        found = [held.find(ALICE, f"t-{other}", now=0) for other in range(10)]
        assert sum(item is not None for item in found) <= 3
        assert found[number] == call(number, size), "the newest is held"
    assert held.find(BOB, "t-bob", now=0) == call()
