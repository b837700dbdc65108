"""Whatever worker a connection comes to, a task is answered for by the one that has it, and only to its owner."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Iterator

import httpx
import pytest

from contract.call import GET_RESULTS, Operation
from tests.remote_agent.long_tasks import CANCELED, DONE, WORKING, detached, ended, fresh, rows_of
from tests.remote_agent.long_world import BINDINGS, Client, Held, completion, held, proposal_of, state_of, until
from tests.remote_agent.two_workers import Pair, two_workers
from tests.running_agent import agent_home, decision_of, result_of

pytestmark = pytest.mark.live

INPUT = "TASK_STATE_INPUT_REQUIRED"
NOT_FOUND = -32001


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with two_workers(agent_home(tmp_path_factory.mktemp("home")), count=4) as pair:
        yield pair


@pytest.fixture(params=BINDINGS)
def here(workers: Pair, request: pytest.FixtureRequest) -> Client:
    """A client whose connections come to the worker that begins its tasks."""
    return Client(workers[0], request.param)


@pytest.fixture
def there(workers: Pair, here: Client) -> Client:
    """The same person on the same binding, whose connections come to the other."""
    return Client(workers[1], here.binding)


@pytest.fixture
def holding(workers: Pair) -> Iterator[Held]:
    with held(workers[0]) as executions:
        yield executions


def test_the_id_of_a_task_names_its_worker(here: Client, there: Client) -> None:
    for client, number in ((here, 0), (there, 1)):
        task = client.send(fresh(client))
        assert re.fullmatch(rf"task-{number}-[0-9a-f]{{32}}", task["id"])


def test_a_task_that_runs_is_shown_followed_and_ended_through_the_other(
    here: Client, there: Client, holding: Held
) -> None:
    task = detached(here, holding)
    holding.percent = 40.0
    assert state_of(there.get(task["id"])) == WORKING
    with there.followed(task["id"]) as events:
        assert events.next()["task"]["id"] == task["id"]
        holding.release()
        last = events.rest()
    assert (last.state, json.loads(last.raw("result"))["row_count"], holding.began) == (DONE, 2, 1)
    found = ended(there, task["id"])
    assert (state_of(found), found) == (DONE, here.get(task["id"]))
    assert len(rows_of(there.agent, task["id"])) == 2  # the call and the subscription, in the one ledger


def test_a_task_is_cancelled_through_the_other_and_its_query_stops(here: Client, there: Client, holding: Held) -> None:
    task = detached(here, holding)
    assert state_of(there.cancel(task["id"])) == CANCELED
    assert (holding.stopped, state_of(here.get(task["id"]))) == (1, CANCELED)
    assert there.cancel(task["id"])["code"] == -32002


def test_a_follower_who_leaves_is_left_by_the_worker_that_has_the_task(
    here: Client, there: Client, holding: Held
) -> None:
    with here.sent(fresh(here)) as events:
        task_id = events.next()["task"]["id"]
        with there.followed(task_id, rows=False) as following:
            following.next()
        assert holding.stopped == 0  # the call itself goes on: its sender still waits
    until(lambda: holding.stopped == 1)


def test_a_call_is_completed_in_its_task_through_the_other(here: Client, there: Client) -> None:
    task = here.send(here.call({"batch_a": "B021"}))
    assert (state_of(task), proposal_of(task)["missing"][0]["name"]) == (INPUT, "batch_b")
    done = there.send(completion(task, batch_b="B022"), task=task)
    assert (done["id"], state_of(done)) == (task["id"], DONE)
    assert [row[0] for row in result_of(done)["rows"]] == ["B021", "B022"]
    with there.sent(completion(task, batch_b="B023"), task=task) as events:
        assert events.next()["code"] == -32004  # it has ended


def test_what_is_followed_up_as_a_stream_is_too(here: Client, there: Client) -> None:
    task = here.send(here.call({"batch_a": "B024"}))
    with there.sent(completion(task, batch_b="B025"), task=task) as events:
        assert events.rest().state == DONE


def test_another_person_finds_nothing_through_either(here: Client, there: Client, holding: Held) -> None:
    task = detached(here, holding)
    for client in (here, there):
        assert client.get(task["id"], person="analyst")["code"] == NOT_FOUND
        assert client.cancel(task["id"], person="analyst")["code"] == NOT_FOUND
        stranger = Client(client.agent, client.binding, "analyst")
        with stranger.followed(task["id"]) as events:
            assert events.next()["code"] == NOT_FOUND
    assert holding.stopped == 0


def test_rows_that_wait_are_fetched_through_the_other_under_a_leaf_for_them(
    here: Client, there: Client, holding: Held
) -> None:
    task = detached(here, holding)
    holding.release()
    ended(here, task["id"])
    url = f"{there.agent.url}/results/{task['id']}"

    def fetch(client: Client, **more: str) -> httpx.Response:
        leaf = client.leaf(Operation(GET_RESULTS, task=task["id"]))
        return httpx.get(url, headers=client.headers(leaf) | more, timeout=20)

    whole, part = fetch(there), fetch(there, Range="bytes=3-9")
    assert (whole.status_code, whole.json()["row_count"]) == (200, 2)
    assert (part.status_code, part.content) == (206, whole.content[3:10])
    assert part.headers["content-range"] == f"bytes 3-9/{len(whole.content)}"
    stranger = fetch(Client(there.agent, person="analyst"))
    assert (stranger.status_code, stranger.json()["decision"]["reason"]) == (404, "RESULT_NOT_FOUND")
    assert httpx.get(url, headers=there.headers(), timeout=20).status_code == 403
    assert httpx.get(url, timeout=20).status_code == 401


def test_a_leaf_for_a_task_of_another_worker_is_spent_where_the_task_is_and_once(
    here: Client, there: Client, holding: Held
) -> None:
    task = detached(here, holding)
    holding.release()
    ended(here, task["id"])
    leaf = here.leaf(Operation(GET_RESULTS, task=task["id"]))
    fetched = [
        httpx.get(f"{client.agent.url}/results/{task['id']}", headers=client.headers(leaf), timeout=20)
        for client in (there, here, there)
    ]
    assert [answer.status_code for answer in fetched] == [200, 403, 403]
    assert {answer.json()["decision"]["reason"] for answer in fetched[1:]} == {"GRANT_REPLAYED"}


def test_a_leaf_works_at_one_of_them_only(here: Client, there: Client) -> None:
    part = fresh(here)
    leaf = here.leaf_for(part)
    tasks = [client.send(part, leaf) for client in (here, there, here)]
    assert [decision_of(task)["reason"] for task in tasks] == [
        "PRINCIPAL_AUTHORIZED",
        "GRANT_REPLAYED",
        "GRANT_REPLAYED",
    ]


@pytest.mark.parametrize("task_id", ["task-2-" + "0" * 32, "task-9-" + "0" * 32, "task-1-" + "0" * 32, "task-x"])
def test_a_task_of_a_worker_that_has_ended_is_not_found_like_any_other(here: Client, task_id: str) -> None:
    """Number 2 has no socket; number 9 is no worker."""
    for found in (
        here.get(task_id),
        here.cancel(task_id),
        here.send(completion({"id": task_id}), task=_place(task_id)),
    ):
        assert found["code"] == NOT_FOUND
    with here.followed(task_id) as events:
        assert events.next()["code"] == NOT_FOUND
    leaf = here.leaf(Operation(GET_RESULTS, task=task_id))
    answer = httpx.get(f"{here.agent.url}/results/{task_id}", headers=here.headers(leaf), timeout=20)
    assert (answer.status_code, answer.json()["decision"]["reason"]) == (404, "RESULT_NOT_FOUND")
    assert answer.json()["receipt"] is not None


def _place(task_id: str) -> dict[str, str]:
    return {"id": task_id, "contextId": "ctx"}


@pytest.fixture
def silent(workers: Pair) -> Iterator[None]:
    """In the place of number 3 something takes connections and breaks each off."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(workers[0].lifecycle.siblings.socket_of(3)))
        listener.listen()

        def break_off() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                connection.recv(65_536)
                connection.close()

        thread = threading.Thread(target=break_off)
        thread.start()
        yield
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
    workers[0].lifecycle.siblings.socket_of(3).unlink()


