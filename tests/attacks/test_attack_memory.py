"""What only memory can refuse: a second use, what was revoked, and what cannot be remembered at all."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from contract.verdict import Reason
from grants.state import armed_after_loss
from tests.attacks.attack_edits import put
from tests.attacks.attack_memory import REMEMBERED, Remembered
from tests.attacks.attack_outcome import refused
from tests.attacks.attack_world import DOORS, SECOND, Door, Scene, Target

EVERY_DOOR = pytest.mark.parametrize("door", DOORS, ids=lambda door: door.name)


@EVERY_DOOR
@pytest.mark.parametrize("attack", REMEMBERED, ids=str)
def test_it_is_refused_by_its_name_and_leaves_one_row(target: Target, door: Door, attack: Remembered) -> None:
    with attack.stage(target, door) as attempt:
        rows, runs = target.rows(), target.runs()
        spends = None if attack.reason is Reason.STATE_UNAVAILABLE else target.spends()  # it cannot be read then
        assert target.post(door, attempt.call, attempt.grants, client=None).status == 401
        reply = target.post(door, attempt.call, attempt.grants, client=attempt.client)
    refused(reply, attack.reason, attempt)
    assert (target.rows(), target.runs()) == (rows + 1, runs)
    assert spends in (None, target.spends())
    assert target.row(rows)["reason"] == attack.reason.value
    honest = attempt.honest
    if attack.reason is Reason.REPLAY_MEMORY_LOST:
        now = target.now()
        target.advance(armed_after_loss(now) - now)  # from then on a grant is younger than the memory
        honest = Scene(target, door).honest
    assert honest is not None
    answer = target.post(door, attempt.call, (honest,), client=attempt.client)
    assert (answer.state, answer.decision["reason"]) == ("TASK_STATE_COMPLETED", "PRINCIPAL_AUTHORIZED")
    assert target.runs() == runs + 1


@EVERY_DOOR
def test_a_second_leaf_of_the_same_root_token_is_another_grant(target: Target, door: Door) -> None:
    scene = Scene(target, door)
    fresh = ",".join(scene.derived((scene.forge.chain()[0],), target.root_id, target.remote_id))
    for grant in (scene.honest, fresh):
        assert target.post(door, scene.call, (grant,), client=target.root_id).state == "TASK_STATE_COMPLETED"


@EVERY_DOOR
def test_a_holder_spends_no_leaf_but_its_own(target: Target, door: Door) -> None:
    """Another holder may choose the same ``jti``."""
    scene = Scene(target, door, lean=1)
    chain = scene.chain(SECOND, target.remote_id)
    signers = [target.issuer, target.signers[target.root_id], target.signers[SECOND]]
    same = scene.resigned(chain, {2: put(jti=scene.forge.leaf["jti"])}, signers)
    for grant, client in ((scene.honest, target.root_id), (same, SECOND)):
        assert target.post(door, scene.call, (grant,), client=client).state == "TASK_STATE_COMPLETED"


@EVERY_DOOR
def test_of_sixteen_uses_at_once_one_runs(target: Target, door: Door) -> None:
    scene = Scene(target, door)
    grant, (rows, spends, runs) = scene.honest, (target.rows(), target.spends(), target.runs())
    outcomes: list[str] = []

    def use() -> None:
        asker = Target(target.agent, target.signers)
        outcomes.append(asker.post(door, scene.call, (grant,), client=target.root_id).decision["reason"])
        asker.hang_up()

    threads = [threading.Thread(target=use) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == [*["GRANT_REPLAYED"] * 15, "PRINCIPAL_AUTHORIZED"]
    assert (target.rows(), target.spends(), target.runs()) == (rows + 16, spends + 1, runs + 1)


@EVERY_DOOR
def test_a_failed_attempt_burns_no_grant(target: Target, door: Door) -> None:
    """Other bytes, another client, a bad signature beside it: the grant still works, once."""
    scene = Scene(target, door)
    spends = target.spends()
    spoiled = replace(scene.forge, leaf_signer=target.issuer).chain()
    target.post(door, scene.call + b" ", (scene.honest,), client=target.root_id)
    target.post(door, scene.call, (scene.honest,), client=SECOND)
    target.post(door, scene.call, (",".join(spoiled),), client=target.root_id)
    assert target.spends() == spends
    answer = target.post(door, scene.call, (scene.honest,), client=target.root_id)
    assert answer.state == "TASK_STATE_COMPLETED"
    assert target.spends() == spends + 1
