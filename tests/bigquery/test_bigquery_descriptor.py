"""What a descriptor may say of BigQuery, and what of it never leaves the service."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from contract.settings import Settings
from control_plane.manifest import DatasetManifest
from control_plane.registry import load_registry
from queries.bigquery_options import Budget, Emulator
from remote_agent.engines import bigquery_options
from tests.bigquery.bigquery_folder import CAPABILITY, DATASET, datasets_in_bigquery

READER = "reader@data-project.iam.gserviceaccount.com"


@pytest.fixture
def raw(tmp_path: Path) -> dict[str, Any]:
    folder = datasets_in_bigquery(tmp_path, impersonate={"analyst": READER}, estimate=True, storage_read=5)
    held: dict[str, Any] = yaml.safe_load((folder / DATASET / "descriptor.yaml").read_text(encoding="utf-8"))
    return held


def test_options_and_budgets_reach_the_engine(raw: dict[str, Any], tmp_path: Path) -> None:
    manifest = DatasetManifest.model_validate(raw)
    assert manifest.bigquery is not None
    told = bigquery_options(manifest, manifest.bigquery, Settings(home=tmp_path))
    assert (told.project, told.location, told.storage_read, told.emulator) == ("billing", "EU", 5, None)
    assert told.accounts == {"analyst": READER}
    assert told.budget == Budget(50 * 2**20, estimate=True)
    assert told.budget_of(CAPABILITY) == Budget(20 * 2**20, estimate=True)
    raw["capabilities"][0]["estimate"] = False
    manifest = DatasetManifest.model_validate(raw)
    assert manifest.bigquery is not None
    emulated = Settings(home=tmp_path, bigquery_emulator="http://127.0.0.1:9050")
    told = bigquery_options(manifest, manifest.bigquery, emulated)
    assert told.budget_of(CAPABILITY) == Budget(20 * 2**20, estimate=False)
    assert told.emulator == Emulator("http://127.0.0.1:9050")


def test_nothing_of_bigquery_is_published(raw: dict[str, Any]) -> None:
    published = str(DatasetManifest.model_validate(raw).published().to_json())
    for kept in ("billing", "data-project", READER, "maximum_bytes_billed", "estimate"):
        assert kept not in published


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bigquery": None}, "tables of BigQuery and the options bigquery go together"),
        ({"mixed": True}, "publish them as two datasets"),
        ({"maximum_bytes_billed": None}, "maximum_bytes_billed"),
        ({"maximum_bytes_billed": 10 * 2**20 - 1}, "maximum_bytes_billed"),
        ({"impersonate": {"analyst": "someone@example.com"}}, "impersonate"),
        ({"location": "EU; --"}, "location"),
        ({"project": "p`q"}, "project"),
        ({"storage_read": 0}, "storage_read"),
        ({"credentials": "/key.json"}, "credentials"),
    ],
)
def test_what_does_not_hold_together_is_named(raw: dict[str, Any], change: dict[str, Any], message: str) -> None:
    if "mixed" in change:
        del raw["tables"][0]["bigquery"]
        raw["tables"][0]["file"] = "data/batch_record.parquet"
    elif change == {"bigquery": None}:
        del raw["bigquery"]
    else:
        raw["bigquery"] |= change
    with pytest.raises(ValueError, match=message):
        DatasetManifest.model_validate(raw)


def test_a_budget_of_bytes_is_for_bigquery_only(tmp_path: Path) -> None:
    from contract.settings import SHIPPED_DATASETS

    held = yaml.safe_load((SHIPPED_DATASETS / DATASET / "descriptor.yaml").read_text(encoding="utf-8"))
    held["capabilities"][0]["maximum_bytes_billed"] = 10 * 2**20
    with pytest.raises(ValueError, match="only BigQuery bills bytes"):
        DatasetManifest.model_validate(held)


def test_a_folder_of_such_a_dataset_is_read_like_any_other(tmp_path: Path) -> None:
    registry = load_registry(datasets_in_bigquery(tmp_path))
    assert dict(registry.invalid) == {}
    assert [table.source for table in registry.datasets[DATASET].tables][0] == "data-project.batches.batch_record"


@pytest.mark.parametrize(
    "url", ["http://10.0.0.1:9050", "https://bigquery.example", "127.0.0.1:9050", "ftp://127.0.0.1"]
)
def test_an_emulator_is_on_this_machine(url: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="bigquery_emulator"):
        Settings(home=tmp_path, bigquery_emulator=url)
