"""What is said to be done next is what can be done there: by whoever asks, or where it was decided."""

from __future__ import annotations

import pytest

from contract.verdict import Reason
from dataset_agent.next_steps import ASK, MEND, with_next


@pytest.mark.parametrize("reason", [Reason.REMOTE_UNREACHABLE, Reason.REMOTE_CARD_INVALID])
def test_an_agent_that_is_not_had_is_looked_for_where_its_address_is_written(reason: Reason) -> None:
    step = with_next("it is away.", reason)
    assert step.startswith("it is away; next: ")
    assert "DATASET_AGENT_URL for the agent that DATASET_AGENT_AGENT_ID names, trust.toml for every other" in step


@pytest.mark.parametrize("reason", MEND)
def test_what_another_agent_met_is_mended_where_that_agent_runs(reason: Reason) -> None:
    assert "; next: where " in with_next("it is away", reason, elsewhere=True) or "where it runs" in MEND[reason]


@pytest.mark.parametrize("reason", ASK)
def test_what_may_be_asked_is_told_alike_whoever_refused(reason: Reason) -> None:
    assert with_next("no", reason, elsewhere=True) == with_next("no", reason)


def test_who_asks_for_a_tool_that_is_none_is_told_where_tools_are_named() -> None:
    step = with_next("no", Reason.UNREGISTERED_CAPABILITY, no_tool=True)
    assert step == "no; next: dataset-agent card names the tools that there are"


def test_where_nothing_can_be_done_nothing_is_advised() -> None:
    assert with_next("no.", Reason.INSUFFICIENT_PRIVILEGE) == "no."
