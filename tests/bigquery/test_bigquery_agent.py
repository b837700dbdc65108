"""A dataset agent whose dataset lies in BigQuery: asked over A2A, with the job in the signed proof."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from contract.call import Operation
from contract.canonical import sha256_hex
from queries.bigquery_options import label
from tests.bigquery.bigquery_folder import CAPABILITY, DATASET, FIELDS, ROW, datasets_in_bigquery
from tests.bigquery.scripted_bigquery import ScriptedBigQuery, serving
from tests.running_agent import Asker, RunningAgent, agent_home, decision_of, message, result_of, running_agent

PROGRAM = """import json, sys, urllib.request
url, headers, body = json.load(sys.stdin)
urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers)).read()
"""


@pytest.fixture(scope="module")
def service() -> Iterator[ScriptedBigQuery]:
    with serving(fields=FIELDS, rows=[ROW]) as running:
        yield running


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory, service: ScriptedBigQuery) -> Iterator[RunningAgent]:
    folder = tmp_path_factory.mktemp("agent")
    datasets = datasets_in_bigquery(
        folder, impersonate={"process-engineer": "reader@data-project.iam.gserviceaccount.com"}
    )
    settings = agent_home(folder / "home", datasets=datasets, bigquery_emulator=service.url)
    with running_agent(settings) as served:
        yield served


@pytest.fixture
def asker(agent: RunningAgent) -> Asker:
    return Asker(agent.settings, agent.url)


def statement_of(task: dict[str, Any]) -> dict[str, Any]:
    """The payload of the first envelope that the task's artifacts hold."""

    def found(value: Any) -> dict[str, Any] | None:
        if isinstance(value, dict):
            if "payloadType" in value and "payload" in value:
                return dict(json.loads(base64.b64decode(value["payload"])))
            return next((item for held in value.values() if (item := found(held)) is not None), None)
        if isinstance(value, list):
            return next((item for held in value if (item := found(held)) is not None), None)
        if isinstance(value, str) and len(value) > 200:
            try:
                return found(json.loads(base64.b64decode(value, validate=True)))
            except ValueError:
                return None
        return None

    statement = found(task["artifacts"])
    assert statement is not None
    return statement


def test_the_dataset_is_served_without_any_file_of_its_own(agent: RunningAgent, service: ScriptedBigQuery) -> None:
    assert dict(agent.lifecycle.service.world.invalid) == {}
    assert [sent.body["configuration"]["dryRun"] for sent in service.dry_runs][:1] == [True]


def test_an_answer_carries_the_job_and_its_bytes_in_the_signed_proof(asker: Asker, service: ScriptedBigQuery) -> None:
    task = asker.ask(DATASET, CAPABILITY, {"batch_id": "B001"})
    assert decision_of(task)["verdict"] == "GRANTED", task
    document, told = result_of(task), statement_of(task)["predicate"]
    assert document["rows"][0][:2] == ["B001", 1]
    assert document["rows"][0][4] == "2024-03-31T01:00:00.000000Z"
    sent = service.inserts[-1].body
    assert told["execution"]["engine"] == "bigquery"
    assert told["execution"]["job_id"] == sent["jobReference"]["jobId"]
    assert (told["execution"]["bytes_processed"], told["execution"]["bytes_billed"]) == (2_048, 10_485_760)
    labels = sent["configuration"]["labels"]
    assert labels["decision_id"] == told["decision"]["decision_id"]
    assert labels["transaction_id"] == label(told["grant"]["txn"])
    assert sent["configuration"]["query"]["maximumBytesBilled"] == str(20 * 2**20)


def test_a_hit_tells_of_the_earlier_job(asker: Asker, service: ScriptedBigQuery) -> None:
    first = asker.ask(DATASET, CAPABILITY, {"batch_id": "B002"})
    jobs = len(service.inserts)
    second = asker.ask(DATASET, CAPABILITY, {"batch_id": "B002"})
    told = [statement_of(task)["predicate"]["execution"] for task in (first, second)]
    assert told[0] == told[1]
    assert len(service.inserts) == jobs


def test_a_query_over_its_budget_is_a_refusal_of_its_own(asker: Asker, service: ScriptedBigQuery) -> None:
    service.script.error = {"reason": "bytesBilledLimitExceeded", "message": "Query exceeded limit for bytes billed"}
    try:
        task = asker.ask(DATASET, CAPABILITY, {"batch_id": "B003"})
    finally:
        service.script.error = None
    assert (decision_of(task)["verdict"], decision_of(task)["reason"]) == ("REFUSED", "BUDGET_EXCEEDED")
    assert "artifacts" not in task


def test_a_class_without_an_account_is_refused(agent: RunningAgent, service: ScriptedBigQuery) -> None:
    jobs = len(service.inserts)
    task = Asker(agent.settings, agent.url, principal="analyst").ask(DATASET, CAPABILITY, {"batch_id": "B004"})
    assert (decision_of(task)["verdict"], decision_of(task)["reason"]) == ("REFUSED", "INSUFFICIENT_PRIVILEGE")
    assert len(service.inserts) == jobs


def test_a_client_that_is_killed_takes_its_job_with_it(
    agent: RunningAgent, asker: Asker, service: ScriptedBigQuery
) -> None:
    service.script.runs = True
    call = asker.call(DATASET, CAPABILITY, {"batch_id": "B005"})
    grant = asker.grant(asker.scope(DATASET, CAPABILITY), Operation("SendMessage", call_hash=sha256_hex(call)))
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message(call)}}
    headers = asker.headers(grant) | {"Content-Type": "application/json"}
    before, rows = len(service.jobs), len(agent.rows())
    try:
        with subprocess.Popen([sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, text=True) as process:
            assert process.stdin is not None
            try:
                json.dump([agent.url + "/", headers, body], process.stdin)
                process.stdin.close()
                service.until(lambda: len(service.jobs) > before)
            finally:
                process.kill()
        job = list(service.jobs.values())[-1]
        service.until(lambda: job["status"]["state"] == "DONE")
        service.until(lambda: len(agent.rows()) > rows)
    finally:
        service.script.runs = False
    assert job["status"]["errorResult"]["reason"] == "stopped"
    assert str(agent.rows()[-1].cells["reason"]) == "CANCELLED"


def test_a_dataset_in_bigquery_without_the_extra_says_which_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from contract.errors import DatasetAgentError
    from contract.settings import Settings
    from control_plane.registry import load_registry
    from remote_agent.engines import open_engine

    registry = load_registry(datasets_in_bigquery(tmp_path))
    manifest = registry.datasets[DATASET]
    for name in [name for name in sys.modules if name.startswith("queries.bigquery_")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "google.cloud.bigquery", None)
    with pytest.raises(DatasetAgentError) as fault:
        open_engine(manifest, tmp_path, Settings(home=tmp_path), bytes(32), tmp_path)
    assert fault.value.message == f"dataset {DATASET} lies in BigQuery: install dataset-agent[bigquery]"
