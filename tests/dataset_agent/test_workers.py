"""Several workers as one agent: what is told of them all, and what becomes of one that ends."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.errors import DatasetAgentError
from contract.settings import Settings
from dataset_agent.configuration import load_settings
from dataset_agent.worker_place import place_of
from dataset_agent.worker_slot import MAX_PAUSE_S, Slot
from dataset_agent.workers import standing
from tests.remote_agent.long_world import until

NAMES = st.sets(st.sampled_from("abcd"))


def state(generation: int, fault: str | None, datasets: set[str], invalid: set[str]) -> dict[str, Any]:
    told: dict[str, Any] = {"generation": generation, "fault": fault, "datasets": sorted(datasets), "outdated": {}}
    return told | {"invalid": dict.fromkeys(invalid, "why")}


@given(st.lists(st.tuples(st.integers(1, 9), NAMES, NAMES, st.none() | st.text(min_size=1)), min_size=1, max_size=4))
def test_what_is_told_of_all_is_served_by_each_and_hides_no_fault_of_any(found: list[Any]) -> None:
    told = standing([state(generation, fault, datasets, invalid) for generation, datasets, invalid, fault in found])
    assert set(told["datasets"]) == set.intersection(*(datasets for _, datasets, _, _ in found))
    assert set(told["invalid"]) == set.union(*(invalid for _, _, invalid, _ in found))
    assert told["generation"] == min(generation for generation, _, _, _ in found)
    assert (told["fault"] is None) == all(fault is None for _, _, _, fault in found)


def test_of_no_worker_nothing_is_told() -> None:
    assert standing([]) == {}


@pytest.fixture
def slot() -> Iterator[Slot]:
    made = Slot(0)
    yield made
    made.signal(signal.SIGKILL)


def _end(slot: Slot) -> str:
    return str(until(slot.ended))


def _talk(leader: socket.socket) -> int:
    leader.sendall(json.dumps({"began": 5.0, "generation": 1}).encode() + b"\n")
    told = json.loads(leader.recv(1_000))
    leader.sendall(json.dumps({"unopened": ["command", "configuration", "c", told["word"]]}).encode() + b"\n")
    return 7


def test_a_worker_tells_what_it_serves_and_what_kept_it_from_that(slot: Slot) -> None:
    slot.start(_talk)
    until(lambda: list(slot.told()))
    assert slot.serves
    slot.tell({"word": "because"})
    assert _end(slot) == "with exit code 7"
    list(slot.told())
    assert slot.fault is not None
    assert slot.fault.message == "because"
    slot.forget()
    assert (slot.lives, slot.serves) == (False, False)


def _sleep(_: socket.socket) -> int:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    time.sleep(60)
    return 0


def test_how_a_worker_was_ended_is_told_by_name(slot: Slot) -> None:
    slot.start(_sleep)
    slot.signal(signal.SIGKILL)
    assert _end(slot) == "by SIGKILL"
    slot.forget()


def test_one_that_takes_nothing_is_ended_instead_of_waited_for(slot: Slot) -> None:
    slot.start(_sleep)
    for _ in range(100_000):
        slot.tell({"told": "x" * 1_000})
        if (how := slot.ended()) is not None:
            break
    assert how == "by SIGKILL"
    slot.forget()


def test_one_that_does_not_stay_is_started_later_and_later(slot: Slot) -> None:
    pauses = []
    for _ in range(8):
        slot.start(lambda _: 1)
        assert _end(slot) == "with exit code 1"
        slot.forget()
        pauses.append(round((slot.due or 0.0) - time.monotonic()))
    assert pauses == [1, 2, 4, 8, 16, *[int(MAX_PAUSE_S)] * 3]


def test_one_that_stayed_is_replaced_at_once(slot: Slot) -> None:
    slot.failures = 5
    slot.start(lambda _: 0)
    slot.started -= 3_600
    _end(slot)
    slot.forget()
    assert (slot.due or 0.0) <= time.monotonic()


@pytest.mark.parametrize("told", ["0", "65", "two", "-1"])
def test_how_many_is_bounded(told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATASET_AGENT_WORKERS", told)
    with pytest.raises(DatasetAgentError, match="DATASET_AGENT_WORKERS"):
        load_settings()


def test_they_share_one_port_and_nobody_else_takes_it(tmp_path: Any) -> None:
    settings = Settings(home=tmp_path, workers=2)
    with place_of(settings, 0) as place:
        with place.listener() as one, place.listener() as other:
            assert one.getsockname() == other.getsockname()
            with pytest.raises(DatasetAgentError, match="cannot listen"), place_of(settings, place.port):
                pass
        assert place.folder.stat().st_mode & 0o777 == 0o700
        assert place.folder.stat().st_uid == os.geteuid()
    assert not place.folder.exists()
