"""``serve``, ``root``, ``policy serve`` and ``reload`` as processes started from nothing."""

from __future__ import annotations

import json
import re
import shutil
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from contract.settings import SHIPPED_DATASETS
from tests.dataset_agent.command_line import CommandLine, Served, served
from tests.dataset_agent.slow_policies import SlowPolicies
from tests.running_agent import agent_home

pytestmark = pytest.mark.live

QUESTION = "Compare the recovery of batches B001 and B002"
PURIFICATION, CHROMATOGRAPHY, CLINICAL = "purification-batches", "chromatography-results", "clinical-private"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return agent_home(tmp_path_factory.mktemp("home")).home


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copytree(SHIPPED_DATASETS, tmp_path_factory.mktemp("world") / "datasets"))


@pytest.fixture(scope="module")
def serving(home: Path, datasets: Path) -> Iterator[Served]:
    with served("serve", HOME=str(home), DATASETS=str(datasets)) as process:
        yield process


@pytest.fixture(scope="module")
def command(home: Path, serving: Served) -> CommandLine:
    return CommandLine({"HOME": str(home), "URL": serving.url})


@pytest.fixture
def kept(datasets: Path, command: CommandLine) -> Iterator[Path]:
    """The datasets folder, put back and reloaded after the test."""
    before = {path: path.read_bytes() for path in datasets.rglob("*") if path.suffix in (".yaml", ".cedar")}
    yield datasets
    for path, data in before.items():
        path.write_bytes(data)
    assert command("reload", "--wait").code == 0


def generation(command: CommandLine) -> int:
    """Of the only process that serves from this home."""
    (served_now,) = command("reload", "--wait", "--json").json["agents"]
    return int(served_now["generation"])


def test_a_second_server_on_a_port_says_so_in_one_line(command: CommandLine, serving: Served) -> None:
    port = str(urlsplit(serving.url).port)
    run = command("serve", "--port", port)
    assert run.code == 1
    assert run.line == (
        f"error: cannot listen on 127.0.0.1:{port} (Address already in use): stop what uses it, "
        "or choose another --port and set DATASET_AGENT_URL to it where it is asked from"
    )


def test_an_edited_descriptor_is_served_after_a_reload(command: CommandLine, kept: Path) -> None:
    before = generation(command)
    old = command.ask(QUESTION).json
    descriptor = kept / PURIFICATION / "descriptor.yaml"
    descriptor.write_text(descriptor.read_text().replace(old["revision"], "a-newer-revision"))
    run = command("reload", "--wait")
    assert run.code == 0
    told = rf"serve on port \d+: generation {before + 1}\n  serves: {CHROMATOGRAPHY}, {CLINICAL}, {PURIFICATION}\n"
    assert re.fullmatch(told, run.out)
    new = command.ask(QUESTION).json
    assert (new["revision"], new["cache"]["outcome"]) == ("a-newer-revision", "MISS")
    assert new["result"]["rows"] == old["result"]["rows"]


def test_an_edit_that_cannot_be_used_leaves_a_dataset_as_it_was_and_is_said(command: CommandLine, kept: Path) -> None:
    (kept / CHROMATOGRAPHY / "descriptor.yaml").write_text("dataset: [")
    run = command("reload", "--wait")
    assert run.code == 1
    assert f"  serves: {CHROMATOGRAPHY}, {CLINICAL}, {PURIFICATION}\n" in run.out
    assert f"  served as before: {CHROMATOGRAPHY} ({CHROMATOGRAPHY}/descriptor.yaml: " in run.out
    assert run.err == f"error: served as before: {CHROMATOGRAPHY}\n"
    told = command("reload", "--wait", "--json")
    assert (told.code, told.json["ok"]) == (1, False)
    assert told.json["agents"][0]["invalid"] == {}
    assert list(told.json["agents"][0]["outdated"]) == [CHROMATOGRAPHY]
    assert command("reload").code == 0  # nobody waited, so nothing is known
    search = command("call", "search", "--as", "process_engineer", "--dataset", CHROMATOGRAPHY, "--arg", "query=x")
    assert search.code == 0
    doctor = command("doctor")
    assert doctor.code == 1
    assert "1 of its datasets are served as before an edit" in " ".join(doctor.out.split())


