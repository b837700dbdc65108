"""A capability that is completed from another agent's rows is loaded, tried and published like any other."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from contract.settings import SHIPPED_DATASETS, Settings
from control_plane.registry import load_registry
from remote_agent.card import public_card_json
from remote_agent.world import check_datasets
from tests.evidence.evidence_builders import SeedSigner

DATASET = "purification-batches"
DELEGATES = {"agent": "urn:dataset-agent:lab", "dataset": "chromatography-results", "capability": "search"}
POOLING: dict[str, Any] = {
    "name": "pooling_of_batch",
    "description": "how a batch was pooled",
    "effect": "read",
    "sensitivity": "internal",
    "sub_agent_name": "ask_lab",
    "delegates": DELEGATES,
    "cacheable": False,
    "template": "templates/pooling.sql",
    "supply": {
        "table": "lab_run",
        "arguments": {"query": "batch_id"},
        "columns": [{"name": "batch_id", "type": "STRING"}, {"name": "pooling_decision", "type": "STRING"}],
    },
    "parameters": [{"name": "batch_id", "type": "STRING", "description": "Batch number.", "pattern": "B[0-9]{3}"}],
    "results": [{"name": "product", "type": "STRING"}, {"name": "pooling_decision", "type": "STRING"}],
}
SQL = """
SELECT b.product AS product, r.pooling_decision AS pooling_decision
FROM batch_record AS b
JOIN lab_run AS r ON r.batch_id = b.batch_id
WHERE b.batch_id = @batch_id
ORDER BY pooling_decision
"""
NONE_READ = """
SELECT product, disposition AS pooling_decision FROM batch_record WHERE batch_id = @batch_id ORDER BY product
"""


def world(folder: Path, *, sql: str = SQL, **changes: Any) -> Settings:
    """The shipped batches alone, with one capability more."""
    shutil.copytree(SHIPPED_DATASETS / DATASET, folder / DATASET)
    (folder / DATASET / "templates" / "pooling.sql").write_text(sql, encoding="utf-8")
    place = folder / DATASET / "descriptor.yaml"
    raw = yaml.safe_load(place.read_text(encoding="utf-8"))
    raw["capabilities"].append(POOLING | changes)
    place.write_text(yaml.safe_dump(raw, sort_keys=False), encoding="utf-8")
    return Settings(home=folder / "home", datasets=folder)


async def problem_of(settings: Settings) -> str | None:
    return (await check_datasets(settings, scratch=settings.home))[DATASET]


async def test_its_template_reads_the_supplied_rows_like_a_table(tmp_path: Path) -> None:
    assert await problem_of(world(tmp_path)) is None


@pytest.mark.parametrize(
    ("sql", "problem"),
    [
        (SQL.replace("lab_run", "lab_runs"), "lab_run"),
        (SQL.replace("r.pooling_decision", "r.comment"), "comment"),
        (NONE_READ, "lab_run"),
    ],
)
async def test_a_template_that_does_not_fit_what_is_supplied_is_named(tmp_path: Path, sql: str, problem: str) -> None:
    told = await problem_of(world(tmp_path, sql=sql))
    assert told is not None and "pooling.sql" in told and problem in told


async def test_a_template_of_a_capability_that_asks_nobody_is_supplied_with_nothing(tmp_path: Path) -> None:
    alone = {"sub_agent_name": None, "tool_name": "pooling", "delegates": None, "supply": None, "cacheable": True}
    told = await problem_of(world(tmp_path, **alone))
    assert told is not None and "lab_run" in told


def test_the_card_says_what_is_asked_of_whom_and_not_how_it_is_read(tmp_path: Path) -> None:
    published = load_registry(world(tmp_path).datasets).datasets[DATASET].published()
    card = public_card_json([published], agent_id="urn:a", public_url="http://127.0.0.1:1", signer=SeedSigner())
    (params,) = [extension["params"] for extension in card["capabilities"]["extensions"] if "params" in extension]
    (descriptor,) = params["descriptors"]
    (told,) = [item for item in descriptor["capabilities"] if item["name"] == "pooling_of_batch"]
    assert (told["delegates"], "supply" in told, "template" in told) == (DELEGATES, False, False)
