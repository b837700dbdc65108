"""The shipped templates pass the governed loader, and their groups are held to their minimum size."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from contract.scope import Sensitivity
from control_plane.manifest import DatasetManifest
from queries.bind import bind
from queries.duckdb_engine import DuckDbEngine
from queries.template import Template, load_template
from tests.authority_builder import make_authority
from tests.queries.documents import run as run_whole

EVERY = [
    ("purification-batches", "search"),
    ("purification-batches", "compare_batches"),
    ("purification-batches", "calculate_yield"),
    ("purification-batches", "detect_outliers"),
    ("purification-batches", "step_totals"),
    ("chromatography-results", "search"),
    ("chromatography-results", "aggregate"),
    ("chromatography-results", "run_totals"),
    ("clinical-private", "search"),
    ("clinical-private", "aggregate"),
]


@pytest.mark.parametrize(("dataset", "name"), EVERY)
def test_the_loader_accepts_a_shipped_template(
    dataset: str, name: str, manifest: Callable[[str], DatasetManifest], template_text: Callable[[str, str], str]
) -> None:
    loaded = _load(manifest(dataset), name, template_text(dataset, name))
    assert loaded.deterministic


def test_a_template_reads_batches_wherever_it_reads_their_steps(
    manifest: Callable[[str], DatasetManifest], template_text: Callable[[str, str], str]
) -> None:
    """A row policy on batches (by site, say) must also hold back their steps."""
    for name in ("compare_batches", "calculate_yield", "detect_outliers"):
        loaded = _load(manifest("purification-batches"), name, template_text("purification-batches", name))
        assert {"batch_record.batch_id", "step_condition.batch_id"} <= loaded.columns_read


@pytest.mark.parametrize("mask", [None, "hash", "null"])
async def test_clinical_groups_hold_five_stored_subjects_or_are_left_out(
    mask: str | None,
    tmp_path: Path,
    manifest: Callable[[str], DatasetManifest],
    template_text: Callable[[str, str], str],
    table: Callable[[str, str], list[dict[str, Any]]],
) -> None:
    groups: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for row in table("clinical-private", "subject_observation"):
        if row["endpoint"] == "crp" and row["value"] is not None:
            groups[row["study_id"], row["arm"], row["visit"]].add(row["subject_id"])
    expected = {key for key, held in groups.items() if len(held) >= 5}
    assert expected < groups.keys()
    rows = await _clinical(manifest("clinical-private"), template_text("clinical-private", "aggregate"), mask, tmp_path)
    assert {(row[0], row[1], row[2]) for row in rows} == expected
    assert {row[6] for row in rows} == ({0} if mask == "null" else {len(groups[key]) for key in expected})


async def _clinical(manifest: DatasetManifest, text: str, mask: str | None, scratch: Path) -> list[list[Any]]:
    folder = Path(__file__).resolve().parents[2] / "datasets" / "clinical-private"
    engine = DuckDbEngine.open(
        manifest.dataset, manifest.version, folder, manifest.tables, scratch=scratch, mask_key=bytes(32)
    )
    authority = make_authority(
        dataset=manifest.dataset,
        dataset_version=manifest.version,
        capability="aggregate",
        sensitivity=Sensitivity.RESTRICTED,
        masks={} if mask is None else {"subject_observation.subject_id": mask},
    )
    loaded = _load(manifest, "aggregate", text)
    try:
        document, _ = await run_whole(
            engine,
            authority,
            loaded,
            bind(loaded, {"metric": "crp"}),
            max_rows=100,
            max_bytes=10**6,
            as_of="2026-08-31T22:00:00Z",
        )
    finally:
        await engine.close()
    rows: list[list[Any]] = json.loads(document.body)["rows"]
    return rows


def _load(manifest: DatasetManifest, name: str, text: str) -> Template:
    capability = manifest.capability(name)
    assert capability is not None
    return load_template(
        text,
        name=f"{manifest.dataset}/{name}.sql",
        dataset=manifest.dataset,
        tables=manifest.tables,
        parameters=capability.parameters,
        results=capability.results,
        ceiling=capability.sensitivity,
        minimum_group=capability.minimum_group,
    )
