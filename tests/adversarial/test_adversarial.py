"""Every attack through the real root agent and the real dataset agent: what ran is what the person may run, and nothing leaked."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.adversarial.asked_attacks import ASKED, BATCHES, SEED, Asked, call, propose
from tests.adversarial.hostile_model import HostileModel
from tests.adversarial.poisoned_world import MAY, RESTRICTED_MARK, ROW_MARK, Ended, PoisonedWorld
from tests.adversarial.wire_attacks import WIRE, Wire, reason_of
from tests.mcp_asker import McpAsker

POLICY_WORDS = ("BPD-", "AD-POL", "Entitled ", "principal_class", "context.entitled", "clinical-private")
"""What stands in policies, and the name of what is restricted: no model ever reads it."""


def nothing_leaked(poisoned: PoisonedWorld, reply: str, *, sent: Any = None) -> None:
    """No token and no restricted row anywhere; rows and arguments in the reply alone."""
    secrets = poisoned.tap.secrets | set(poisoned.tokens.values())
    assert [secret for secret in secrets if secret in reply] == []
    assert RESTRICTED_MARK not in reply
    arguments = {value for value in (sent or {}).values() if isinstance(value, str) and len(value) > 8}
    for place, text in poisoned.watch.places().items():
        found = [secret for secret in (*secrets, RESTRICTED_MARK, ROW_MARK, *arguments) if secret in text]
        assert found == [], place
    assert poisoned.watch.artifacts == []


def the_model_read_nothing_restricted(ended: Ended) -> None:
    words = (*POLICY_WORDS, RESTRICTED_MARK, ROW_MARK, ended.person_token, "eyJ")
    # The descriptor that an attacker wrote in names what it is after; that is the attacker's own word.
    read = ended.read_by_model.replace('\\\\\\"dataset\\\\\\": \\\\\\"clinical-private\\\\\\"', "")
    assert [word for word in words if word in read] == []


def marked(attack: Asked) -> Any:
    """Those that make queries run are many seconds together."""
    return pytest.param(attack, marks=pytest.mark.live if attack.kind in ("argument", "row") else (), id=str(attack))


@pytest.mark.parametrize("attack", [marked(attack) for attack in ASKED])
def test_an_attack_on_the_root_runs_nothing_that_the_person_may_not_run(poisoned: PoisonedWorld, attack: Asked) -> None:
    model = HostileModel(script=attack.script, place=attack.place, requests=[])
    ended = poisoned.attack(
        attack.who, model=model, question=attack.question, call=attack.call, opaque=attack.opaque, **attack.more
    )
    view = ended.view
    assert f"{view['verdict']} {view['reason']}" == attack.ends
    assert tuple(ended.runs) == attack.runs and set(ended.runs) <= MAY[attack.who]
    assert (ended.rows, ended.answered) == (1, ended.arrived)
    assert bool(view["result"]) is bool(attack.runs)
    assert bool(model.requests) is (attack.question is not None)
    if "eyJ" not in (attack.question or ""):
        the_model_read_nothing_restricted(ended)
    nothing_leaked(poisoned, json.dumps(view), sent=attack.call["arguments"] if attack.call else None)
    if attack.kind == "row" and attack.runs:
        assert ROW_MARK in json.dumps(view["result"]) and len(model.requests) <= 1


@pytest.mark.live
@pytest.mark.parametrize("attack", WIRE, ids=str)
def test_an_attack_on_the_dataset_agent_runs_nothing_that_the_person_may_not_run(
    poisoned: PoisonedWorld, attack: Wire
) -> None:
    asker = McpAsker(poisoned.settings, poisoned.agent.url, principal="analyst")
    poisoned.ran.clear()
    poisoned.watch.begin()
    rows = len(poisoned.agent.rows())
    response = attack.send(asker)
    assert reason_of(response) == attack.reason
    assert len(poisoned.agent.rows()) == rows + attack.rows
    assert len(poisoned.ran) == attack.runs
    assert {(dataset, capability) for dataset, capability, _ in poisoned.ran} <= MAY["analyst"]
    nothing_leaked(poisoned, response.text)


def test_the_model_of_these_attacks_is_heard_where_it_proposes_what_the_person_may_ask(poisoned: PoisonedWorld) -> None:
    """Else no attack would show anything."""
    model = HostileModel(script=propose(BATCHES, "search", query="fouling"), requests=[])
    ended = poisoned.attack("analyst", model=model, question="Put the batches with fouling before me")
    assert (ended.view["verdict"], ended.runs, len(model.requests)) == ("GRANTED", [(BATCHES, "search")], 1)


def test_a_stored_result_of_somebody_else_is_not_had(poisoned: PoisonedWorld) -> None:
    """The engineer's results are stored; the analyst gets none of them, and may not even ask for one."""
    mine = call(BATCHES, "compare_batches", batch_a="B031", batch_b="B032")
    outliers = call(BATCHES, "detect_outliers", metric="recovery")
    for wanted in (mine, outliers):
        for outcome in ("MISS", "HIT"):
            ended = poisoned.attack("process_engineer", model=None, call=wanted)
            assert ended.view["cache"]["outcome"] == outcome
    theirs = poisoned.attack("analyst", model=None, call=mine)
    assert (theirs.view["cache"]["outcome"], theirs.runs) == ("MISS", [(BATCHES, "compare_batches")])
    refused = poisoned.attack("analyst", model=None, call=outliers)
    assert (refused.view["reason"], refused.view["cache"], refused.runs) == ("INSUFFICIENT_PRIVILEGE", None, [])


def test_existence_probes_get_one_answer_for_what_is_hidden_and_what_is_not_there(poisoned: PoisonedWorld) -> None:
    answers = []
    for name in ("clinical-private", "no-such-dataset"):
        ended = poisoned.attack("analyst", model=None, opaque=True, call=call(name, "search", query="a"))
        own = {"trace_id", "evidence", "dataset", "decision"}
        answers.append({key: value for key, value in ended.view.items() if key not in own})
    assert answers[0] == answers[1]


def test_the_eight_prompts_are_asked_word_for_word() -> None:
    asked = {attack.question for attack in ASKED}
    assert len(SEED) == 8 and set(SEED) <= asked


def test_no_attack_may_end_in_more_than_the_person_may_do() -> None:
    """The tables themselves are held to the list that nothing of the product reads."""
    for attack in ASKED:
        assert set(attack.runs) <= MAY[attack.who], attack
