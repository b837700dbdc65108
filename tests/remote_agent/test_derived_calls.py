"""A narrower or coarser call over real loopback HTTP: computed from a stored result, and told as such."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from contract.call import Operation
from contract.canonical import sha256_hex
from contract.extension import CACHE_KEY
from contract.scope import Constraint
from contract.verdict import Reason
from evidence.provenance import verify_provenance
from grants.derive import derive, header_value
from remote_agent import derived as derived_module
from tests.remote_agent.clocked_world import DATASET, Clocked, clocked
from tests.running_agent import decision_of, task_of

pytestmark = pytest.mark.live
CAPABILITY = "step_totals"
YEAR = {"from_day": "2024-01-01", "to_day": "2025-01-01", "per": "day"}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clocked]:
    with clocked(tmp_path_factory.mktemp("derived"), None, agents=1) as world:
        yield world


@pytest.fixture
def world(served: Clocked) -> Clocked:
    """With an empty cache: everything that was stored has expired."""
    served.move(3_601)
    return served


def ask(world: Clocked, arguments: dict[str, Any], **scope: Any) -> dict[str, Any]:
    asker = world.asker()
    call = asker.call(DATASET, CAPABILITY, arguments)
    root = world.root_token(asker.scope(DATASET, CAPABILITY, **scope))
    receiver = asker.trust.agents[asker.settings.agent_id]
    operation = Operation("SendMessage", call_hash=sha256_hex(call))
    grant = header_value(derive((root,), asker.holder, audience=receiver, operation=operation, now=world.now()))
    return task_of(asker.send(call, asker.headers(grant)))


def told(task: dict[str, Any]) -> dict[str, Any]:
    return dict(task["metadata"][CACHE_KEY])


def outcome(task: dict[str, Any]) -> tuple[str, bool]:
    return told(task)["outcome"], told(task)["derived"]


def part(task: dict[str, Any], name: str) -> bytes:
    return base64.b64decode(next(item for item in task["artifacts"] if item["name"] == name)["parts"][0]["raw"])


@contextmanager
def without_cache(world: Clocked) -> Iterator[None]:
    service = world.agents[0].lifecycle.service
    service.cache_enabled = False
    try:
        yield
    finally:
        service.cache_enabled = True


NARROWER = {
    "a quarter": {**YEAR, "from_day": "2024-04-01", "to_day": "2024-07-01"},
    "two sites": {**YEAR, "sites": ["Basel", "Dublin"]},
    "by step": {**YEAR, "per": "step"},
    "one number": {**YEAR, "from_day": "2024-02-01", "sites": ["Durham"], "per": "all"},
    "no batch": {**YEAR, "to_day": "2024-01-01"},
}


@pytest.mark.parametrize("arguments", NARROWER.values(), ids=NARROWER)
def test_a_narrower_call_has_the_engines_bytes_and_runs_nothing(world: Clocked, arguments: dict[str, Any]) -> None:
    assert outcome(ask(world, YEAR)) == ("MISS", False)
    before = world.executions
    answered = ask(world, arguments)
    assert (outcome(answered), world.executions) == (("HIT", True), before)
    with without_cache(world):
        executed = ask(world, arguments)
    assert part(answered, "result") == part(executed, "result")


def test_reply_proof_and_ledger_name_the_execution_it_comes_from(world: Clocked) -> None:
    source = told(ask(world, YEAR))
    answered = ask(world, NARROWER["a quarter"])
    assert told(answered)["execution_id"] == source["execution_id"]
    assert told(answered)["key"] != source["key"]
    service = world.agents[0].lifecycle.service
    statement = verify_provenance(
        json.loads(part(answered, "provenance")),
        service.signer.public_key,
        body=part(answered, "result"),
        dataset=DATASET,
        capability=CAPABILITY,
    )
    assert (statement.predicate.cache.outcome, statement.predicate.cache.derived) == ("HIT", True)
    assert statement.predicate.execution.execution_id == source["execution_id"]
    cells = world.agents[0].rows()[-1].cells
    assert (cells["cache"], cells["derived"], cells["execution_id"]) == ("HIT", 1, source["execution_id"])


def test_the_next_equal_call_is_found_as_it_is_and_still_says_so(
    world: Clocked, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(world, YEAR)
    first = ask(world, NARROWER["by step"])
    monkeypatch.setattr(derived_module, "roll_up", None)
    again = ask(world, NARROWER["by step"])
    assert outcome(again) == ("HIT", True)
    assert (told(again), part(again, "result")) == (told(first), part(first, "result"))


def test_it_lives_no_longer_than_what_it_comes_from(world: Clocked) -> None:
    ask(world, YEAR)
    world.move(3_590)
    assert outcome(ask(world, NARROWER["by step"])) == ("HIT", True)
    world.move(11)
    assert outcome(ask(world, NARROWER["by step"])) == ("MISS", False)


def test_a_wider_call_a_finer_one_and_another_person_run(world: Clocked) -> None:
    ask(world, {**YEAR, "per": "site"})
    assert outcome(ask(world, {**YEAR, "per": "day"})) == ("MISS", False)
    assert outcome(ask(world, {**YEAR, "from_day": "2023-12-31"})) == ("MISS", False)
    narrowed = {"constraints": {"batch_record.site": Constraint.parse({"one_of": ["Basel"]})}}
    own = ask(world, NARROWER["a quarter"], **narrowed)
    assert outcome(own) == ("MISS", False)
    assert outcome(ask(world, NARROWER["a quarter"])) == ("HIT", True)


def test_another_partition_never_lends_its_rows(world: Clocked) -> None:
    ask(world, YEAR)
    for one_of in (["Basel"], ["Basel", "Dublin"]):
        scope = {"constraints": {"batch_record.site": Constraint.parse({"one_of": one_of})}}
        answered = ask(world, NARROWER["by step"], **scope)
        assert outcome(answered) == ("MISS", False)
        assert outcome(ask(world, {**NARROWER["by step"], "per": "all"}, **scope)) == ("HIT", True)


def test_who_may_not_ask_is_refused_whatever_is_stored(world: Clocked) -> None:
    ask(world, YEAR)
    asker = world.asker()
    asker.principal = "analyst"
    call = asker.call(DATASET, CAPABILITY, NARROWER["by step"])
    root = asker.root_token(asker.scope(DATASET, CAPABILITY), now=world.now())
    task = task_of(asker.send(call, asker.headers(asker.leaf(root, call))))
    assert decision_of(task)["reason"] == Reason.INSUFFICIENT_PRIVILEGE.value
    assert "artifacts" not in task


def test_a_listed_result_that_is_gone_is_a_miss(world: Clocked) -> None:
    gone = told(ask(world, YEAR))["key"]
    agent = world.agents[0]
    agent.run(agent.lifecycle.service.cache.store.delete([gone]))
    assert outcome(ask(world, NARROWER["a quarter"])) == ("MISS", False)


def test_a_result_that_is_not_exact_is_left_to_the_engine(world: Clocked, monkeypatch: pytest.MonkeyPatch) -> None:
    ask(world, YEAR)
    monkeypatch.setattr(derived_module, "roll_up", lambda *_, **__: None)
    assert outcome(ask(world, NARROWER["a quarter"])) == ("MISS", False)


def test_derived_answers_are_counted(world: Clocked) -> None:
    counters = world.agents[0].lifecycle.service.cache
    before = dict(counters.counters)
    ask(world, YEAR)
    ask(world, NARROWER["a quarter"])
    ask(world, NARROWER["a quarter"])
    grown = {name: counters.counters[name] - before.get(name, 0) for name in ("hit", "derived")}
    assert grown == {"hit": 2, "derived": 1}
