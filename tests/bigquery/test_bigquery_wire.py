"""What leaves for BigQuery and what comes of its answers, over real HTTP with the real client."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from contract.progress import Progress, reported_to
from contract.verdict import NotGranted, Reason
from queries.bigquery_options import Budget
from tests.authority_builder import make_authority
from tests.bigquery.bigquery_world import BUDGET, asked, engine_for, stored_template
from tests.bigquery.scripted_bigquery import serving
from tests.queries.world import DATASET, parameter

ONE = stored_template("SELECT COUNT(*) AS x FROM orders", "x:INT64")


async def test_a_job_is_sent_with_its_id_budget_labels_and_location() -> None:
    authority = make_authority(
        dataset=DATASET,
        capability="c",
        txn="txn-Ünïcode/1",
        decision_id="dec-0a1b",
        rows={"orders.region": {"one_of": ["EU"]}},
    )
    with serving() as service:
        engine = engine_for(service.url, timeout=20)
        document, execution = await asked(engine, ONE, authority=authority)
        await engine.close()
    (sent,) = service.inserts
    configuration, query = sent.body["configuration"], sent.body["configuration"]["query"]
    assert document["rows"] == [[1]]
    assert sent.path == "/bigquery/v2/projects/billing/jobs"
    assert sent.body["jobReference"] == {"projectId": "billing", "location": "EU", "jobId": execution.job_id}
    assert execution.job_id is not None and execution.job_id.startswith("dataset_agent_")
    assert (execution.engine, execution.bytes_processed, execution.bytes_billed) == ("bigquery", 2_048, 10_485_760)
    assert query["maximumBytesBilled"] == str(BUDGET)
    assert query["useLegacySql"] is False
    assert query["useQueryCache"] is False
    assert 0 < int(configuration["jobTimeoutMs"]) <= 20_000
    labels = configuration["labels"]
    assert labels["decision_id"] == "dec-0a1b"
    assert labels["transaction_id"].startswith("txn--n-code-1-")
    assert (labels["dataset"], labels["capability"]) == (DATASET, "c")
    assert "defaultDataset" not in query
    assert query["queryParameters"] == [
        {
            "name": "__s0",
            "parameterType": {"type": "ARRAY", "arrayType": {"type": "STRING"}},
            "parameterValue": {"arrayValues": [{"value": "EU"}]},
        },
    ]


async def test_a_mask_key_is_sent_only_where_something_is_hashed() -> None:
    loaded = stored_template("SELECT MAX(name) AS x FROM customers", "x:STRING")
    with serving(fields=[{"name": "x", "type": "STRING", "mode": "NULLABLE"}], rows=[["a"]]) as service:
        engine = engine_for(service.url)
        await asked(engine, loaded)
        await asked(engine, loaded, masks={"customers.name": "hash"})
        await engine.close()
    names = [
        [p["name"] for p in sent.body["configuration"]["query"].get("queryParameters", [])] for sent in service.inserts
    ]
    assert names == [[], ["__k"]]


async def test_every_query_is_a_job_of_its_own() -> None:
    with serving() as service:
        engine = engine_for(service.url)
        first, second = await asyncio.gather(asked(engine, ONE), asked(engine, ONE))
        await engine.close()
    assert first[1].job_id != second[1].job_id
    assert len(service.jobs) == 2


async def test_an_insert_whose_outcome_is_unknown_finds_the_same_job() -> None:
    with serving(lost=1) as service:
        engine = engine_for(service.url)
        document, execution = await asked(engine, ONE)
        await engine.close()
    assert document["rows"] == [[1]]
    assert len(service.inserts) == 2
    assert {sent.body["jobReference"]["jobId"] for sent in service.inserts} == {execution.job_id}
    assert list(service.jobs) == [execution.job_id]


@pytest.mark.parametrize("status", [(503, "backendError"), (500, "internalError"), (429, "rateLimitExceeded")])
async def test_a_passing_fault_of_an_insert_is_tried_again_under_the_same_id(status: tuple[int, str]) -> None:
    with serving(failing=[status]) as service:
        engine = engine_for(service.url)
        await asked(engine, ONE)
        await engine.close()
    assert len({sent.body["jobReference"]["jobId"] for sent in service.inserts}) == 1
    assert len(service.inserts) == 2


@pytest.mark.parametrize(
    "status", [(400, "invalidQuery"), (403, "accessDenied"), (403, "quotaExceeded"), (404, "notFound")]
)
async def test_a_lasting_fault_is_tried_once_and_told_in_fixed_words(
    status: tuple[int, str], caplog: pytest.LogCaptureFixture
) -> None:
    with serving(failing=[status]) as service, caplog.at_level(logging.DEBUG):
        engine = engine_for(service.url)
        with pytest.raises(NotGranted) as failed:
            await asked(engine, ONE)
        await engine.close()
    assert len(service.inserts) == 1
    assert (failed.value.reason, failed.value.message) == (Reason.EXECUTION_FAILED, "the query failed")
    assert failed.value.__cause__ is None
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("queries")]
    assert any(status[1] in line and "job dataset_agent_" in line for line in ours)
    assert not any("SECRET-CELL" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("bytesBilledLimitExceeded", Reason.BUDGET_EXCEEDED),
        ("responseTooLarge", Reason.RESULT_TOO_LARGE),
        ("timeout", Reason.EXECUTION_TIMEOUT),
        ("invalidQuery", Reason.EXECUTION_FAILED),
        ("backendError", Reason.EXECUTION_FAILED),
        ("a word of theirs", Reason.EXECUTION_FAILED),
    ],
)
async def test_a_job_that_failed_is_not_run_again_and_has_a_reason(word: str, reason: Reason) -> None:
    with serving(error={"reason": word, "message": "Division by zero: 'SECRET-CELL'"}) as service:
        engine = engine_for(service.url)
        with pytest.raises(NotGranted) as failed:
            await asked(engine, ONE)
        await engine.close()
    assert failed.value.reason is reason
    assert "SECRET" not in failed.value.message
    assert len(service.inserts) == 1


async def test_an_estimate_within_the_budget_comes_before_the_job_and_one_over_it_instead() -> None:
    with serving(estimate=BUDGET) as service:
        engine = engine_for(service.url, budget=Budget(BUDGET, estimate=True))
        await asked(engine, ONE)
        assert (len(service.dry_runs), len(service.inserts)) == (1, 1)
        service.script.estimate = BUDGET + 1
        with pytest.raises(NotGranted) as refused:
            await asked(engine, ONE)
        await engine.close()
    assert refused.value.reason is Reason.BUDGET_EXCEEDED
    assert (len(service.dry_runs), len(service.inserts)) == (2, 1)


async def test_a_capability_has_its_own_budget() -> None:
    with serving() as service:
        engine = engine_for(service.url, capabilities={"c": Budget(12_345_678)})
        await asked(engine, ONE)
        await engine.close()
    assert service.inserts[0].body["configuration"]["query"]["maximumBytesBilled"] == "12345678"
    assert service.dry_runs == []


async def test_more_rows_than_allowed_are_refused_before_a_second_page() -> None:
    with serving(rows=[[str(number)] for number in range(50)], page=10) as service:
        engine = engine_for(service.url)
        document, _ = await asked(engine, ONE, max_rows=50)
        pages = len([a for a in service.asked if "/queries/" in a.path])
        with pytest.raises(NotGranted) as refused:
            await asked(engine, ONE, max_rows=49)
        await engine.close()
    assert [row[0] for row in document["rows"]] == list(range(50))
    assert refused.value.reason is Reason.RESULT_TOO_LARGE
    assert len([a for a in service.asked if "/queries/" in a.path]) == pages + 1


@pytest.mark.parametrize(
    "fields",
    [
        [{"name": "y", "type": "INTEGER", "mode": "NULLABLE"}],
        [{"name": "x", "type": "STRING", "mode": "NULLABLE"}],
        [{"name": "x", "type": "INTEGER", "mode": "REPEATED"}],
        [],
    ],
)
async def test_other_columns_than_declared_are_no_result(fields: list[dict[str, Any]]) -> None:
    with serving(fields=fields, rows=[]) as service:
        engine = engine_for(service.url)
        with pytest.raises(NotGranted) as refused:
            await asked(engine, ONE)
        await engine.close()
    assert refused.value.reason is Reason.RESULT_INVALID


async def test_an_authority_for_another_version_sends_nothing() -> None:
    with serving() as service:
        engine = engine_for(service.url)
        with pytest.raises(NotGranted) as refused:
            await asked(engine, ONE, dataset_version="2.0.0")
        await engine.close()
    assert refused.value.reason is Reason.UNKNOWN_DATASET_REVISION
    assert service.asked == []


async def test_a_template_is_tried_by_a_dry_run_with_a_null_of_each_type() -> None:
    loaded = stored_template(
        "SELECT MAX(id) AS x FROM (SELECT id FROM orders WHERE region IN UNNEST(@r) AND amount > @a ORDER BY id LIMIT @n) AS o",
        "x:INT64",
        parameter("r:STRING[]", nullable=True),
        parameter("a:NUMERIC"),
        parameter("n:INT64", minimum=0, maximum=9),
    )
    with serving() as service:
        engine = engine_for(service.url)
        await engine.check(loaded)
        await engine.close()
    (sent,) = service.dry_runs
    given = {p["name"]: p for p in sent.body["configuration"]["query"]["queryParameters"]}
    assert given["a"]["parameterType"] == {"type": "NUMERIC"}
    assert given["a"]["parameterValue"].get("value") is None
    assert given["r"]["parameterType"]["arrayType"] == {"type": "STRING"}
    assert given["__n_r"]["parameterValue"] == {"value": "true"}
    assert given["n"]["parameterValue"] == {"value": "1"}  # LIMIT takes no NULL
    assert service.inserts == []


async def test_who_waits_hears_how_far_the_job_is() -> None:
    progress = Progress()
    with serving(runs=True) as service:
        engine = engine_for(service.url)
        with reported_to(progress):
            task = asyncio.create_task(asked(engine, ONE))
        while not service.jobs:
            await asyncio.sleep(0.005)
        (job,) = service.jobs.values()
        assert progress.percent() is None
        job["statistics"]["query"]["timeline"] = [
            {"elapsedMs": "10", "completedUnits": "1", "pendingUnits": "99", "activeUnits": "8"},
            {"elapsedMs": "20", "completedUnits": "30", "pendingUnits": "70", "activeUnits": "8"},
        ]
        while progress.percent() is None:
            await asyncio.sleep(0.005)
        assert progress.percent() == 30
        job["status"] = {"state": "DONE"}
        await task
        await engine.close()
