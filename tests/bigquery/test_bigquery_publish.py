"""A datasets folder made of a table in BigQuery, whose revision and age follow what BigQuery says of the table."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from contract.errors import DatasetAgentError
from contract.settings import Settings
from control_plane.registry import load_registry
from dataset_agent.dataset_validation import Report, validate_folder
from dataset_agent.scaffold import Made, Wanted, make
from remote_agent.sources import ask_source
from tests.bigquery.scripted_bigquery import ScriptedBigQuery, serving

NAME = "data-project.shop.sales"
FIELDS: list[dict[str, Any]] = [
    {"name": "id", "type": "INTEGER", "mode": "NULLABLE"},
    {"name": "sold_on", "type": "DATE", "mode": "NULLABLE"},
]
LEFT_OUT = [
    {"name": "Sales Rep", "type": "STRING", "mode": "NULLABLE"},
    {"name": "place", "type": "GEOGRAPHY", "mode": "NULLABLE"},
]


def resource(**more: Any) -> dict[str, Any]:
    told = {
        "tableReference": {"projectId": "data-project", "datasetId": "shop", "tableId": "sales"},
        "schema": {"fields": FIELDS + LEFT_OUT},
        "etag": "e1",
        "type": "TABLE",
        "numRows": "60",
        "numBytes": "4096",
        "lastModifiedTime": "1711846800123",
    }
    return told | more


@pytest.fixture
def bigquery() -> Iterator[ScriptedBigQuery]:
    with serving(fields=FIELDS, tables={NAME: resource()}) as service:
        yield service


@pytest.fixture
def settings(tmp_path: Path, bigquery: ScriptedBigQuery) -> Settings:
    return Settings(home=tmp_path / "home", bigquery_emulator=bigquery.url)


@pytest.fixture
def made(tmp_path: Path, settings: Settings) -> Made:
    return make(Wanted(tmp_path / "world", (f"bq:{NAME}",), location="EU"), settings)


def checked(settings: Settings, made: Made) -> Report:
    served = settings.model_copy(update={"datasets": made.folder})
    return asyncio.run(validate_folder(served, made.folder.parent / "scratch"))


def test_a_table_of_bigquery_becomes_a_folder_without_a_fault(settings: Settings, made: Made) -> None:
    report = checked(settings, made)
    assert (report.faults, report.warnings, report.datasets) == ([], [], ["sales"])


def test_the_descriptor_says_where_jobs_run_and_what_they_may_cost(made: Made) -> None:
    raw = yaml.safe_load((made.folder / "sales" / "descriptor.yaml").read_text(encoding="utf-8"))
    assert raw["bigquery"] == {"project": "data-project", "location": "EU", "maximum_bytes_billed": 2**30}
    (table,) = raw["tables"]
    assert (table["bigquery"], table.get("file")) == (NAME, None)
    assert {column["name"]: column["type"] for column in table["columns"]} == {"id": "INT64", "sold_on": "DATE"}


def test_columns_that_cannot_be_declared_are_left_out_with_their_reason(made: Made) -> None:
    notes = " | ".join(made.notes())
    assert "Sales Rep: left out" in notes
    assert "place: left out" in notes


def test_no_row_is_read_to_make_it(bigquery: ScriptedBigQuery, made: Made) -> None:
    jobs = [asked for asked in bigquery.asked if asked.method == "POST" and asked.path.endswith("/jobs")]
    assert [asked.body["configuration"]["dryRun"] for asked in jobs] == [True]


def test_the_revision_and_the_age_are_those_of_the_table(
    bigquery: ScriptedBigQuery, settings: Settings, made: Made
) -> None:
    manifest = load_registry(made.folder).datasets["sales"]
    first = ask_source(manifest, made.folder / "sales", settings, time.time())
    assert first.as_of == datetime.fromtimestamp(1711846800.123, UTC)
    bigquery.script.tables[NAME] = resource(lastModifiedTime="1711846900000", etag="e2")
    second = ask_source(manifest, made.folder / "sales", settings, time.time())
    assert second.revision != first.revision
    assert second.as_of == datetime.fromtimestamp(1711846900, UTC)


def test_a_view_that_cannot_tell_its_age_needs_it_stated(
    bigquery: ScriptedBigQuery, settings: Settings, made: Made
) -> None:
    bigquery.script.tables[NAME] = resource(type="VIEW", view={"query": "SELECT 1", "useLegacySql": False})
    manifest = load_registry(made.folder).datasets["sales"]
    with pytest.raises(DatasetAgentError, match="state as_of"):
        ask_source(manifest, made.folder / "sales", settings, time.time())


def test_a_table_that_is_not_there_makes_nothing(tmp_path: Path, settings: Settings) -> None:
    with pytest.raises(DatasetAgentError):
        make(Wanted(tmp_path / "world", ("bq:data-project.shop.none",)), settings)
    assert not (tmp_path / "world").exists()
