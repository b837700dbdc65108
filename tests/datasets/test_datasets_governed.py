"""The shipped templates pass the governed loader."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from control_plane.descriptor import DatasetManifest
from queries.template import Template, load_template

EVERY = [
    ("purification-batches", "search"),
    ("purification-batches", "compare_batches"),
    ("purification-batches", "calculate_yield"),
    ("purification-batches", "detect_outliers"),
    ("chromatography-results", "search"),
    ("chromatography-results", "aggregate"),
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
    )
