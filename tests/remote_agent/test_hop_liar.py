"""The other agent lies, or somebody on the way does: no row of it is used, and the outcome says what was wrong."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from contract.canonical import sha256_hex
from contract.extension import DECISION_KEY
from evidence.dsse import PAYLOAD_TYPE, open_envelope, pae, sign_envelope
from evidence.limits import payload_bytes
from evidence.provenance import read_statement
from evidence.tree import verify_tree
from remote_agent.lifecycle import Lifecycle
from tests.remote_agent.chain_world import ChainWorld, agent_id, amounts, chain_world, dataset, decoded, passed_on
from tests.running_agent import decision_of, task_of

Lie = Callable[["Liar", dict[str, Any]], Any]


@dataclass
class Liar:
    """Stands in front of the second agent and spoils what it answers; it holds that agent's key."""

    lie: Lie | None = None
    lifecycle: Lifecycle | None = None
    kept: list[dict[str, Any]] = field(default_factory=list)
    built_upon: int = 0

    async def count(self) -> None:
        """Called before the first agent's engine runs."""
        self.built_upon += 1

    def __call__(self, app: Any, lifecycle: Lifecycle) -> Any:
        self.lifecycle = lifecycle

        async def served(scope: Any, receive: Any, send: Any) -> None:
            if self.lie is None or scope.get("method") != "POST":
                await app(scope, receive, send)
                return
            sent: list[dict[str, Any]] = []

            async def hold(event: dict[str, Any]) -> None:
                sent.append(event)

            await app(scope, receive, hold)
            body = json.loads(b"".join(event.get("body", b"") for event in sent))
            if "task" not in body.get("result", {}):  # a card
                for event in sent:
                    await send(event)
                return
            changed = self.lie(self, body["result"]["task"])
            raw = changed if isinstance(changed, bytes) else json.dumps(body).encode()
            length = str(len(raw) or 100).encode()
            headers = [(b"content-type", b"application/json"), (b"content-length", length)]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            if raw:  # else the server closes the connection on a reply that is not complete
                await send({"type": "http.response.body", "body": raw})

        return served

    def resigned(self, task: dict[str, Any], change: Callable[[dict[str, Any]], None]) -> None:
        """The task's statement, changed and signed again with the agent's own key."""
        assert self.lifecycle is not None
        signer = self.lifecycle.service.signer
        part = artifact(task, "provenance")
        statement = open_envelope(json.loads(base64.b64decode(part["raw"])), signer.public_key)
        change(statement)
        part["raw"] = base64.b64encode(json.dumps(sign_envelope(statement, signer)).encode()).decode()

    def answered(self, task: dict[str, Any], result: dict[str, Any], **changes: Any) -> None:
        """Another result, with a statement that fits its bytes."""
        body = json.dumps(result).encode()
        artifact(task, "result")["raw"] = base64.b64encode(body).decode()

        def fit(statement: dict[str, Any]) -> None:
            statement["subject"][0]["digest"]["sha256"] = sha256_hex(body)
            statement["predicate"]["result"]["size"] = len(body)
            statement["predicate"]["authorization"]["rows_returned"] = result["row_count"]
            statement["predicate"]["authorization"]["truncated"] = result["truncated"]
            statement["predicate"]["result"]["as_of"] = result["as_of"]

        self.resigned(task, fit)


def artifact(task: dict[str, Any], name: str) -> dict[str, Any]:
    part: dict[str, Any] = next(item for item in task["artifacts"] if item["name"] == name)["parts"][0]
    return part


def result_of(task: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(base64.b64decode(artifact(task, "result")["raw"]))
    return result


@pytest.fixture(scope="module")
def liar() -> Liar:
    return Liar()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, liar: Liar) -> Iterator[ChainWorld]:
    with chain_world(tmp_path_factory.mktemp("liar"), 2, wrap=liar) as world:
        world.slow(1, liar.count)
        yield world


@pytest.fixture
def two(served: ChainWorld, liar: Liar) -> Iterator[ChainWorld]:
    liar.lie = None
    yield served
    liar.lie = None