def test_a_dataset_whose_folder_is_gone_is_withdrawn_and_one_that_comes_broken_is_invalid(
    command: CommandLine, kept: Path
) -> None:
    gone = (kept / CHROMATOGRAPHY).rename(kept.parent / "gone")
    run = command("reload", "--wait")
    assert (run.code, f"  serves: {CLINICAL}, {PURIFICATION}\n" in run.out) == (0, True)
    (kept / CHROMATOGRAPHY).mkdir()
    (kept / CHROMATOGRAPHY / "descriptor.yaml").write_text("dataset: [")
    run = command("reload", "--wait")
    assert run.code == 1
    assert run.err == f"error: not served: {CHROMATOGRAPHY}\n"
    broken = command("call", "search", "--as", "process_engineer", "--dataset", CHROMATOGRAPHY, "--arg", "query=x")
    assert broken.code == 3
    assert broken.line.startswith("REFUSED DESCRIPTOR_INVALID")
    assert command.ask(QUESTION).json["verdict"] == "GRANTED"
    doctor = command("doctor")
    assert (doctor.code, CHROMATOGRAPHY in doctor.out) == (1, True)
    shutil.rmtree(kept / CHROMATOGRAPHY)
    gone.rename(kept / CHROMATOGRAPHY)


def test_an_agent_whose_datasets_are_all_broken_is_answered_for_in_one_line(home: Path, tmp_path: Path) -> None:
    world = Path(shutil.copytree(SHIPPED_DATASETS, tmp_path / "datasets"))
    for dataset in (PURIFICATION, CHROMATOGRAPHY, CLINICAL):
        (world / dataset / "descriptor.yaml").write_text("dataset: [")
    with served("serve", HOME=str(home), DATASETS=str(world)) as process:
        command = CommandLine({"HOME": str(home), "URL": process.url})
        run = command("call", "search", "--as", "process_engineer", "--dataset", PURIFICATION, "--arg", "query=x")
        assert run.code == 3
        assert run.line.startswith("REFUSED DESCRIPTOR_INVALID")
        card = command("card")
        assert (card.code, card.err) == (0, "")
        assert "It publishes no dataset." in card.out


def test_a_broken_template_is_told_with_file_and_line(command: CommandLine, kept: Path) -> None:
    template = kept / CHROMATOGRAPHY / "templates" / "search.sql"
    text = template.read_text()
    try:
        template.write_text("SELECT * FROM nowhere")
        (found,) = command("reload", "--wait", "--json").json["agents"]
    finally:
        template.write_text(text)
    assert "search.sql" in found["outdated"][CHROMATOGRAPHY]


@pytest.mark.parametrize("file", ["principals.yaml", "policies"])
def test_broken_policies_or_principals_leave_the_old_version_in_force(
    command: CommandLine, kept: Path, file: str
) -> None:
    before = generation(command)
    path = next((kept / file).glob("*.cedar")) if file == "policies" else kept / file
    path.write_text("permit [ this is: nothing")
    run = command("reload", "--wait")
    assert run.code == 1
    assert run.err.startswith(f"error: the old version stays in force: {path.name}") or path.name in run.err
    assert len(run.err.splitlines()) == 1
    assert f"generation {before}\n" in run.out
    told = command("reload", "--wait", "--json")
    assert (told.code, told.json["ok"], told.json["agents"][0]["generation"]) == (1, False, before)
    assert command.ask(QUESTION).json["verdict"] == "GRANTED"
    assert command("doctor").code == 1


