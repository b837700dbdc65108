"""``serve --workers 2`` as processes started from nothing: whichever worker a connection comes to, one agent answers."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from contract.call import ARROW_MEDIA_TYPE, GET_RESULTS, Operation
from contract.settings import SHIPPED_DATASETS, Settings
from grants.trust import load_trust
from tests.dataset_agent.command_line import CommandLine, Served, served
from tests.dataset_agent.slow_policies import SlowPolicies
from tests.remote_agent.long_tasks import CANCELED, DONE, fresh
from tests.remote_agent.long_world import Client, completion, state_of, until
from tests.running_agent import agent_home, decision_of, result_of

pytestmark = pytest.mark.live

QUESTION = "Compare the recovery of batches B001 and B002"
INPUT, NOT_FOUND = "TASK_STATE_INPUT_REQUIRED", -32001
SECONDS = 60.0
_ONE = httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=25)


@dataclass
class Pinned(Client):
    """A client with one connection, which stays with the worker it came to."""

    http: httpx.Client = field(default_factory=lambda: httpx.Client(limits=_ONE, timeout=SECONDS))

    def post(self, method: str, params: dict[str, Any], headers: dict[str, str]) -> dict[str, Any]:
        verb, url, body = self._request(method, params)
        return self._read(self.http.request(verb, url, json=body, headers=headers))

    def listed(self) -> list[str]:
        body = {"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {"pageSize": 100}}
        told = self.http.post(self.agent.url, json=body, headers=self.headers()).json()["result"]
        return [task["id"] for task in told["tasks"]]

    def in_arrow(self) -> dict[str, Any]:
        """A call whose result is fetched."""
        part = fresh(self)
        params = self.params(part) | {"configuration": {"acceptedOutputModes": [ARROW_MEDIA_TYPE]}}
        return self.post("SendMessage", params, self.headers(self.leaf_for(part)))

    def fetch(self, task_id: str) -> httpx.Response:
        headers = self.headers(self.leaf(Operation(GET_RESULTS, task=task_id)))
        return self.http.get(f"{self.agent.url}/results/{task_id}", headers=headers)


def worker_of(task: dict[str, Any]) -> int:
    found = re.fullmatch(r"task-([01])-[0-9a-f]{32}", task["id"])
    assert found is not None, task["id"]
    return int(found[1])


def pinned(settings: Settings, url: str) -> list[Pinned]:
    """A client for each worker, by what the ids of their tasks say."""
    found: dict[int, Pinned] = {}
    while len(found) < 2:
        client = Pinned(SimpleNamespace(settings=settings, url=url))  # type: ignore[arg-type]
        if found.setdefault(worker_of(client.send(fresh(client))), client) is not client:
            client.http.close()
    return [found[0], found[1]]


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    datasets = shutil.copytree(SHIPPED_DATASETS, tmp_path_factory.mktemp("world") / "datasets")
    return agent_home(tmp_path_factory.mktemp("home"), datasets=datasets)


@pytest.fixture(scope="module")
def serving(settings: Settings) -> Iterator[Served]:
    with served("serve", "--workers", "2", HOME=str(settings.home), DATASETS=str(settings.datasets)) as process:
        yield process


@pytest.fixture(scope="module")
def command(settings: Settings, serving: Served) -> CommandLine:
    return CommandLine({"HOME": str(settings.home), "URL": serving.url, "DATASETS": str(settings.datasets)})


@pytest.fixture
def clients(settings: Settings, serving: Served) -> Iterator[list[Pinned]]:
    made = pinned(settings, serving.url)
    with ExitStack() as stack:
        for client in made:
            stack.callback(client.http.close)
        yield made


def readiness(url: str) -> dict[str, Any]:
    return dict(httpx.get(f"{url}/readyz", timeout=SECONDS).json())


def children(process: int) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def worker_pids(home: Path) -> list[int]:
    (file,) = (home / "run").glob("serve-*.json")
    return list(json.loads(file.read_text())["worker_pids"])


def all_serve(url: str) -> Callable[[], bool]:
    return lambda: readiness(url)["workers_serving"] == 2


@pytest.mark.parametrize(("begins", "ends"), [(0, 1), (1, 0)])
def test_a_task_is_followed_up_shown_and_ended_through_the_other(clients: list[Pinned], begins: int, ends: int) -> None:
    here, there = clients[begins], clients[ends]
    task = here.send(here.call({"batch_a": "B031"}))
    assert (worker_of(task), state_of(there.get(task["id"]))) == (begins, INPUT)
    with there.followed(task["id"], rows=False) as events:
        assert state_of(events.next()["task"]) == INPUT
    done = there.send(completion(task, batch_b="B032"), task=task)
    assert (done["id"], state_of(done), result_of(done)["row_count"]) == (task["id"], DONE, 2)
    waiting = here.send(here.call({"batch_a": "B033"}))
    assert state_of(there.cancel(waiting["id"])) == CANCELED
    assert state_of(here.get(waiting["id"])) == CANCELED


def test_the_tasks_of_both_are_one_list(clients: list[Pinned]) -> None:
    made = [clients[number % 2].send(fresh(clients[0]))["id"] for number in range(4)]
    for client in clients:
        assert client.listed()[:4] == list(reversed(made))


def test_a_result_that_waits_is_fetched_through_the_other_and_by_its_owner_alone(clients: list[Pinned]) -> None:
    here, there = clients
    task = here.in_arrow()
    assert [client.fetch(task["id"]).status_code for client in (there, here)] == [200, 200]
    assert there.fetch(task["id"]).content == here.fetch(task["id"]).content
    for client in clients:
        stranger = Pinned(client.agent, person="analyst", http=client.http)
        assert (stranger.fetch(task["id"]).status_code, stranger.get(task["id"])["code"]) == (404, NOT_FOUND)


def test_a_leaf_is_spent_once_whoever_is_asked_at_the_same_time(clients: list[Pinned]) -> None:
    for _ in range(5):
        part = fresh(clients[0])
        leaf = clients[0].leaf_for(part)
        with ThreadPoolExecutor(2) as pool:
            tasks = list(pool.map(lambda client, part=part, leaf=leaf: client.send(part, leaf), clients))
        reasons = Counter(decision_of(task)["reason"] for task in tasks)
        assert reasons == {"PRINCIPAL_AUTHORIZED": 1, "GRANT_REPLAYED": 1}


def test_what_one_worker_answered_is_a_hit_at_the_other(clients: list[Pinned]) -> None:
    part = fresh(clients[0])
    outcomes = [json.dumps(client.send(part)) for client in clients]
    assert ['"outcome": "HIT"' in outcome for outcome in outcomes] == [False, True]


def test_when_a_reload_was_waited_for_both_serve_what_was_edited(
    clients: list[Pinned], command: CommandLine, settings: Settings
) -> None:
    descriptor = settings.datasets / "purification-batches" / "descriptor.yaml"
    text = descriptor.read_text()
    (revision,) = re.findall(r"^revision: (\S+)$", text, re.M)
    try:
        for turn in range(3):
            descriptor.write_text(text.replace(revision, f"edited-{turn}"))
            run = command("reload", "--wait", "--json")
            assert (run.code, len(run.json["agents"])) == (0, 1)
            for client in clients:
                fresher = Pinned(client.agent, http=client.http)  # reads the descriptor anew, as the grant names it
                assert decision_of(fresher.send(fresh(fresher)))["reason"] == "PRINCIPAL_AUTHORIZED"
                old = client.send(fresh(client))
                assert decision_of(old)["reason"] == "UNKNOWN_DATASET_REVISION"
    finally:
        descriptor.write_text(text)
    assert command("reload", "--wait").code == 0


def test_what_is_broken_is_told_once_for_both_and_by_each(
    clients: list[Pinned], command: CommandLine, settings: Settings
) -> None:
    principals = settings.datasets / "principals.yaml"
    text = principals.read_text()
    try:
        principals.write_text("principals: [")
        run = command("reload", "--wait")
        assert (run.code, run.err.startswith("error: the old version stays in force: ")) == (1, True)
        for client in clients:
            assert client.http.get(f"{client.agent.url}/readyz").json()["reload"] == "refused"
            assert state_of(client.send(fresh(client))) == DONE
    finally:
        principals.write_text(text)
    assert command("reload", "--wait").code == 0
    assert "  workers: 2 of 2 serve\n" in command("reload", "--wait").out


def test_a_hangup_of_the_process_that_was_announced_reloads_both(
    clients: list[Pinned], serving: Served, command: CommandLine
) -> None:
    (before,) = command("reload", "--wait", "--json").json["agents"]
    os.kill(before["pid"], signal.SIGHUP)
    assert before["pid"] == serving.process.pid

    def generation(client: Pinned) -> int:
        return int(client.http.get(f"{client.agent.url}/readyz").json()["generation"])

    until(lambda: all(generation(client) > before["generation"] for client in clients))


def test_metrics_are_of_both(clients: list[Pinned]) -> None:
    told = clients[0].http.get(f"{clients[0].agent.url}/metrics").text
    assert re.search(r"^dataset_agent_processes 2(\.0)?$", told, re.M), told


def test_a_killed_worker_is_replaced_its_tasks_are_gone_and_no_others(
    clients: list[Pinned], settings: Settings, serving: Served, command: CommandLine
) -> None:
    lost, kept = (client.send(client.call({"batch_a": "B041"})) for client in clients)
    large = clients[0].in_arrow()
    before = readiness(serving.url)["workers_restarted"]
    os.kill(worker_pids(settings.home)[0], signal.SIGKILL)
    assert "ended by SIGKILL, its tasks with it; another is started" in serving.line_with("worker 0")
    there = clients[1]
    assert there.get(lost["id"])["code"] == NOT_FOUND
    assert there.send(completion(lost, batch_b="B042"), task=lost)["code"] == NOT_FOUND
    gone = there.fetch(large["id"])
    assert (gone.status_code, gone.json()["decision"]["reason"]) == (404, "RESULT_NOT_FOUND")
    assert state_of(there.send(completion(kept, batch_b="B042"), task=kept)) == DONE
    until(all_serve(serving.url))
    assert readiness(serving.url)["workers_restarted"] == before + 1
    again = pinned(settings, serving.url)
    assert again[0].get(lost["id"])["code"] == NOT_FOUND
    assert state_of(again[1].get(kept["id"])) == state_of(again[0].get(kept["id"])) == DONE
    doctor = " ".join(command("doctor").out.split())
    assert "of its workers ended and were started again" in doctor


def test_a_worker_that_is_told_to_stop_ends_and_another_is_started(serving: Served, settings: Settings) -> None:
    until(all_serve(serving.url))
    os.kill(worker_pids(settings.home)[1], signal.SIGTERM)
    assert "ended with exit code 0" in serving.line_with("ended")
    until(all_serve(serving.url))


def test_sigterm_lets_what_is_under_way_at_each_end(tmp_path: Path) -> None:
    settings = agent_home(tmp_path / "home")
    with (
        SlowPolicies() as policies,
        served("serve", HOME=str(settings.home), POLICY_URL=policies.url, POLICY_BUDGET="10", WORKERS="2") as agent,
    ):
        command = CommandLine({"HOME": str(settings.home), "URL": agent.url})
        asking = [command.start("ask", "--as", "analyst", QUESTION, "--json") for _ in range(6)]
        until(lambda: policies.asked.is_set())
        time.sleep(1.0)  # the others are on their way
        pids = children(agent.process.pid)
        agent.process.send_signal(signal.SIGTERM)
        agent.line_with("stopping")
        policies.answer.set()
        answers = [run.end() for run in asking]
        assert agent.end() == 0
    assert {answer.json["verdict"] for answer in answers if answer.code == 0} == {"GRANTED"}
    assert [pid for pid in pids if Path(f"/proc/{pid}").exists()] == []
    assert not list((settings.home / "run").iterdir())


def test_workers_end_when_the_process_that_started_them_is_killed(tmp_path: Path) -> None:
    settings = agent_home(tmp_path / "home")
    with served("serve", "--workers", "2", HOME=str(settings.home)) as agent:
        pids = children(agent.process.pid)
        assert set(pids) > set(worker_pids(settings.home))  # and the writer of the ledger
        agent.process.kill()
        agent.line_with("the process that started it is gone")
        until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))


def test_what_keeps_them_from_opening_is_said_once_as_by_one(tmp_path: Path) -> None:
    runs = [CommandLine({"HOME": str(tmp_path)})("serve", "--port", "0", "--workers", number) for number in ("1", "2")]
    assert [run.code for run in runs] == [1, 1]
    assert runs[0].line == runs[1].line


def test_a_port_that_workers_have_is_taken_for_others_with_workers_too(serving: Served, command: CommandLine) -> None:
    port = str(urlsplit(serving.url).port)
    for workers in ("1", "2"):
        run = command("serve", "--port", port, "--workers", workers)
        assert (run.code, run.line.startswith(f"error: cannot listen on 127.0.0.1:{port}")) == (1, True)


def test_only_this_user_may_enter_where_they_hand_over(serving: Served, settings: Settings) -> None:
    assert load_trust(settings.trust_path).agent(settings.agent_id) is not None
    pid = min(children(serving.process.pid))
    names = re.findall(r"\S+/worker-[01]$", Path(f"/proc/{pid}/net/unix").read_text(), re.M)
    folders = {Path(name).parent for name in names if Path(name).exists()}
    assert folders
    assert {folder.stat().st_mode & 0o777 for folder in folders} == {0o700}
