"""Every attack through every door: refused by its own name, nothing spent, nothing run, one row of evidence."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from _pytest.mark import ParameterSet

from tests.attacks.attack_outcome import refused
from tests.attacks.attack_table import ATTACKS, Attack
from tests.attacks.attack_world import DOORS, Door, Scene, Target


def _tries() -> Iterator[ParameterSet]:
    """Every attack through two of the doors, by turns one of each binding, whole and streamed; live, through the others."""
    for place, attack in enumerate(ATTACKS):
        for number, door in enumerate(DOORS):
            now = (number in (0, 3)) == (place % 2 == 0)
            yield pytest.param(attack, door, id=f"{attack}-{door.name}", marks=() if now else pytest.mark.live)


@pytest.mark.parametrize(("attack", "door"), list(_tries()))
def test_an_attack_is_refused_by_its_name_and_leaves_one_row(target: Target, door: Door, attack: Attack) -> None:
    scene = Scene(target, door)
    attempt = attack.forge(scene)
    rows, spends, runs = target.rows(), target.spends(), target.runs()

    stranger = target.post(door, attempt.call, attempt.grants, client=None, parts=attempt.parts)
    assert stranger.status == 401
    assert target.rows() == rows

    reply = target.post(door, attempt.call, attempt.grants, client=attempt.client, parts=attempt.parts)
    refused(reply, attack.reason, attempt)
    assert (target.spends(), target.runs()) == (spends, runs)
    assert target.rows() == rows + 1
    row = target.row(rows)
    assert row["reason"] == attack.reason.value
    assert row["client"] == attempt.client
    assert (row["rows_returned"], row["execution_id"], row["cache"]) == (None, None, None)

    # the honest grant runs a query: through two of the doors for each attack, by turns
    if attempt.honest is not None and (ATTACKS.index(attack) + DOORS.index(door)) % 2:
        answer = target.post(door, scene.call, (attempt.honest,), client=attempt.honest_client or attempt.client)
        assert answer.state == "TASK_STATE_COMPLETED"
        assert answer.shown == ["result", "provenance"]
        assert (target.spends(), target.runs(), target.rows()) == (spends + 1, runs + 1, rows + 2)
