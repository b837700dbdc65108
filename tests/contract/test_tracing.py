"""A trace of one request: connected, told when it has ended, with ids and times and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextvars import copy_context

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.trace_context import TraceContext, taken
from contract.tracing import (
    MAX_SPANS,
    NAMES,
    Kind,
    Span,
    Traces,
    begun_trace_id,
    is_plain,
    passed_on,
    settle,
    take_in,
    tell,
    tracing,
    under_way,
)
from contract.verdict import NotGranted, Reason

GRANTED, CALLER = "a" * 32, TraceContext("b" * 32, "c" * 16, True)


class Kept:
    """Everything that is told, and ``traces`` that tell it."""

    def __init__(self, **given: object) -> None:
        self.told: list[list[Span]] = []
        self.traces = Traces(lambda spans: self.told.append(list(spans)), **given)  # type: ignore[arg-type]

    @property
    def spans(self) -> dict[str, Span]:
        return {span.name: span for spans in self.told for span in spans}


@pytest.fixture
def kept() -> Kept:
    return Kept()


@pytest.fixture(autouse=True)
def nothing_taken_in() -> Iterator[None]:
    yield
    taken.set(None)


def believed(context: TraceContext) -> None:
    take_in([(b"traceparent", context.traceparent.encode())])


def test_spans_are_told_together_when_the_first_one_ends(kept: Kept) -> None:
    with kept.traces.begin("http"):
        with tracing("request"), tracing("verify"):
            pass
        assert kept.told == []
    (spans,) = kept.told
    assert {(span.name, span.kind) for span in spans} == {
        ("http", Kind.SERVER),
        ("request", Kind.INTERNAL),
        ("verify", Kind.INTERNAL),
    }


def test_each_span_is_below_the_one_it_was_begun_in(kept: Kept) -> None:
    with kept.traces.begin("http"), tracing("request"):
        with tracing("verify"):
            pass
        with tracing("run"):
            pass
    spans = kept.spans
    assert spans["http"].parent_id is None
    assert spans["request"].parent_id == spans["http"].span_id
    assert spans["verify"].parent_id == spans["run"].parent_id == spans["request"].span_id
    assert len({span.trace_id for span in spans.values()}) == 1


def test_where_none_is_kept_there_is_no_span() -> None:
    with Traces().begin("http") as span:
        assert not under_way()
        span.tell(request_id="req-1")
        span.settle(GRANTED)
        tell(request_id="req-1")
        settle(GRANTED)
    with tracing("alone"):
        assert not under_way()


def test_the_id_is_the_one_that_its_evidence_has(kept: Kept) -> None:
    with kept.traces.begin("http"), tracing("request") as span:
        span.settle(GRANTED)
    assert {span.trace_id for span in kept.spans.values()} == {GRANTED}


def test_the_first_id_stands(kept: Kept) -> None:
    with kept.traces.begin("http") as span:
        span.settle(GRANTED)
        span.settle("d" * 32)
        believed(TraceContext("d" * 32, "c" * 16, True))
    assert kept.spans["http"].trace_id == GRANTED
    assert kept.spans["http"].parent_id is None


def test_a_verified_caller_of_the_same_trace_is_the_parent(kept: Kept) -> None:
    with kept.traces.begin("http") as span:
        believed(CALLER)
        span.settle(CALLER.trace_id)
    http = kept.spans["http"]
    assert (http.trace_id, http.parent_id, http.parent_is_remote) == (CALLER.trace_id, CALLER.span_id, True)


def test_a_caller_of_another_trace_is_no_parent(kept: Kept) -> None:
    with kept.traces.begin("http") as span:
        believed(CALLER)
        span.settle(GRANTED)
    http = kept.spans["http"]
    assert (http.trace_id, http.parent_id, http.parent_is_remote) == (GRANTED, None, False)


def test_without_evidence_it_is_the_callers_trace_or_a_new_one(kept: Kept) -> None:
    with kept.traces.begin("http"):
        believed(CALLER)
    assert kept.spans["http"].trace_id == CALLER.trace_id
    taken.set(None)
    with kept.traces.begin("http"):
        pass
    assert kept.spans["http"].trace_id not in (CALLER.trace_id, "", "0" * 32)


@pytest.mark.parametrize("stated", ["", "0" * 32, "A" * 32, "a" * 31, "zebra crossing 9000"])
def test_what_is_no_trace_id_is_not_told_as_one(kept: Kept, stated: str) -> None:
    with kept.traces.begin("http") as span:
        span.settle(stated)
    assert kept.spans["http"].trace_id != stated


def test_nothing_but_ids_codes_and_numbers_can_be_told(kept: Kept) -> None:
    with kept.traces.begin("http") as span:
        span.tell(request_id="req-1", attempts=2, cache__outcome="HIT", reason=None)
        span.tell(agent_id="zebra crossing 9000", task_id=["t"], question="why", dataset="x" * 257, policy_id="a\nb")
        tell(verdict="GRANTED")
    assert kept.spans["http"].attributes == {
        "request_id": "req-1",
        "attempts": 2,
        "cache.outcome": "HIT",
        "verdict": "GRANTED",
    }


@given(st.dictionaries(st.text(max_size=12), st.text(max_size=30)))
def test_no_name_and_no_text_gets_into_a_span(attributes: dict[str, str]) -> None:
    kept = Kept()
    with kept.traces.begin("http") as span:
        span.tell(**attributes)
    told = kept.spans["http"].attributes
    assert set(told) <= NAMES
    assert all(" " not in str(value) and is_plain(value) for value in told.values())


def test_what_is_raised_is_told_by_its_reason_or_its_type_alone(kept: Kept) -> None:
    with kept.traces.begin("http"):
        with pytest.raises(NotGranted), tracing("admit"):
            raise NotGranted(Reason.INSUFFICIENT_PRIVILEGE, "zebra crossing 9000", policy_id="P-1")
        with pytest.raises(ValueError, match="zebra"), tracing("run"):
            raise ValueError("zebra crossing 9000")
        with pytest.raises(asyncio.CancelledError), tracing("seal"):
            raise asyncio.CancelledError
    spans = kept.spans
    assert spans["admit"].attributes == {"reason": "INSUFFICIENT_PRIVILEGE"}
    assert spans["run"].attributes == {"error.type": "ValueError"}
    assert spans["seal"].attributes == {"error.type": "CancelledError"}
    assert [spans[name].failed for name in ("admit", "run", "seal")] == [False, True, False]
    assert "zebra" not in str(kept.told)


def test_of_a_restricted_capability_neither_times_are_told_nor_what_was_private(kept: Kept) -> None:
    with kept.traces.begin("http"), tracing("request") as span:
        with tracing("find", private=True):
            pass
        with tracing("run", private=True), tracing("tool"), tracing("deeper"):
            pass
        span.settle(GRANTED, withheld=True)
        with tracing("record"):
            pass
    (spans,) = kept.told
    assert {span.name for span in spans} == {"http", "request", "record"}
    assert len({instant for span in spans for instant in (span.start_ns, span.end_ns)}) == 1


def test_of_any_other_capability_they_are(kept: Kept) -> None:
    with kept.traces.begin("http"), tracing("run", private=True):
        pass
    assert set(kept.spans) == {"http", "run"}
    assert kept.spans["run"].end_ns > kept.spans["run"].start_ns


def test_what_the_sampler_leaves_out_is_not_told_and_says_so_to_the_next_agent() -> None:
    kept = Kept(sampler=lambda parent, trace_id: trace_id != GRANTED)
    with kept.traces.begin("http"):
        onward = passed_on(GRANTED)
    assert kept.told == []
    assert onward is not None and not onward.sampled


def test_by_default_a_trace_is_kept_where_its_caller_keeps_it(kept: Kept) -> None:
    with kept.traces.begin("http"):
        believed(TraceContext("b" * 32, "c" * 16, False))
    assert kept.told == []


def test_what_is_passed_on_is_the_span_that_is_open(kept: Kept) -> None:
    with kept.traces.begin("http"), tracing("a2a.call", Kind.CLIENT):
        onward = passed_on(GRANTED)
    call = kept.spans["a2a.call"]
    assert onward == TraceContext(GRANTED, call.span_id, True)


def test_nothing_is_passed_on_before_the_id_is_known(kept: Kept) -> None:
    with kept.traces.begin("http"):
        assert passed_on() is None
        settle(GRANTED)
        assert passed_on() is not None


def test_where_none_is_kept_what_came_is_passed_on_within_its_trace() -> None:
    def seen() -> None:
        believed(CALLER)
        assert passed_on() == passed_on(CALLER.trace_id) == CALLER
        assert passed_on(GRANTED) is None
        assert begun_trace_id() == CALLER.trace_id

    copy_context().run(seen)
    assert passed_on() is None and begun_trace_id() is None


def test_a_malformed_context_is_not_taken_in(kept: Kept) -> None:
    with kept.traces.begin("http"):
        assert take_in([(b"traceparent", b"00-zz")]) is None
    assert kept.spans["http"].parent_id is None


def test_what_goes_on_after_the_answer_is_told_after_it(kept: Kept) -> None:
    async def go() -> None:
        begun, done = asyncio.Event(), asyncio.Event()

        async def work() -> None:
            with tracing("request"):
                begun.set()
                await done.wait()

        with kept.traces.begin("http"):
            running = asyncio.create_task(work())
            await begun.wait()
        assert kept.told == []
        done.set()
        await running

    asyncio.run(go())
    (spans,) = kept.told
    assert [span.name for span in spans] == ["http", "request"]


def test_a_second_piece_of_work_belongs_to_the_trace_it_follows(kept: Kept) -> None:
    with kept.traces.begin("http"):
        follows = passed_on(GRANTED)
    with kept.traces.after(follows).begin("refresh", Kind.INTERNAL):
        pass
    http, refresh = kept.spans["http"], kept.spans["refresh"]
    assert (refresh.trace_id, refresh.parent_id) == (http.trace_id, http.span_id)


def test_the_spans_of_a_trace_are_bounded(kept: Kept) -> None:
    with kept.traces.begin("http"):
        for _ in range(MAX_SPANS + 4):
            with tracing("verify"):
                pass
        with tracing("run"), tracing("tool"):
            pass
    (spans,) = kept.told
    assert len(spans) == MAX_SPANS
    assert kept.spans["http"].attributes["spans.dropped"] == 7
    known = {span.span_id for span in spans}
    assert all(span.parent_id in known for span in spans if span.name != "http")


def test_a_trace_that_cannot_be_told_costs_its_request_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def keep(_: object) -> None:
        raise ValueError("zebra crossing 9000")

    with Traces(keep).begin("http"), tracing("run"):
        pass
    assert caplog.messages == ["a trace was lost: ValueError"]


def test_two_requests_at_once_are_two_traces(kept: Kept) -> None:
    async def request(name: str) -> None:
        with kept.traces.begin(name) as span:
            await asyncio.sleep(0)
            with tracing(f"{name}.step"):
                await asyncio.sleep(0)
            span.settle(name * 32)

    async def both() -> None:
        await asyncio.gather(request("a"), request("d"))

    asyncio.run(both())
    assert [{span.trace_id for span in spans} for spans in kept.told] == [{"a" * 32}, {"d" * 32}]
    assert [len(spans) for spans in kept.told] == [2, 2]
