"""Who may call nothing of what a grant names is told so with the decision's own reason, and shown no dataset."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from contract.verdict import Decision, NotGranted, Reason
from remote_agent import negotiate
from remote_agent.negotiate import _admissible
from remote_agent.service import World
from tests.authority_builder import REMOTE, make_authority


async def test_a_person_who_may_call_nothing_is_refused_as_the_policy_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refusing(*_: Any) -> Decision:
        return Decision(
            reason=Reason.INSUFFICIENT_PRIVILEGE, policy_id="P-1", policy_version="1", rationale="not theirs"
        )

    monkeypatch.setattr(negotiate, "decide", refusing)
    for name in ("person", "admission_request"):
        monkeypatch.setattr(negotiate, name, lambda *_, **__: None)
    world = cast(World, SimpleNamespace(datasets={}, evaluator=None))
    with pytest.raises(NotGranted, match="not theirs") as refused:
        await _admissible(make_authority().grant, REMOTE, world, 0.0)
    assert refused.value.reason is Reason.INSUFFICIENT_PRIVILEGE
