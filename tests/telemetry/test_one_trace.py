"""Requests of all kinds are one connected trace each, and nobody's words are in a span, a log line or a metric."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.large_world import DATASET
from tests.metrics.scraping import scrape
from tests.remote_agent.long_world import until
from tests.telemetry.requests_of_all_kinds import Asked, Kinds
from tests.telemetry.traced_world import MARKERS, is_connected, traced_world


class Seen:
    """Everything that was asked, and all that was told of it."""

    def __init__(self, kinds: Kinds) -> None:
        self.kinds = kinds
        self.kept = kinds.world.kept
        self.traces = self.kept.by_trace()
        self.ledgers = kinds.world.agent.rows()
        self.metrics = scrape(kinds.world.agent.url).text + scrape(kinds.world.root_url).text
        self.exported = self.kept.exported()
        self.logged = "\n".join(self.kept.lines)

    def asked(self, name: str) -> Asked:
        return next(asked for asked in self.kinds.asked if asked.name == name)

    def spans(self, name: str) -> list[Any]:
        return self.traces[str(self.asked(name).trace_id)]

    def names(self, name: str) -> set[str]:
        return {span.name for span in self.spans(name)}


def unconnected(kinds: Kinds) -> list[tuple[str, list[str]]]:
    """The requests, by name, whose trace is not one yet, with its spans."""
    found = kinds.world.kept.by_trace()
    names = {asked.trace_id: asked.name for asked in kinds.asked}
    missing = [(asked.name, []) for asked in kinds.asked if asked.trace_id and asked.trace_id not in found]
    broken = [
        (names.get(trace, trace), [span.name for span in spans])
        for trace, spans in found.items()
        if not is_connected(spans)
    ]
    return missing + broken


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    with traced_world(tmp_path_factory.mktemp("traced")) as world:
        kinds = Kinds(world)
        kinds.everything()
        until(lambda: not unconnected(kinds))
        yield Seen(kinds)


def test_every_request_is_exactly_one_trace(seen: Seen) -> None:
    said = {asked.trace_id for asked in seen.kinds.asked if asked.trace_id}
    unsaid = [asked.name for asked in seen.kinds.asked if asked.trace_id is None]
    assert len(seen.kinds.asked) >= 40
    assert said <= set(seen.traces), [asked.name for asked in seen.kinds.asked if asked.trace_id not in seen.traces]
    assert len(set(seen.traces) - said) == len(unsaid)


def test_every_trace_is_connected_and_below_whoever_asked(seen: Seen) -> None:
    for asked in seen.kinds.asked:
        if asked.trace_id is None:
            continue
        spans = seen.traces[asked.trace_id]
        ids = {span.context.span_id for span in spans}
        above = {f"{span.parent.span_id:016x}" for span in spans if span.parent and span.parent.span_id not in ids}
        assert seen.kinds.spans[asked.trace_id] in above, asked.name


def test_who_is_turned_away_chooses_no_trace(seen: Seen) -> None:
    for asked in seen.kinds.asked:
        if asked.trace_id is None:
            assert asked.status in (200, 401, 404), asked.name
            assert asked.offered not in seen.traces, asked.name
    unsaid = set(seen.traces) - set(seen.kinds.spans)
    for trace_id in unsaid:
        (span,) = seen.traces[trace_id]
        assert (span.name, span.parent) == ("http", None)


def test_a_trace_that_an_agents_meta_names_is_not_heard(seen: Seen) -> None:
    assert "e" * 32 not in seen.traces


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("miss", {"http", "request", "verify", "bind", "admit", "spend", "find", "run", "tool", "recheck"}),
        ("hit", {"http", "request", "verify", "bind", "admit", "spend", "find", "recheck", "record", "seal"}),
        ("fetch", {"http", "fetch", "verify", "admit", "spend", "release"}),
        ("tool call", {"http", "request", "verify", "run", "tool", "record", "seal"}),
        ("discovery", {"http", "request", "verify", "record"}),
        ("no grant", {"http", "request", "verify", "record"}),
        ("oversize", {"http"}),
        (
            "ask: question",
            {"ask", "interpret_intent", "discover_datasets", "card", "resolve_capability", "evaluate_admission"}
            | {"policy.evaluate", "plan", "execute", "a2a.call", "validate", "record_evidence", "explain_response"}
            | {"http", "request", "verify", "admit", "spend", "run", "tool", "record", "seal"},
        ),
        ("ask: tool", {"ask", "mcp.call", "http", "request", "run", "tool", "seal", "validate"}),
        ("ask: refused here", {"http", "ask", "evaluate_admission", "record_refusal"}),
    ],
)
def test_the_steps_of_a_request_are_its_spans(seen: Seen, name: str, steps: set[str]) -> None:
    assert steps <= seen.names(name)


def test_what_was_found_did_not_run(seen: Seen) -> None:
    assert not {"run", "tool"} & seen.names("hit")


def test_root_and_remote_are_two_services_of_one_trace(seen: Seen) -> None:
    for name in ("ask: question", "ask: tool", "ask: large"):
        services = {span.resource.attributes["service.name"] for span in seen.spans(name)}
        assert services == {"dataset-agent", "dataset-agent-root"}


def test_the_trace_is_the_one_of_decision_evidence_and_provenance(seen: Seen) -> None:
    rows = {str(row.cells["trace_id"]): row.cells for row in seen.ledgers}
    for name in ("hit", "fault", "no grant", "tool call", "ask: question", "ask: stopped there"):
        asked = seen.asked(name)
        ids = {span.attributes.get("request_id") for span in seen.traces[str(asked.trace_id)]}
        assert rows[str(asked.trace_id)]["request_id"] in ids, name
    told = json.loads(seen.asked("ask: question").body)
    assert told["trace_id"] == seen.asked("ask: question").trace_id
    assert told["provenance"]["verified"]
    decisions = {span.attributes.get("decision_id") for span in seen.spans("ask: question")}
    assert told["decision"]["decision_id"] in decisions
    assert told["remote"]["decision"]["decision_id"] in decisions


def test_of_a_restricted_capability_miss_and_hit_look_the_same(seen: Seen) -> None:
    shapes = []
    for name in ("restricted miss", "restricted hit"):
        spans = seen.spans(name)
        assert len({instant for span in spans for instant in (span.start_time, span.end_time)}) == 1
        told = {span.name: sorted(span.attributes) for span in spans}
        outcomes = {span.attributes.get("cache.outcome") for span in spans}
        shapes.append((sorted(span.name for span in spans), told, outcomes))
    assert shapes[0] == shapes[1]
    assert not {"find", "run", "tool"} & seen.names("restricted miss")
    for span in seen.spans("ask: restricted"):
        assert span.end_time == span.start_time


def test_how_each_ended_is_told(seen: Seen) -> None:
    for name, verdict, reason in (
        ("hit", "GRANTED", "PRINCIPAL_AUTHORIZED"),
        ("fault", "INDETERMINATE", "EXECUTION_FAILED"),
        ("indeterminate", "INDETERMINATE", "EVALUATOR_UNAVAILABLE"),
        ("replay", "REFUSED", "GRANT_REPLAYED"),
        ("argument invalid", "REFUSED", "ARGUMENTS_INVALID"),
        ("ask: refused here", "REFUSED", "INSUFFICIENT_PRIVILEGE"),
    ):
        told = {(span.attributes.get("verdict"), span.attributes.get("reason")) for span in seen.spans(name)}
        assert (verdict, reason) in told, name
    assert {span.attributes.get("error.type") for span in seen.spans("caller who leaves")} >= {"CancelledError"}
    (turned_away,) = (span for span in seen.spans("oversize"))
    assert turned_away.attributes["http.response.status_code"] == 413


def secrets_of(seen: Seen) -> set[str]:
    tokens = {token for token in seen.kinds.world.sent if len(token) > 40}
    return MARKERS | tokens | {token.split(".")[-1] for token in tokens}


def test_there_are_secrets_to_be_found(seen: Seen) -> None:
    assert len(secrets_of(seen)) > 60
    assert any("zebra-crossing-9000 0000" in asked.body for asked in seen.kinds.asked) or DATASET


@pytest.mark.parametrize("place", ["exported", "logged", "metrics"])
def test_nobodys_words_are_in_spans_log_lines_and_metrics(seen: Seen, place: str) -> None:
    text = str(getattr(seen, place))
    assert text
    assert [secret for secret in secrets_of(seen) if secret in text] == []


def test_a_refusal_does_not_say_again_what_was_said(seen: Seen) -> None:
    for asked in seen.kinds.asked:
        if asked.status >= 400:
            assert [secret for secret in secrets_of(seen) if secret in asked.body] == [], asked.name


def test_each_request_is_a_log_line_with_its_ids(seen: Seen) -> None:
    lines = [json.loads(line) for line in seen.kept.lines if line.startswith("{")]
    ended = {line.get("trace_id"): line for line in lines if line["message"] in ("a request ended", "an asking ended")}
    for name in ("hit", "replay", "fault", "tool call", "ask: refused here"):
        line = ended[seen.asked(name).trace_id]
        assert line["request_id"] and line["reason"], name
    assert "ms" in ended[seen.asked("miss").trace_id]
    assert "ms" not in ended[seen.asked("restricted hit").trace_id]


def test_spans_hold_nothing_but_what_is_documented(seen: Seen) -> None:
    for spans in seen.traces.values():
        for span in spans:
            assert not span.events and not span.links and span.status.description is None
