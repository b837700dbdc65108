"""Every authenticated request is one terminal row that says all that is known, whatever its verdict; a full disk is no excuse."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from contract.call import Operation
from contract.canonical import sha256_hex
from contract.verdict import NotGranted, Reason
from evidence.dsse import open_envelope
from evidence.provenance import read_statement
from evidence.verify import verify_ledger
from tests.running_agent import Asker, RunningAgent, agent_home, decision_of, message, running_agent, task_of

DATASET, CAPABILITY = "purification-batches", "compare_batches"
ALWAYS = ("kind", "side", "recorded_at", "agent_id", "client", "request_id", "verdict", "reason", "decision_id")
DECIDED = (*ALWAYS, "policy_version", "trace_id")
ASKED = ("requested_dataset", "requested_capability", "call_commitment")
GRANTED_BY = ("issuer", "subject_commitment", "tenant", "root_jti", "leaf_jti", "txn", "leaf_digest")
RESOLVED = ("dataset", "dataset_version", "revision", "schema_version", "capability", "template_digest")
RAN = ("rows_returned", "result_commitment", "cache", "execution_id", "tool_origin", "session_id", "invocation_id")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningAgent, Asker]]:
    with running_agent(agent_home(tmp_path_factory.mktemp("verdicts") / "home")) as agent:
        yield agent, Asker(agent.settings, agent.url)


def newest(agent: RunningAgent, before: int) -> dict[str, Any]:
    (row,) = agent.rows()[before:]
    cells: dict[str, Any] = row.cells
    assert cells["kind"] == "terminal"
    return cells


def lacks(cells: dict[str, Any], *groups: tuple[str, ...]) -> list[str]:
    return [name for group in groups for name in group if cells[name] is None]


@pytest.mark.parametrize("cache", ["MISS", "HIT"])
def test_a_granted_row_and_its_provenance_lack_nothing(served: tuple[RunningAgent, Asker], cache: str) -> None:
    agent, asker = served
    before = len(agent.rows())
    task = asker.ask(DATASET, CAPABILITY, {"batch_a": "B041", "batch_b": "B042"})
    cells = newest(agent, before)
    assert (cells["verdict"], cells["cache"]) == ("GRANTED", cache)
    assert lacks(cells, DECIDED, ASKED, GRANTED_BY, RESOLVED, RAN, ("policy_id", "principal_class", "task_id")) == []
    artifact = next(one for one in task["artifacts"] if one["name"] == "provenance")
    envelope = json.loads(base64.b64decode(artifact["parts"][0]["raw"]))
    statement = read_statement(open_envelope(envelope, agent.lifecycle.service.signer.public_key))
    told = statement.summary()
    flat = {**told, **{f"cache.{k}": v for k, v in told["cache"].items()}, **told["adk"]}
    assert [name for name, value in flat.items() if value is None] == []
    assert told["requested_dataset"] == told["dataset_id"] == DATASET
    assert told["tool_origin"] in ("LOCAL", "MCP", "A2A")
    assert told["decision_id"] == cells["decision_id"]


@pytest.mark.parametrize(
    ("principal", "arguments", "reasons"),
    [
        ("process_engineer", {"batch_a": "B001", "batch_b": 2}, {"ARGUMENTS_INVALID"}),
        ("external_auditor", {"batch_a": "B001", "batch_b": "B002"}, {"INSUFFICIENT_PRIVILEGE"}),
    ],
    ids=["arguments", "privilege"],
)
def test_a_refused_row_says_what_was_asked_and_names_the_rules(
    served: tuple[RunningAgent, Asker], principal: str, arguments: dict[str, Any], reasons: set[str]
) -> None:
    agent, _ = served
    before = len(agent.rows())
    asker = Asker(agent.settings, agent.url, principal=principal)
    decision = decision_of(asker.ask(DATASET, CAPABILITY, arguments))
    cells = newest(agent, before)
    assert cells["reason"] == decision["reason"]
    assert cells["reason"] in reasons
    assert cells["verdict"] == "REFUSED"
    assert lacks(cells, DECIDED, ASKED, GRANTED_BY) == []
    assert (cells["rows_returned"], cells["result_commitment"]) == (None, None)


def test_a_replayed_and_a_missing_grant_are_rows_too(served: tuple[RunningAgent, Asker]) -> None:
    agent, asker = served
    call = asker.call(DATASET, CAPABILITY, {"batch_a": "B043", "batch_b": "B044"})
    operation = Operation("SendMessage", call_hash=sha256_hex(call))
    headers = asker.headers(asker.grant(asker.scope(DATASET, CAPABILITY), operation))
    task_of(asker.send(call, headers))
    for sent, reason in ((headers, "GRANT_REPLAYED"), (asker.headers(None), "NO_ACTIVE_GRANT")):
        before = len(agent.rows())
        assert decision_of(task_of(asker.send(call, sent)))["reason"] == reason
        cells = newest(agent, before)
        assert (cells["reason"], cells["verdict"]) == (reason, "REFUSED")
        assert lacks(cells, ALWAYS, ASKED, ("policy_version",)) == []


def test_a_fault_and_a_state_store_that_is_down_are_indeterminate_rows(
    served: tuple[RunningAgent, Asker], monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, asker = served

    def broken(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("a defect")

    async def down(*args: Any, **kwargs: Any) -> None:
        raise NotGranted(Reason.STATE_UNAVAILABLE, "the state store cannot be reached")

    monkeypatch.setattr(agent.lifecycle.service.world.datasets[DATASET].engine, "stream", broken)
    before = len(agent.rows())
    asker.ask(DATASET, CAPABILITY, {"batch_a": "B045", "batch_b": "B046"})
    cells = newest(agent, before)
    assert (cells["reason"], cells["verdict"], cells["policy_id"]) == ("EXECUTION_FAILED", "INDETERMINATE", None)
    assert lacks(cells, DECIDED, ASKED, GRANTED_BY, RESOLVED) == []
    monkeypatch.setattr(agent.lifecycle.service.state, "spend", down)
    before = len(agent.rows())
    asker.ask(DATASET, CAPABILITY, {"batch_a": "B045", "batch_b": "B046"})
    assert newest(agent, before)["reason"] == "STATE_UNAVAILABLE"


def test_calls_on_a_full_disk_get_no_rows_and_their_one_row_each_once_there_is_room(
    served: tuple[RunningAgent, Asker],
) -> None:
    """The file may not grow: the database itself says that it is full."""
    agent, asker = served
    ledger, before = agent.lifecycle.service.ledger, len(agent.rows())
    connection = ledger._store.connection
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count={pages}")
    tasks = []
    while len(tasks) < 40 and not (tasks and decision_of(tasks[-1])["reason"] == "EVIDENCE_UNAVAILABLE"):
        tasks.append(asker.ask(DATASET, CAPABILITY, {"batch_a": "B001", "batch_b": "B002"}))
    full = [task for task in tasks if decision_of(task)["reason"] == "EVIDENCE_UNAVAILABLE"]
    assert full
    assert not any("artifacts" in task for task in full)
    connection.execute("PRAGMA max_page_count=1000000")
    ledger._attendance._not_before = 0.0  # type: ignore[union-attr]
    assert httpx.get(agent.url + "/readyz").status_code == 200
    rows = [row.cells for row in agent.rows()[before:]]
    assert len(rows) == len(tasks)
    assert Counter(row["reason"] for row in rows)["EVIDENCE_UNAVAILABLE"] == len(full)
    assert max(Counter(row["request_id"] for row in rows).values()) == 1
    assert verify_ledger(Path(agent.settings.home) / "remote" / "ledger.sqlite", ledger._signer.public_key).ok


@pytest.mark.live
def test_what_was_taken_in_and_never_ended_is_ended_by_the_next_start(tmp_path: Path) -> None:
    settings = agent_home(tmp_path / "home")
    with running_agent(settings) as agent:
        asker = Asker(agent.settings, agent.url)

        async def gone(row: Any) -> Any:
            raise NotGranted(Reason.EVIDENCE_UNAVAILABLE, "the disk is gone")

        agent.lifecycle.service.ledger.append_async = gone  # type: ignore[method-assign,assignment]
        call = asker.call(DATASET, CAPABILITY, {"batch_a": "B001", "batch_b": "B002"})
        operation = Operation("SendMessage", call_hash=sha256_hex(call))
        headers = asker.headers(asker.grant(asker.scope(DATASET, CAPABILITY), operation))
        assert message(call)
        assert decision_of(task_of(asker.send(call, headers)))["reason"] == "EVIDENCE_UNAVAILABLE"
    with running_agent(settings) as agent:
        (row,) = agent.rows()
        assert (row.cells["kind"], row.cells["verdict"], row.cells["client"]) == (
            "terminal",
            "INDETERMINATE",
            settings.root_id,
        )
        assert not lacks(row.cells, ALWAYS)
