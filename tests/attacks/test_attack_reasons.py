"""Every reason by which a grant can fail is produced by an attack, and has one outward form and one line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from contract.verdict import VERDICTS, Reason, Verdict
from remote_agent.refusals import OUTWARD
from tests.attacks.attack_memory import REMEMBERED, Remembered
from tests.attacks.attack_table import ATTACKS, Attack

REASONS_PAGE = Path(__file__).resolve().parents[2] / "docs" / "reasons.md"
OF_A_GRANT = [
    *(reason for reason in Reason if reason.name.startswith("GRANT_")),
    Reason.NO_ACTIVE_GRANT,
    Reason.KEYS_UNAVAILABLE,
    Reason.REPLAY_MEMORY_LOST,
    Reason.STATE_UNAVAILABLE,
]
EVERY: tuple[Attack | Remembered, ...] = (*ATTACKS, *REMEMBERED)
FAMILIES = {
    "algorithm",
    "header",
    "kid",
    "typ",
    "encoding",
    "time",
    "audience",
    "identity",
    "narrowing",
    "chain",
    "operation",
    "replay",
    "revocation",
    "stores",
}


def test_every_family_of_the_table_is_tried() -> None:
    assert {attack.family for attack in EVERY} >= FAMILIES


def test_no_two_attacks_have_one_name() -> None:
    names = [str(attack) for attack in EVERY]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("reason", OF_A_GRANT)
def test_a_reason_is_produced_by_an_attack(reason: Reason) -> None:
    assert any(attack.reason is reason for attack in EVERY)


@pytest.mark.parametrize("reason", OF_A_GRANT)
def test_a_reason_stops_a_call_in_one_outward_form(reason: Reason) -> None:
    outward = OUTWARD[reason]
    assert VERDICTS[reason] is not Verdict.GRANTED
    assert outward.state == "TASK_STATE_REJECTED"
    assert outward.hint


@pytest.mark.parametrize("reason", OF_A_GRANT)
def test_a_reason_has_one_line_that_says_its_outward_form(reason: Reason) -> None:
    lines = re.findall(rf"^\| `{reason.value}` \|(.*)\|$", REASONS_PAGE.read_text(encoding="utf-8"), re.M)
    again = "retryable" if OUTWARD[reason].retryable else "final"
    assert len(lines) == 1
    cells = [cell.strip() for cell in lines[0].split("|")]
    assert cells[:2] == [VERDICTS[reason].value, f"rejected, {again}"]
    assert all(cells[2:])
