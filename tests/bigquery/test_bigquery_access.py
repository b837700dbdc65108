"""As whom a query runs: the agent's own account, or the service account of the caller's class, or not at all."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from google.auth import impersonated_credentials
from google.auth.credentials import AnonymousCredentials
from google.oauth2.credentials import Credentials

from contract.errors import Category, DatasetAgentError
from contract.verdict import NotGranted, Reason
from queries.bigquery_access import Access
from queries.bigquery_engine import BigQueryEngine
from queries.bigquery_options import BigQueryOptions, Budget, label
from tests.bigquery.bigquery_world import asked, engine_for, options_for, stored_template
from tests.bigquery.scripted_bigquery import ScriptedBigQuery, serving

ONE = stored_template("SELECT COUNT(*) AS x FROM orders", "x:INT64")
READER = "reader@data-project.iam.gserviceaccount.com"
AUDITOR = "auditor@data-project.iam.gserviceaccount.com"
ACCOUNTS = {"process_engineer": READER, "external_auditor": AUDITOR}


def impersonating(service: ScriptedBigQuery) -> BigQueryEngine:
    options = options_for(service.url, accounts=ACCOUNTS)
    tokens = service.url + "/v1/projects/-/serviceAccounts/{}:generateAccessToken"
    access = Access(options, own=lambda: Credentials(token="the-agents-own"), tokens=tokens)
    return engine_for(service.url, accounts=ACCOUNTS, access=access)


async def test_a_query_runs_as_the_account_of_the_callers_class() -> None:
    with serving() as service:
        engine = impersonating(service)
        await asked(engine, ONE, principal_class="process_engineer")
        await asked(engine, ONE, principal_class="external_auditor")
        await engine.close()
    assert [sent.authorization for sent in service.inserts] == [f"Bearer as-{READER}", f"Bearer as-{AUDITOR}"]
    tokens = [a for a in service.asked if a.path.startswith("/v1/")]
    assert {token.authorization for token in tokens} == {"Bearer the-agents-own"}
    assert {tuple(token.body["scope"]) for token in tokens} == {("https://www.googleapis.com/auth/bigquery",)}


async def test_a_class_without_an_account_is_refused_and_nothing_is_sent() -> None:
    with serving() as service:
        engine = impersonating(service)
        with pytest.raises(NotGranted) as refused:
            await asked(engine, ONE, principal_class="analyst")
        await engine.close()
    assert refused.value.reason is Reason.INSUFFICIENT_PRIVILEGE
    assert service.asked == []


async def test_a_template_is_tried_as_each_account_until_one_may() -> None:
    with serving(forbidden={f"Bearer as-{AUDITOR}"}) as service:
        engine = impersonating(service)
        await engine.check(ONE)
        assert [sent.authorization for sent in service.dry_runs] == [f"Bearer as-{AUDITOR}", f"Bearer as-{READER}"]
        service.script.forbidden.add(f"Bearer as-{READER}")
        with pytest.raises(DatasetAgentError, match=r"shop/templates/test\.sql: BigQuery does not accept"):
            await engine.check(ONE)
        await engine.close()


async def test_what_bigquery_does_not_take_is_the_templates_fault() -> None:
    with serving(broken_dry_run=(400, "invalidQuery", "Unrecognized name: x at [1:8]\nmore")) as service:
        engine = engine_for(service.url)
        with pytest.raises(
            DatasetAgentError, match=r"test\.sql: BigQuery does not accept the query: Unrecognized name"
        ):
            await engine.check(ONE)
        await engine.close()


async def test_other_columns_than_declared_are_the_templates_fault() -> None:
    with serving(fields=[{"name": "x", "type": "STRING", "mode": "REPEATED"}]) as service:
        engine = engine_for(service.url)
        with pytest.raises(DatasetAgentError, match=r"BigQuery would return x ARRAY<STRING>; declared is x INT64"):
            await engine.check(ONE)
        await engine.close()


async def test_a_service_that_is_not_there_is_a_fault_of_its_own() -> None:
    with serving() as service:
        url = service.url
    engine = engine_for(url, timeout=0.3)
    with pytest.raises(DatasetAgentError) as fault:
        await engine.check(ONE)
    await engine.close()
    assert (fault.value.category, fault.value.code) == (Category.UNAVAILABLE, "queries.bigquery.unreachable")


def test_without_credentials_the_fault_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "absent.json"))
    access = Access(BigQueryOptions("billing", "EU", Budget(1)))
    with pytest.raises(DatasetAgentError, match="GOOGLE_APPLICATION_CREDENTIALS") as fault:
        access.client(None)
    assert fault.value.category is Category.CONFIGURATION


def test_application_default_credentials_are_used_and_impersonated(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    person: dict[str, Any] = {"type": "authorized_user", "client_id": "i", "client_secret": "s", "refresh_token": "r"}
    (tmp_path / "adc.json").write_text(json.dumps(person | {"quota_project_id": "billing"}))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "adc.json"))
    monkeypatch.setenv("BIGQUERY_EMULATOR_HOST", "http://elsewhere.example")
    access = Access(BigQueryOptions("billing", "EU", Budget(1), accounts=ACCOUNTS))
    client = access.client(READER)
    assert isinstance(client._credentials, impersonated_credentials.Credentials)
    assert client._credentials.service_account_email == READER
    assert client._connection.API_BASE_URL == "https://bigquery.googleapis.com"
    assert (client.project, client.location) == ("billing", "EU")
    assert access.client(READER) is client
    assert access.reader(READER) is not None
    access.close()


def test_an_emulator_gets_no_credentials() -> None:
    access = Access(options_for("http://127.0.0.1:1"))
    assert isinstance(access.client(None)._credentials, AnonymousCredentials)
    assert access.reader(None) is None
    access.close()


def test_the_clients_own_spans_are_off() -> None:
    from google.cloud.bigquery import opentelemetry_tracing

    assert opentelemetry_tracing.HAS_OPENTELEMETRY is False


@pytest.mark.parametrize("text", ["dec-0a1b", "txn_9", "x" * 63])
def test_a_plain_id_is_its_own_label(text: str) -> None:
    assert label(text) == text


def test_ids_that_differ_stay_two_labels_of_the_right_form() -> None:
    texts = ["A", "a", "ä", "x" * 64, "x" * 65, "a:b", "a/b", "urn:Ünï", ""]
    made = [label(text) for text in texts]
    assert len(set(made)) == len(texts)
    assert all(len(item) <= 63 and set(item) <= set("abcdefghijklmnopqrstuvwxyz0123456789_-") for item in made)


def test_google_is_imported_only_where_it_is_needed() -> None:
    import subprocess

    code = "import remote_agent.world, sys; print([m for m in sys.modules if m.startswith('google.cloud.bigquery')])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parents[2], env=os.environ
    )
    assert done.stdout.strip() == "[]", done.stderr
