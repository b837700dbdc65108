"""The tasks of all workers are one list: the same through each, whole, in pages, and its owner's alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from remote_agent.siblings_room import room_of
from tests.remote_agent.long_tasks import fresh
from tests.remote_agent.long_world import Client
from tests.remote_agent.two_workers import Pair, two_workers
from tests.running_agent import agent_home

MADE = 7


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with two_workers(agent_home(tmp_path_factory.mktemp("home")), count=3) as pair:
        yield pair


@pytest.fixture(scope="module")
def made(workers: Pair) -> list[str]:
    """Ids of one person's tasks as they were made, now at one worker and now at the other."""
    clients = [Client(worker) for worker in workers]
    ids = [clients[number % 2 if number < 5 else 0].send(fresh(clients[0]))["id"] for number in range(MADE)]
    Client(workers[1], person="analyst").send(fresh(clients[0]), "")  # somebody else's, refused
    return ids


def listed(client: Client, binding: str, **asked: Any) -> dict[str, Any]:
    headers = client.headers()
    if binding == "JSONRPC":
        body = {"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": asked}
        return dict(httpx.post(client.agent.url, json=body, headers=headers, timeout=20).json()["result"])
    return dict(httpx.get(f"{client.agent.url}/tasks", params=asked, headers=headers, timeout=20).json())


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
@pytest.mark.parametrize("number", [0, 1])
def test_a_list_has_the_tasks_of_all_the_newest_first(
    workers: Pair, made: list[str], number: int, binding: str
) -> None:
    found = listed(Client(workers[number]), binding)
    assert [task["id"] for task in found["tasks"]] == list(reversed(made))
    assert (found["totalSize"], found["nextPageToken"]) == (MADE, "")


@pytest.mark.parametrize("size", [1, 2, 3, MADE])
def test_its_pages_follow_one_another_through_whichever_worker(workers: Pair, made: list[str], size: int) -> None:
    seen: list[str] = []
    token = ""
    for turn in range(2 * MADE):
        page = listed(Client(workers[turn % 2]), "JSONRPC", pageSize=size, pageToken=token)
        assert page["pageSize"] == size
        seen += [task["id"] for task in page["tasks"]]
        token = page["nextPageToken"]
        if not token:
            break
    assert seen == list(reversed(made))


def test_a_list_is_of_its_owner_alone(workers: Pair, made: list[str]) -> None:
    for worker in workers:
        found = listed(Client(worker, person="analyst"), "JSONRPC")
        assert not {task["id"] for task in found["tasks"]} & set(made)


@pytest.mark.parametrize("token", ["0=", "rubbish", "0=task-0-x,1=task-1-y", "7=task", "," * 300])
def test_a_token_that_nobody_gave_begins_anew(workers: Pair, made: list[str], token: str) -> None:
    found = listed(Client(workers[0]), "JSONRPC", pageToken=token)
    assert [task["id"] for task in found["tasks"]] == list(reversed(made))


def test_room_is_bounded_for_all_workers_together(workers: Pair) -> None:
    person, colleague = ("urn:a", "iss", "t", "ann"), ("urn:a", "iss", "t", "bob")
    one, other = (room_of(worker.lifecycle.siblings)("things", 100, 1) for worker in workers)
    assert [one.take(person, 20), other.take(person, 6), other.take(person, 5)] == [True, False, True]
    assert [other.take(colleague, 25), one.take(colleague, 1)] == [True, False]
    one.give_back(person, 20)
    assert (one.used, other.used) == (0, 30)
    assert other.take(person, 14)


def test_what_a_worker_had_taken_that_was_killed_is_given_back_by_the_one_in_its_place(workers: Pair) -> None:
    person = ("urn:a", "iss", "t", "ann")
    one, other = (room_of(worker.lifecycle.siblings)("places", 100, 1) for worker in workers)
    assert one.take(person, 20)
    assert other.take(person, 5)
    colleague = ("urn:a", "iss", "t", "bob")
    assert other.take(("urn:a", "iss", "t", "eve"), 20)
    assert not other.take(colleague, 20)
    again = room_of(workers[0].lifecycle.siblings)("places", 100, 1)
    assert (again.used, other.used) == (0, 25)
    assert again.take(colleague, 20)
