"""A restricted capability answers a stored result and a fresh one alike, and each person's first call runs the engine."""

from __future__ import annotations

import base64
import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from contract.call import Operation
from contract.canonical import sha256_hex
from contract.settings import Settings
from tests.remote_agent.long_world import BINDINGS, PATIENCE_S, Client, QuickAsker
from tests.running_agent import RunningAgent, agent_home, message, running_agent

DATASET = "clinical-private"
ONE, OTHER = "clinical_reviewer", "second_reviewer"
METRICS = iter(["crp", "haemoglobin", "neutrophils", "six_minute_walk", "recovery_index"])
_SECOND = """
  - name: second_reviewer
    subject: u-clin-02
    tenant: acme
    principal_class: clinical-reviewer
    clearance: restricted
    entitlements:
      clinical-private: [aggregate, search]
"""
# What is made anew for every answer, from the narrowest form to the widest.
_FORMS = {
    "time": re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z"),
    "uuid": re.compile(r"(e-)?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
    "digits": re.compile(r"[0-9a-f]{32,64}"),
    "named": re.compile(r"[a-z]{3,4}-[A-Za-z0-9_-]{22,32}"),
    "token": re.compile(r"[A-Za-z0-9_+/=-]{22}|[A-Za-z0-9_+/=-]{86,}"),
}


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAgent]:
    """An agent that knows two people of one class."""
    datasets = tmp_path_factory.mktemp("world") / "datasets"
    shutil.copytree(Settings().datasets, datasets)
    people = datasets / "principals.yaml"
    people.write_text(people.read_text(encoding="utf-8").rstrip() + _SECOND, encoding="utf-8")
    with running_agent(agent_home(tmp_path_factory.mktemp("home"), datasets=datasets)) as served:
        yield served


@dataclass
class Told:
    """All that left for one call: the response's headers, its JSON, and the signed statement in it."""

    headers: dict[str, str]
    body: Any
    statement: dict[str, Any]
    rows: bytes

    def shape(self) -> Any:
        """Everything but what is made anew for every answer, of which only the form is left."""
        predicate = {name: held for name, held in self.statement["predicate"].items() if name != "ledger"}
        headers = {name: held for name, held in self.headers.items() if name not in ("date", "content-length")}
        return headers, _form(self.body), _form({**self.statement, "predicate": predicate})


def _form(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _form(held) for name, held in value.items()}
    if isinstance(value, list):
        return [_form(held) for held in value]
    if not isinstance(value, str):
        return value
    return next((f"<{name}>" for name, form in _FORMS.items() if form.fullmatch(value)), value)


def ask(agent: RunningAgent, person: str, metric: str, binding: str, method: str) -> Told:
    asker, client = QuickAsker(agent.settings, agent.url, principal=person), Client(agent, binding)
    call = asker.call(DATASET, "aggregate", {"metric": metric})
    grant = asker.grant(asker.scope(DATASET, "aggregate"), Operation(method, call_hash=sha256_hex(call)))
    verb, url, body = client._request(method, {"message": message(call)})
    reply = httpx.request(verb, url, json=body, headers=asker.headers(grant), timeout=PATIENCE_S)
    assert reply.status_code == 200
    parsed = _events(reply.text) if "event-stream" in reply.headers["content-type"] else reply.json()
    parts = dict(_artifacts(parsed))
    envelope = json.loads(base64.b64decode(parts["provenance"]))
    return Told(
        dict(reply.headers),
        parsed,
        json.loads(base64.b64decode(envelope["payload"])),
        base64.b64decode(parts["result"]),
    )


def _events(text: str) -> list[Any]:
    return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]


def _artifacts(value: Any) -> Iterator[tuple[str, str]]:
    """Name and bytes of every artifact, wherever it is in an answer."""
    if isinstance(value, list):
        for held in value:
            yield from _artifacts(held)
    if isinstance(value, dict):
        if value.get("name") in ("result", "provenance") and "parts" in value:
            yield value["name"], value["parts"][0]["raw"]
        for held in value.values():
            yield from _artifacts(held)


def ran(agent: RunningAgent) -> str:
    """The execution that the last row of the ledger names."""
    return str(agent.rows()[-1].cells["execution_id"])


@pytest.mark.parametrize("binding", BINDINGS)
@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage"])
def test_an_answer_of_a_restricted_capability_carries_no_hint_of_a_hit(
    agent: RunningAgent, binding: str, method: str
) -> None:
    metric = next(METRICS)
    first = ask(agent, ONE, metric, binding, method)
    execution = ran(agent)
    before = datetime.now(UTC)
    second = ask(agent, ONE, metric, binding, method)
    assert ran(agent) == execution, "the second was answered from the cache"
    assert second.rows == first.rows
    assert second.shape() == first.shape()
    for told in (first, second):
        cache = told.statement["predicate"]["cache"]
        assert (cache["outcome"], cache["used"], cache["key"]) == ("WITHHELD", False, None)
        assert execution not in json.dumps(told.statement) + json.dumps(told.body)
    made = datetime.fromisoformat(second.statement["predicate"]["execution"]["started"])
    assert made >= before


def test_the_first_call_of_another_person_of_the_same_class_runs_the_engine_again(agent: RunningAgent) -> None:
    metric = next(METRICS)
    first = ask(agent, ONE, metric, BINDINGS[0], "SendMessage")
    execution = ran(agent)
    other = ask(agent, OTHER, metric, BINDINGS[0], "SendMessage")
    assert ran(agent) != execution
    assert other.shape() == first.shape()
    ask(agent, ONE, metric, BINDINGS[0], "SendMessage")
    assert ran(agent) == execution
