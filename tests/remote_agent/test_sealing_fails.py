"""A result that was recorded as granted and then could not be signed: nothing leaves, and a further row says so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contract.errors import SignerUnavailable
from contract.signing import PublicKey, Signer
from contract.verdict import NotGranted, Reason
from evidence.verify import verify_ledger
from tests.running_agent import Asker, RunningAgent, agent_home, decision_of, running_agent

COMPARE = {"batch_a": "B001", "batch_b": "B002"}
RECEIPT = "urn:dataset-agent:ext:execution-grant:v1/receipt"


class Failing:
    """An agent's key that signs rows and grants but no statement."""

    def __init__(self, inner: Signer, fault: Exception) -> None:
        self.inner, self.fault = inner, fault

    @property
    def public_key(self) -> PublicKey:
        return self.inner.public_key

    def sign(self, message: bytes) -> bytes:
        if message.startswith(b"DSSEv1"):
            raise self.fault
        return self.inner.sign(message)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAgent]:
    with running_agent(agent_home(tmp_path_factory.mktemp("sealing") / "home")) as agent:
        yield agent


@pytest.fixture
def agent(served: RunningAgent) -> Iterator[RunningAgent]:
    signer = served.lifecycle.service.signer
    yield served
    served.lifecycle.service.signer = signer


def call(agent: RunningAgent) -> dict[str, Any]:
    return Asker(agent.settings, agent.url).ask("purification-batches", "compare_batches", COMPARE)


@pytest.mark.parametrize("fault", [SignerUnavailable("the key is away"), RuntimeError("a defect")])
def test_a_row_says_that_nothing_was_released(agent: RunningAgent, fault: Exception) -> None:
    service, before = agent.lifecycle.service, len(agent.rows())
    service.signer = Failing(service.signer, fault)
    task = call(agent)
    assert (decision_of(task)["reason"], "artifacts" in task) == ("EVIDENCE_UNAVAILABLE", False)
    granted, blocked = (row.cells for row in agent.rows()[before:])
    assert (granted["kind"], granted["verdict"], granted["rows_returned"]) == ("terminal", "GRANTED", 2)
    assert (blocked["kind"], blocked["reason"]) == ("blocked", "EVIDENCE_UNAVAILABLE")
    assert (blocked["caused_by"], blocked["decision_id"]) == (
        granted["decision_id"],
        decision_of(task)["decision_id"],
    )
    assert (blocked["rows_returned"], blocked["result_commitment"]) == (None, None)
    assert task["metadata"][RECEIPT]["index"] == before + 1
    assert verify_ledger(Path(agent.settings.home) / "remote" / "ledger.sqlite", service.signer.public_key).ok


def test_where_that_row_cannot_be_written_either_nothing_leaves_all_the_same(
    agent: RunningAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, before = agent.lifecycle.service, len(agent.rows())
    service.signer = Failing(service.signer, SignerUnavailable("the key is away"))
    append, tried = service.ledger.append_async, []

    async def once(row: Any) -> Any:
        tried.append(row)
        if len(tried) > 1:
            raise NotGranted(Reason.EVIDENCE_UNAVAILABLE, "the disk is full")
        return await append(row)

    monkeypatch.setattr(service.ledger, "append_async", once)
    task = call(agent)
    assert (decision_of(task)["reason"], "artifacts" in task) == ("EVIDENCE_UNAVAILABLE", False)
    assert RECEIPT not in task["metadata"]
    assert (len(tried), len(agent.rows())) == (2, before + 1)
