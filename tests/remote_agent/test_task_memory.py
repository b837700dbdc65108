"""What is remembered of tasks is bounded for each agent, and pages hold what is asked for."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc

from a2a.types.a2a_pb2 import Artifact, ListTasksRequest, Part, Task, TaskState, TaskStatus
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from evidence.limits import MAX_LEVELS, envelope_bytes
from remote_agent.tasks import MAX_TASK_BYTES, TaskMemory

ALICE, BOB = ("urn:a", "iss", "t", "alice"), ("urn:a", "iss", "t", "bob")
OTHER = ("urn:b",)


def task(number: int, *, context: str = "c", state: TaskState = TaskState.TASK_STATE_COMPLETED) -> Task:
    return Task(id=f"task-{number}", context_id=context, status=TaskStatus(state=state))


def ids(memory: TaskMemory, owner: tuple[str, ...], **asked: object) -> list[str]:
    return [found.id for found in memory.page(owner, ListTasksRequest(**asked)).tasks]


def test_an_agent_forgets_its_own_oldest_task_and_never_anothers() -> None:
    memory = TaskMemory(limit=3)
    memory.remember(OTHER, task(100))
    for number in range(5):
        memory.remember(ALICE if number % 2 else BOB, task(number))
    assert [
        number for number in range(5) if memory.find(ALICE, f"task-{number}") or memory.find(BOB, f"task-{number}")
    ] == [
        2,
        3,
        4,
    ]
    assert memory.find(OTHER, "task-100") is not None


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 3_000)), max_size=60))
def test_a_person_with_many_tasks_makes_only_their_own_be_forgotten(asked: list[tuple[int, int]]) -> None:
    memory = TaskMemory(limit=6, max_bytes=40_000)
    for number in range(2):
        memory.remember(BOB, proven(100 + number, 500))
    for number, size in asked:
        memory.remember(ALICE, proven(number, size))
        assert ids(memory, ALICE)[0] == f"task-{number}", "the newest is remembered"
        assert ids(memory, BOB) == ["task-101", "task-100"]
        kept = [one for who in (ALICE, BOB) for one in memory.page(who, ListTasksRequest(page_size=100)).tasks]
        assert len(kept) <= 6 and sum(found.ByteSize() for found in kept) <= 40_000


def test_whose_task_is_put_again_under_another_owner_has_it_no_more() -> None:
    memory = TaskMemory(limit=3)
    memory.remember(ALICE, task(1))
    memory.remember(BOB, task(1))
    assert (ids(memory, ALICE), ids(memory, BOB)) == ([], ["task-1"])
    for number in range(2, 6):
        memory.remember(ALICE, task(number))
    assert ids(memory, BOB) == ["task-1"]


def test_a_task_of_another_owner_does_not_exist() -> None:
    memory = TaskMemory(limit=3)
    memory.remember(ALICE, task(1))
    assert memory.find(BOB, "task-1") is None
    assert memory.find(("urn:a",), "task-1") is None
    assert ids(memory, BOB) == []


def test_pages_are_newest_first_and_follow_one_another() -> None:
    memory = TaskMemory(limit=10)
    for number in range(5):
        memory.remember(ALICE, task(number))
    first = memory.page(ALICE, ListTasksRequest(page_size=2))
    assert [found.id for found in first.tasks] == ["task-4", "task-3"]
    assert first.total_size == 5
    assert ids(memory, ALICE, page_size=2, page_token=first.next_page_token) == ["task-2", "task-1"]
    assert ids(memory, ALICE, page_size=2, page_token="task-1") == ["task-0"]


def test_a_page_holds_only_the_context_and_state_asked_for() -> None:
    memory = TaskMemory(limit=10)
    memory.remember(ALICE, task(1, context="a"))
    memory.remember(ALICE, task(2, context="b", state=TaskState.TASK_STATE_REJECTED))
    assert ids(memory, ALICE, context_id="a") == ["task-1"]
    assert ids(memory, ALICE, status=TaskState.TASK_STATE_REJECTED) == ["task-2"]


def test_what_was_found_can_be_changed_without_changing_what_is_remembered() -> None:
    memory = TaskMemory(limit=10)
    memory.remember(ALICE, task(1))
    found = memory.find(ALICE, "task-1")
    assert found is not None
    found.status.state = TaskState.TASK_STATE_FAILED
    assert memory.find(ALICE, "task-1") != found


def proven(number: int, size: int) -> Task:
    """A completed task whose envelope has so many bytes."""
    made = task(number)
    made.artifacts.append(Artifact(name="provenance", parts=[Part(raw=bytes(size))]))
    return made


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 6_000)), max_size=40))
def test_an_agent_never_has_more_bytes_remembered_than_allowed(asked: list[tuple[int, int]]) -> None:
    memory = TaskMemory(limit=5, max_bytes=20_000)
    memory.remember(OTHER, proven(100, 10_000))
    for number, size in asked:
        memory.remember(ALICE, proven(number, size))
        kept = memory.page(ALICE, ListTasksRequest(page_size=100)).tasks
        assert sum(found.ByteSize() for found in kept) <= 20_000
        assert kept[0].id == f"task-{number}", "the newest is remembered"
    assert memory.find(OTHER, "task-100") is not None


def test_large_tasks_push_out_the_oldest_and_small_ones_are_as_many_as_the_limit() -> None:
    memory = TaskMemory(limit=100, max_bytes=100_000)
    for number in range(20):
        memory.remember(ALICE, proven(number, 20_000))
    assert ids(memory, ALICE) == ["task-19", "task-18", "task-17", "task-16"]
    for number in range(20, 40):
        memory.remember(ALICE, proven(number, 100))
    assert len(ids(memory, ALICE, page_size=100)) == 23, "twenty small ones beside three of the large ones"


def test_a_task_that_is_remembered_again_is_counted_once() -> None:
    memory = TaskMemory(limit=100, max_bytes=100_000)
    memory.remember(ALICE, task(1))
    for _ in range(50):
        memory.remember(ALICE, proven(2, 20_000))
    assert ids(memory, ALICE) == ["task-2", "task-1"]


def test_the_largest_envelope_is_remembered_and_of_a_larger_task_only_the_status() -> None:
    memory = TaskMemory(limit=10)
    memory.remember(ALICE, proven(1, envelope_bytes(MAX_LEVELS - 1)))
    memory.remember(ALICE, proven(2, MAX_TASK_BYTES))
    whole, cut = memory.find(ALICE, "task-1"), memory.find(ALICE, "task-2")
    assert whole is not None
    assert cut is not None
    assert (len(whole.artifacts), len(cut.artifacts)) == (1, 0)
    assert (cut.id, cut.context_id, cut.status) == ("task-2", "c", proven(2, 0).status)


def test_the_memory_that_is_used_is_not_far_from_what_is_counted() -> None:
    memory = TaskMemory(limit=10_000, max_bytes=4 * 2**20)
    tracemalloc.start()
    try:
        for number in range(3_000):
            memory.remember(ALICE, proven(number, 4_000))
        used = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert used < 5 * 2**20
    assert sys.getsizeof(memory._agents) < 1_000


@given(st.integers(0, 253_402_300_799), st.integers(0, 999_999), st.integers(-2_000, 2_000))
def test_tasks_that_changed_since_an_instant_are_listed_and_no_other(seconds: int, micros: int, apart: int) -> None:
    memory, changed = TaskMemory(limit=3), Timestamp(seconds=seconds, nanos=micros * 1_000)
    memory.remember(ALICE, Task(id="task-1", status=TaskStatus(timestamp=changed)))
    since = Timestamp()
    since.FromNanoseconds(max(0, changed.ToNanoseconds() + apart))
    listed = ids(memory, ALICE, status_timestamp_after=since)
    assert bool(listed) is (changed.ToNanoseconds() >= since.ToNanoseconds())


_FILL = """
import resource
import orjson
from remote_agent.tasks import TaskMemory

def told(number):
    sizes = {"result": 250, "provenance": 1_000 + 7 * number % 40}
    artifacts = [{"name": name, "parts": [{"raw": f"{number:08x}" * size}]} for name, size in sizes.items()]
    status = {"state": "TASK_STATE_COMPLETED", "timestamp": "2026-01-01T00:00:00.000000Z"}
    return {"id": f"task-{number}", "contextId": "c", "status": status, "artifacts": artifacts}

def resident():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

memory, owner = TaskMemory(10_000), ("urn:a", "iss", "t", "alice")
before = resident()
for number in range(4_000):
    task = told(number)
    answered = orjson.dumps(task)  # what goes out is written beside what is kept
    memory.remember_told(owner, task)
print((resident() - before) / (4_000 * 8_160 / 1024))
"""


def test_tasks_take_about_as_much_memory_as_their_bytes() -> None:
    filled = subprocess.run([sys.executable, "-c", _FILL], capture_output=True, text=True, check=True)
    assert float(filled.stdout) < 2