@pytest.mark.usefixtures("silent")
def test_a_worker_that_breaks_off_is_a_fault_that_passes_and_no_verdict(workers: Pair) -> None:
    client = Client(workers[0])
    body = {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "task-3-" + "0" * 32}}
    answer = httpx.post(client.agent.url, json=body, headers=client.headers(), timeout=20)
    assert (answer.status_code, answer.json()["code"]) == (503, "remote_agent.worker.unanswered")
    assert answer.json()["retryable"] is True
    body = {"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {}}
    assert httpx.post(client.agent.url, json=body, headers=client.headers(), timeout=20).status_code == 503


def test_the_private_socket_gives_nobody_more_than_the_port(here: Client, holding: Held) -> None:
    task = detached(here, holding)
    place = here.agent.lifecycle.siblings.socket_of(0)
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(place)), base_url="http://worker") as http:
        assert http.get(f"/tasks/{task['id']}", headers={"A2A-Version": "1.0"}).status_code == 401
        found = http.get(f"/tasks/{task['id']}", headers=here.headers(person="analyst"))
        assert found.status_code == 404


def test_a_request_that_was_handed_over_is_handed_on_no_further(here: Client, there: Client, holding: Held) -> None:
    task = detached(here, holding)
    place = there.agent.lifecycle.siblings.socket_of(1)
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(place)), base_url="http://worker") as http:
        assert http.get(f"/tasks/{task['id']}", headers=there.headers()).status_code == 404
