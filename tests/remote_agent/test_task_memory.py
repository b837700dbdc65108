"""What is remembered of tasks is bounded for each agent, and pages hold what is asked for."""

from __future__ import annotations

from a2a.types.a2a_pb2 import ListTasksRequest, Task, TaskState, TaskStatus

from remote_agent.tasks import TaskMemory

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