def test_a_reload_that_nobody_waits_for_is_only_asked(command: CommandLine) -> None:
    before = generation(command)
    run = command("reload")
    assert run.code == 0
    assert re.fullmatch(r"serve on port \d+: asked to reload\n", run.out)
    assert generation(command) > before


def test_what_a_killed_process_left_behind_is_not_signalled(tmp_path: Path) -> None:
    run_file = tmp_path / "run" / "serve-1.json"  # process 1 is alive, and nobody's dataset agent
    run_file.parent.mkdir(mode=0o700)
    run_file.write_text('{"pid": 1, "port": 1, "began": 0, "generation": 1, "fault": null, "invalid": {}}')
    run_file.with_suffix(".lock").touch(mode=0o600)
    run = CommandLine({"HOME": str(tmp_path)})("reload", "--wait")
    assert run.code == 2
    assert run.line == f"error: nothing is served from {tmp_path}: start it with dataset-agent serve"
    assert list(run_file.parent.iterdir()) == []


def test_a_program_reads_where_it_is_served(home: Path) -> None:
    with served("policy", "serve", "--json", HOME=str(home)) as policies:
        policies.process.terminate()
        assert policies.end() == 0
        assert policies.process.stdout is not None
        told = json.loads(policies.process.stdout.read())
    assert told == {"url": policies.url, "pid": policies.process.pid}


def test_a_persons_token_is_answered_by_a_served_root(command: CommandLine, serving: Served) -> None:
    token = command("login", "--as", "analyst").out.strip()
    with served("root", **command.settings) as root:
        ask = {"url": f"{root.url}/ask", "json": {"question": QUESTION}, "timeout": 30.0}
        answer = httpx.post(**ask, headers={"Authorization": f"Bearer {token}"})
        assert httpx.post(**ask).status_code == 401
        reloaded = command("reload", "--wait").out
        assert sorted(line.split()[0] for line in reloaded.splitlines()) == ["root", "serve", "serves:"]
        root.process.send_signal(signal.SIGINT)
        assert root.end() == 130
    assert (answer.status_code, answer.json()["verdict"]) == (200, "GRANTED")


def test_sigterm_lets_a_request_under_way_end_and_takes_no_other(home: Path) -> None:
    with (
        SlowPolicies() as policies,
        served("serve", HOME=str(home), POLICY_URL=policies.url, POLICY_BUDGET="10") as agent,
    ):
        command = CommandLine({"HOME": str(home), "URL": agent.url})
        asking = command.start("ask", "--as", "analyst", QUESTION, "--json")
        assert policies.asked.wait(30)
        agent.process.send_signal(signal.SIGTERM)
        assert "requests under way get up to 20 s" in agent.line_with("stopping")
        _await_closed(agent.url)
        policies.answer.set()
        answer = asking.end()
        code = agent.end()
    assert (answer.code, answer.json["verdict"]) == (0, "GRANTED")
    assert answer.json["evidence"]["remote"] is not None
    assert (code, "Traceback" in "".join(agent.said)) == (0, False)
    assert not list((home / "run").glob(f"serve-{agent.process.pid}.*"))


def _await_closed(url: str) -> None:
    where = urlsplit(url)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            socket.create_connection((str(where.hostname), where.port or 0), 1).close()
        except OSError:
            return
        time.sleep(0.02)
    raise AssertionError("it still takes connections")


def test_a_served_policy_server_decides_and_its_end_is_indeterminate(command: CommandLine, home: Path) -> None:
    with served("policy", "serve", HOME=str(home)) as policies:
        assert command.ask(QUESTION, POLICY_URL=policies.url).json["verdict"] == "GRANTED"
        policies.process.terminate()
        assert policies.end() == 0
        run = command("ask", "--as", "analyst", QUESTION, POLICY_URL=policies.url)
    assert run.code == 4
    line, read = run.err.splitlines()
    assert line.startswith("INDETERMINATE EVALUATOR_UNAVAILABLE: ")
    assert read.startswith("read as: ")
    assert "dataset-agent policy serve" in line
