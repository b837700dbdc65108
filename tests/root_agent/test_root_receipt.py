"""What must hold of a reply before a row of it is used, asked of one honest reply that is spoiled in one place."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from contract.scope import Sensitivity
from contract.verdict import NotGranted, Reason
from delegation.receipt import verify_reply
from delegation.reply import Reply
from delegation.sending import Plan, Sent, Verified
from evidence.dsse import open_envelope, sign_envelope
from root_agent.entry import RootAgent
from tests.root_agent.delegating_world import CALL, honest, open_lab
from tests.root_agent.root_world import RootWorld
from tests.root_agent.scripted_remote import AgentServer


@dataclass
class Answered:
    """An honest reply that another agent's answer completes, and what it is judged by."""

    world: RootWorld
    reply: Reply
    plan: Plan
    sent: Sent
    descriptor: Any

    def judged(self, **changes: Any) -> Verified:
        """The judgement, with these members of the reply, the plan or the rest."""
        reply = replace(
            self.reply, **{name: changes.pop(name) for name in ("envelope", "body", "decision") if name in changes}
        )
        scope = replace(self.plan.scope, **changes.pop("scope", {}))
        plan = replace(self.plan, scope=scope, chain=self.plan.chain * changes.pop("tokens", 1))
        members = {"plan": plan, "sent": self.sent, "descriptor": self.descriptor, "trust": self.world.service.trust}
        return verify_reply(reply, **(members | changes))

    def resigned(self, change: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
        signer = self.world.remote.signer
        statement = open_envelope(self.reply.envelope, signer.public_key)
        change(statement["predicate"])
        return sign_envelope(statement, signer)


@pytest.fixture(scope="module")
def lab_server() -> Iterator[AgentServer]:
    server = AgentServer()
    server.start()
    yield server
    server.stop()


@pytest.fixture
async def answered(world: RootWorld, lab_server: AgentServer, tmp_path: Path) -> AsyncIterator[Answered]:
    lab = open_lab(world, lab_server, tmp_path)
    world.remote.script = honest(world, lab)
    root = RootAgent(world.service)
    asking = (await root.ask(world.token("process_engineer"), call=CALL)).asking
    assert asking.reply is not None
    assert asking.plan is not None
    assert asking.sent is not None
    assert asking.target is not None
    yield Answered(world, asking.reply, asking.plan, asking.sent, asking.target.descriptor)
    await root.close()
    lab.ledger.close()


def refused(judge: Callable[[], object], said: str) -> None:
    with pytest.raises(NotGranted) as stop:
        judge()
    assert (stop.value.reason, said in stop.value.message) == (Reason.REMOTE_PROVENANCE_INVALID, True)


async def test_an_honest_reply_is_used(answered: Answered) -> None:
    assert answered.judged().document.row_count == 2


async def test_nothing_is_used_without_proof_or_card(answered: Answered) -> None:
    refused(lambda: answered.judged(envelope=None), "nothing to verify")
    refused(lambda: answered.judged(sent=None), "nothing to verify")
    nobody = replace(answered.world.service.trust, agents={})
    refused(lambda: answered.judged(trust=nobody), "nothing to verify")
    refused(lambda: answered.judged(decision=None), "another decision")
    refused(lambda: answered.judged(descriptor=None), "version, revision or schema")
    bare = answered.descriptor.model_copy(update={"capabilities": answered.descriptor.capabilities[:1]})
    assert bare.capability(answered.plan.call.capability) is None
    refused(lambda: answered.judged(descriptor=bare), "no verified card")


async def test_nothing_is_used_beyond_the_grant(answered: Answered) -> None:
    refused(lambda: answered.judged(scope={"columns": frozenset({"batch.batch_id"})}), "columns")
    refused(lambda: answered.judged(scope={"max_sensitivity": Sensitivity.PUBLIC}), "more sensitive")


@pytest.mark.parametrize(
    ("place", "member", "value", "said"),
    [
        ("upstream", "result_digest", "0" * 64, "another result"),
        ("upstream", "agent_id", "urn:somebody", "another agent"),
        ("invocation", "trace_id", "f" * 32, "another trace"),
        ("grant", "root_jti", "another", "another root jti"),
    ],
)
async def test_what_a_reply_carries_is_judged_without_the_keys_of_those_below(
    answered: Answered, place: str, member: str, value: str, said: str
) -> None:
    def change(told: dict[str, Any]) -> None:
        (told[place][0] if place == "upstream" else told[place])[member] = value

    refused(lambda: answered.judged(envelope=answered.resigned(change)), said)


async def test_a_tree_that_would_be_too_deep_with_those_above_is_not_used(answered: Answered) -> None:
    assert answered.judged(tokens=2).document.row_count == 2
    refused(lambda: answered.judged(tokens=3), "agents deep")
