"""A trace goes on over further agents: each below the call of the one that asked, and past one that keeps no traces."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from contract.trace_context import TraceContext, new_span_id, new_trace_id, parse
from tests.remote_agent.chain_world import MARKED, ChainWorld, chain_world
from tests.remote_agent.long_world import until
from tests.running_agent import decision_of, message, task_of
from tests.telemetry.traced_world import Kept, is_connected, keeping


@dataclass
class Arrived:
    """What reached the last agent beside calls, newest last."""

    calls: list[dict[str, str]] = field(default_factory=list)

    def __call__(self, app: Any, _: Any) -> Any:
        async def listening(scope: Any, receive: Any, send: Any) -> None:
            headers = {name.decode(): value.decode("latin-1") for name, value in scope.get("headers", ())}
            if "execution-grant" in headers:
                self.calls.append(headers)
            await app(scope, receive, send)

        return listening

    @property
    def last(self) -> dict[str, str]:
        return self.calls[-1]


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ChainWorld, Arrived]]:
    """Two agents that keep no traces."""
    arrived = Arrived()
    with chain_world(tmp_path_factory.mktemp("quiet"), 2, wrap=arrived) as world:
        yield world, arrived


@pytest.fixture(scope="module")
def traced(quiet: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ChainWorld, Arrived, Kept]]:
    """Three that do."""
    arrived = Arrived()
    with keeping() as kept, chain_world(tmp_path_factory.mktemp("traced"), 3, wrap=arrived) as world:
        yield world, arrived, kept


def ask(world: ChainWorld, said: TraceContext | None, trace_id: str, **beside: str) -> dict[str, Any]:
    """One call of the root's to the first agent, under a grant of this trace, with what is said beside it."""
    call = world.call(key=MARKED)
    chain = world.leaf(world.root_token(trace_id=trace_id), call)
    headers = world.headers(1, chain) | beside | ({"traceparent": said.traceparent} if said else {})
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message(call)}}
    return task_of(httpx.post(world.agents[0].url + "/", json=body, headers=headers, timeout=30))


def caller(*, sampled: bool = True) -> TraceContext:
    return TraceContext(new_trace_id(), new_span_id(), sampled)


def test_three_agents_are_one_trace_each_below_the_call_of_the_one_before(
    traced: tuple[ChainWorld, Arrived, Kept],
) -> None:
    world, arrived, kept = traced
    said = caller()
    answer = ask(world, said, said.trace_id, baggage=f"question={MARKED}", tracestate=f"vendor={MARKED}")
    assert decision_of(answer)["verdict"] == "GRANTED"
    until(lambda: is_connected(kept.by_trace()[said.trace_id]))
    assert [world.last(place)["trace_id"] for place in (1, 2, 3)] == [said.trace_id] * 3
    spans = kept.by_trace()[said.trace_id]
    calls = {f"{span.context.span_id:016x}": span for span in spans if span.name == "a2a.call"}
    doors = {f"{span.parent.span_id:016x}" for span in spans if span.name == "http"}
    assert len([span for span in spans if span.name == "request"]) == 3
    assert len(calls) == 2
    assert {said.span_id, *calls} <= doors
    came = parse(arrived.last["traceparent"])
    assert came is not None and (came.trace_id, came.span_id in calls, came.sampled) == (said.trace_id, True, True)
    assert MARKED not in kept.exported() + "\n".join(kept.lines)


def test_where_traces_are_kept_a_caller_of_another_trace_is_not_their_parent(
    traced: tuple[ChainWorld, Arrived, Kept],
) -> None:
    world, _, kept = traced
    granted, other = new_trace_id(), caller()
    ask(world, other, granted)
    until(lambda: is_connected(kept.by_trace()[granted]))
    assert [world.last(place)["trace_id"] for place in (1, 2, 3)] == [granted] * 3
    assert other.trace_id not in kept.by_trace()
    assert other.span_id not in kept.exported()


def test_what_its_caller_does_not_keep_no_agent_keeps(traced: tuple[ChainWorld, Arrived, Kept]) -> None:
    world, arrived, kept = traced
    said = caller(sampled=False)
    ask(world, said, said.trace_id)
    assert said.trace_id not in kept.by_trace()
    assert arrived.last["traceparent"][-3:] == "-00"


def test_what_came_is_passed_on_past_an_agent_that_keeps_no_traces(quiet: tuple[ChainWorld, Arrived]) -> None:
    world, arrived = quiet
    for said in (caller(), caller(sampled=False)):
        ask(world, said, said.trace_id)
        assert arrived.last["traceparent"] == said.traceparent


def test_without_one_and_with_another_than_the_grants_the_grant_says_which_trace_it_is(
    quiet: tuple[ChainWorld, Arrived],
) -> None:
    world, arrived = quiet
    for said in (None, caller()):
        granted = new_trace_id()
        ask(world, said, granted)
        came = parse(arrived.last["traceparent"])
        assert came is not None and (came.trace_id, came.sampled) == (granted, True)
        assert said is None or came.span_id != said.span_id


@pytest.mark.parametrize("header", ["traceparent", "tracestate", "baggage"])
def test_nothing_that_is_written_beside_a_call_travels_on(quiet: tuple[ChainWorld, Arrived], header: str) -> None:
    world, arrived = quiet
    answer = ask(world, None, new_trace_id(), **{header: f"00-{MARKED}"})
    assert decision_of(answer)["verdict"] == "GRANTED"
    assert not {"tracestate", "baggage"} & set(arrived.last)
    assert MARKED not in str(arrived.last)
