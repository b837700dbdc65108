"""What the root agent records as granted it can seal; what it carries of another agent is what that signed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from a2a.types.a2a_pb2 import Task

from contract.errors import SignerUnavailable
from contract.signing import PublicKey, Signer
from contract.verdict import NotGranted, Reason
from evidence.dsse import open_envelope, payload_of
from evidence.provenance import read_statement
from evidence.tree import verify_tree
from root_agent.answer_view import to_json
from root_agent.asking import Answer
from root_agent.entry import RootAgent
from tests.root_agent.root_world import QUESTION, RootWorld
from tests.root_agent.scripted_remote import AGENT_ID, Arrived


@pytest.fixture
async def root(world: RootWorld) -> AsyncIterator[RootAgent]:
    agent = RootAgent(world.service)
    yield agent
    await agent.close()


async def ask(root: RootAgent, world: RootWorld) -> Answer:
    return await root.ask(world.token("process_engineer"), question=QUESTION)


@pytest.mark.parametrize("extra", [10**30, [[[[[[[[[[["zebra"]]]]]]]]]]], "zebra" * 20_000])
async def test_what_nobody_signed_is_neither_kept_nor_shown(root: RootAgent, world: RootWorld, extra: Any) -> None:
    async def noisy(arrived: Arrived) -> Task:
        task = await world.honest(arrived)
        part = task.artifacts[1].parts[0]
        envelope = json.loads(part.raw) | {"x": extra}
        envelope["signatures"].insert(0, {"sig": "AAAA", "x": extra})
        part.raw = json.dumps(envelope).encode()
        return task

    world.remote.script = noisy
    view = to_json(await ask(root, world))
    assert view["verdict"] == "GRANTED"
    relayed = view["provenance"]["relayed"]
    statement = read_statement(open_envelope(relayed, world.service.holder.public_key))
    assert verify_tree(statement, {AGENT_ID: (world.remote.signer.public_key,)})
    kept = json.dumps(view["provenance"]) + payload_of(relayed).decode()
    assert ("zebra" in kept, str(10**30) in kept) == (False, False)


class _Failing:
    """The root agent's key, which signs rows and grants but no statement."""

    def __init__(self, inner: Signer, fault: Exception) -> None:
        self.inner, self.fault = inner, fault

    @property
    def public_key(self) -> PublicKey:
        return self.inner.public_key

    def sign(self, message: bytes) -> bytes:
        if message.startswith(b"DSSEv1"):
            raise self.fault
        return self.inner.sign(message)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (SignerUnavailable("the key is away"), "KEYS_UNAVAILABLE"),
        (RuntimeError("a defect"), "EVIDENCE_UNAVAILABLE"),
    ],
)
async def test_an_answer_that_was_recorded_and_could_not_be_signed_is_not_shown_and_a_row_says_so(
    root: RootAgent, world: RootWorld, fault: Exception, reason: str
) -> None:
    world.service.holder = _Failing(world.service.holder, fault)
    view = to_json(await ask(root, world))
    assert (view["verdict"], view["reason"], view["result"]) == ("INDETERMINATE", reason, None)
    granted, blocked = (entry.cells for entry in world.service.ledger.rows())
    assert (granted["kind"], granted["verdict"]) == ("terminal", "GRANTED")
    assert (blocked["kind"], blocked["reason"], blocked["caused_by"]) == ("blocked", reason, granted["decision_id"])
    assert (blocked["rows_returned"], blocked["request_id"]) == (None, granted["request_id"])
    assert view["evidence"]["root"]["index"] == 1


async def test_where_no_further_row_can_be_written_the_answer_is_withheld_all_the_same(
    root: RootAgent, world: RootWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.service.holder = _Failing(world.service.holder, SignerUnavailable("the key is away"))
    append, rows = world.service.ledger.append_async, []

    async def once(row: Any) -> Any:
        if rows:
            raise NotGranted(Reason.EVIDENCE_UNAVAILABLE, "the disk is full")
        rows.append(row)
        return await append(row)

    monkeypatch.setattr(world.service.ledger, "append_async", once)
    view = to_json(await ask(root, world))
    assert (view["reason"], view["result"], view["evidence"]["root"]) == ("KEYS_UNAVAILABLE", None, None)