def member(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """Puts ``value`` at a place of the statement's predicate."""

    def change(statement: dict[str, Any]) -> None:
        *above, name = path.split(".")
        place = statement["predicate"]
        for step in above:
            place = place[step]
        place[name] = value

    return change


def other_rows(liar: Liar, task: dict[str, Any]) -> None:
    result = result_of(task)
    result["rows"][0][2] = 999
    artifact(task, "result")["raw"] = base64.b64encode(json.dumps(result).encode()).decode()


def unsigned_change(liar: Liar, task: dict[str, Any]) -> None:
    part = artifact(task, "provenance")
    envelope = json.loads(base64.b64decode(part["raw"]))
    statement = json.loads(base64.b64decode(envelope["payload"]))
    statement["predicate"]["dataset"]["revision"] = "r9"
    envelope["payload"] = base64.b64encode(json.dumps(statement).encode()).decode()
    part["raw"] = base64.b64encode(json.dumps(envelope).encode()).decode()


def earlier_answer(liar: Liar, task: dict[str, Any]) -> None:
    """The first answer that was kept, rows and proof, in place of this one's."""
    task["artifacts"] = copy.deepcopy(liar.kept[0]["artifacts"])
    task["metadata"] = copy.deepcopy(liar.kept[0]["metadata"])


def foreign_upstream(liar: Liar, task: dict[str, Any]) -> None:
    """Claims to rest on a third agent, which the card says nothing of."""
    envelope = json.loads(base64.b64decode(artifact(task, "provenance")["raw"]))
    rests = {"agent_id": "urn:test:stranger", "task_id": None, "result_digest": "a" * 64, "envelope": envelope}

    def change(statement: dict[str, Any]) -> None:
        statement["predicate"]["upstream"] = [rests]
        statement["predicate"]["execution"]["tool_origin"] = "A2A"

    liar.resigned(task, change)


def another_decision(liar: Liar, task: dict[str, Any]) -> None:
    task["metadata"][DECISION_KEY]["policy_id"] = "BPD-OTHER"


def more_rows_than_promised(liar: Liar, task: dict[str, Any]) -> None:
    result = result_of(task)
    result["rows"] *= 11
    liar.answered(task, result | {"row_count": len(result["rows"])})


def other_columns(liar: Liar, task: dict[str, Any]) -> None:
    result = result_of(task)
    result["schema"][2] = {"name": "sum", "type": "INT64", "mode": "NULLABLE"}
    liar.answered(task, result)


def other_cells(liar: Liar, task: dict[str, Any]) -> None:
    result = result_of(task)
    result["rows"][0][2] = [1]
    liar.answered(task, result)


def as_of(value: str) -> Lie:
    return lambda liar, task: liar.answered(task, result_of(task) | {"as_of": value})


def cell(place: int, value: Any) -> Lie:
    def change(liar: Liar, task: dict[str, Any]) -> None:
        result = result_of(task)
        result["rows"][0][place] = value
        liar.answered(task, result)

    return change


def padded(size: int) -> Lie:
    """A statement of so many bytes, most of them between its members."""

    def change(liar: Liar, task: dict[str, Any]) -> None:
        assert liar.lifecycle is not None
        signer, part = liar.lifecycle.service.signer, artifact(task, "provenance")
        payload = base64.b64decode(json.loads(base64.b64decode(part["raw"]))["payload"])
        payload += b" " * (size - len(payload))
        signature = base64.b64encode(signer.sign(pae(PAYLOAD_TYPE, payload))).decode()
        envelope = {
            "payloadType": PAYLOAD_TYPE,
            "payload": base64.b64encode(payload).decode(),
            "signatures": [{"sig": signature}],
        }
        part["raw"] = base64.b64encode(json.dumps(envelope).encode()).decode()

    return change


def resigned(path: str, value: Any) -> Lie:
    return lambda liar, task: liar.resigned(task, member(path, value))


PROVENANCE: dict[str, Lie] = {
    "other rows than were signed": other_rows,
    "a statement changed after it was signed": unsigned_change,
    "an earlier answer once more": earlier_answer,
    "another dataset's rows": resigned("dataset.dataset_id", dataset(1)),
    "another revision": resigned("dataset.revision", "r9"),
    "another version": resigned("dataset.dataset_version", "9"),
    "another schema": resigned("dataset.schema_version", "9"),
    "another capability": resigned("operation.capability", "other"),
    "another call": resigned("operation.call_hash", "b" * 64),
    "another agent": resigned("agent.id", agent_id(1)),
    "another grant": resigned("grant.leaf_digest", "c" * 64),
    "another root token": resigned("grant.root_jti", "elsewhere"),
    "another issuer": resigned("grant.issuer", "https://other.example"),
    "another transaction": resigned("grant.txn", "txn-elsewhere"),
    "another client": resigned("grant.client", "urn:test:agent-9"),
    "a ledger receipt that does not hold": resigned("ledger", {}),
    "another decision beside the rows": another_decision,
    "another decision in the statement": resigned("decision.policy_id", "BPD-OTHER"),
    "more rows than its card promises": more_rows_than_promised,
    "other columns than its card declares": other_columns,
    "cells that are not of their type": other_cells,
    "a third agent that its card does not name": foreign_upstream,
    "another trace": resigned("invocation.trace_id", "f" * 32),
    "rows that are less sensitive than its card says": resigned("authorization.sensitivity", "public"),
    "rows that are more sensitive than its card says": resigned("authorization.sensitivity", "confidential"),
    "rows of another agent that it does not name": resigned("execution.tool_origin", "A2A"),
    "rows of a tool that its card does not name": resigned("execution.tool_origin", "MCP"),
    "a stored result that it did not use": resigned("cache", {"outcome": "HIT", "used": False, "key": "k"}),
    "a moment of no calendar": resigned("sealed_at", "9999-99-99T99:99:99Z"),
    "a name that hides what follows": resigned("dataset.sources", ["\u202eevil"]),
    "a name that moves the cursor": resigned("execution.engine", "a\x1b[2J"),
    "more to say of itself than is read": resigned("dataset.sources", ["s" * 500] * 150),
    "a larger statement than can be carried on": padded(payload_bytes(2) + 1),
    "rows of the thirteenth month": as_of("2026-13-01T00:00:00.000000Z"),
    "rows of the year zero": as_of("0000-01-01T00:00:00Z"),
    "rows of no time zone": as_of("2026-01-01T00:00:00"),
    "a number that is none": cell(2, "9007199254740993.5"),
}


@pytest.mark.parametrize("name", PROVENANCE)
def test_a_lie_about_the_rows_or_their_provenance_shows_no_row(two: ChainWorld, liar: Liar, name: str) -> None:
    liar.kept = [task_of(two.post(2, two.call(2), direct(two), by=1))]
    liar.lie = PROVENANCE[name]
    before, liar.built_upon = two.counts(), 0
    task = two.ask()
    assert decision_of(task)["reason"] == "REMOTE_PROVENANCE_INVALID"
    assert "artifacts" not in task
    assert liar.built_upon == 0
    row = two.last(1)
    assert (row["reason"], row["rows_returned"], row["upstream_digest"]) == ("REMOTE_PROVENANCE_INVALID", None, None)
    assert two.counts() == [count + 1 for count in before]


def direct(two: ChainWorld) -> tuple[str, ...]:
    """A chain that the first agent could have derived for the second."""
    return passed_on(two, two.leaf(two.root_token(), two.call()))


def not_ended(liar: Liar, task: dict[str, Any]) -> None:
    task["status"]["state"] = "TASK_STATE_WORKING"


def no_proof(liar: Liar, task: dict[str, Any]) -> None:
    del task["artifacts"][1]


def refused_by_a_token(liar: Liar, task: dict[str, Any]) -> None:
    """A refusal whose policy is named like a token; no ledger would take it in."""
    task["status"]["state"] = "TASK_STATE_REJECTED"
    del task["artifacts"]
    task["metadata"][DECISION_KEY] |= {
        "verdict": "REFUSED",
        "reason": "INSUFFICIENT_PRIVILEGE",
        "policy_id": "eyJhbGciOiJFZDI1NTE5In0.e30.AAAA",
    }


UNREADABLE: dict[str, Lie] = {
    "a task that has not ended": not_ended,
    "no proof": no_proof,
    "no JSON": lambda liar, task: b"<html>",
    "a policy named like a token": refused_by_a_token,
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_reply_in_no_form_of_the_extension_is_not_used(two: ChainWorld, liar: Liar, name: str) -> None:
    liar.lie = UNREADABLE[name]
    before = two.counts()
    task = two.ask()
    assert (decision_of(task)["reason"], "artifacts" in task) == ("REMOTE_RESPONSE_INVALID", False)
    assert two.counts() == [count + 1 for count in before]


def test_an_agent_that_breaks_down_is_at_fault(two: ChainWorld, liar: Liar) -> None:
    def break_down(_: Liar, task: dict[str, Any]) -> None:
        raise ConnectionAbortedError

    liar.lie = break_down
    assert decision_of(two.ask())["reason"] == "REMOTE_FAULT"


def test_an_agent_that_hangs_up_is_unreachable(two: ChainWorld, liar: Liar) -> None:
    liar.lie = lambda it, task: b""
    assert decision_of(two.ask())["reason"] == "REMOTE_UNREACHABLE"


def test_rows_that_are_said_to_be_cut_are_not_built_upon(two: ChainWorld, liar: Liar) -> None:
    liar.lie = lambda it, task: it.answered(task, result_of(task) | {"truncated": True})
    task = two.ask()
    assert (decision_of(task)["reason"], "artifacts" in task) == ("RESULT_TOO_LARGE", False)


def test_what_the_other_agent_says_in_a_refusal_is_not_repeated(two: ChainWorld, liar: Liar) -> None:
    def chatty(_: Liar, task: dict[str, Any]) -> None:
        task["status"]["state"] = "TASK_STATE_REJECTED"
        del task["artifacts"]
        words = {"verdict": "REFUSED", "reason": "INSUFFICIENT_PRIVILEGE", "rationale": "row 42 says zebra-9000"}
        task["metadata"][DECISION_KEY] |= words

    liar.lie = chatty
    task = two.ask()
    assert decision_of(task)["reason"] == "INSUFFICIENT_PRIVILEGE"
    assert "zebra" not in json.dumps(task)


def test_an_honest_answer_still_holds(two: ChainWorld) -> None:
    assert amounts(two.ask()) == [110]


def test_an_answer_that_is_signed_after_this_agents_own_is_not_recorded_as_granted(two: ChainWorld, liar: Liar) -> None:
    liar.lie = resigned("sealed_at", "9999-12-31T23:59:59Z")
    task = two.ask()
    assert (decision_of(task)["reason"], "artifacts" in task) == ("REMOTE_PROVENANCE_INVALID", False)
    assert two.last(1)["reason"] == "REMOTE_PROVENANCE_INVALID"


def nested(levels: int) -> Any:
    value: Any = "zebra"
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("extra", [10**30, nested(25), "zebra" * 40_000])
@pytest.mark.parametrize("place", ["envelope", "signature"])
def test_what_it_did_not_sign_goes_no_further(two: ChainWorld, liar: Liar, place: str, extra: Any) -> None:
    def add(_: Liar, task: dict[str, Any]) -> None:
        part = artifact(task, "provenance")
        envelope = json.loads(base64.b64decode(part["raw"]))
        (envelope if place == "envelope" else envelope["signatures"][0])["x"] = extra
        part["raw"] = base64.b64encode(json.dumps(envelope).encode()).decode()

    liar.lie = add
    task = two.ask()
    envelope = json.loads(decoded(task, "provenance"))
    statement = read_statement(open_envelope(envelope, two.trusted(1).key))
    assert [list(stated.envelope) for stated in statement.predicate.upstream] == [
        ["payload", "payloadType", "signatures"]
    ]
    assert verify_tree(statement, {agent_id(2): two.trusted(2).accepted_keys})
    kept = json.dumps(task) + base64.b64decode(envelope["payload"]).decode()
    assert "zebra" not in kept
    assert str(10**30) not in kept
