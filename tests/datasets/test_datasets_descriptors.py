from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import sqlglot
from sqlglot import exp
from sqlglot.optimizer.qualify import qualify

from contract.scope import Sensitivity
from control_plane.descriptor import DatasetDescriptor
from control_plane.manifest import DatasetManifest

CAPABILITIES = {
    "purification-batches": {
        "search": ("read", "internal", None, ["query"]),
        "compare_batches": ("read", "internal", "BPD-DATA-014", ["batch_a", "batch_b"]),
        "calculate_yield": ("compute", "internal", None, ["batch_id"]),
        "detect_outliers": ("compute", "confidential", "BPD-DATA-021", ["metric"]),
        "step_totals": ("compute", "internal", None, ["from_day", "to_day", "sites", "per"]),
    },
    "chromatography-results": {
        "search": ("read", "internal", None, ["query"]),
        "aggregate": ("compute", "internal", None, ["metric"]),
        "run_totals": ("compute", "internal", None, ["from_day", "to_day", "sites", "per"]),
    },
    "clinical-private": {
        "search": ("read", "restricted", "BPD-CLIN-002", ["query"]),
        "aggregate": ("compute", "restricted", "BPD-CLIN-002", ["metric"]),
    },
}
IDENTITIES = {
    "purification-batches": ("2026.08.31", "s3-etag-4c1f9a", "3", "internal"),
    "chromatography-results": ("2026.08.20", "s3-etag-90ab21", "2", "internal"),
    "clinical-private": ("2026.07.02", "pg-lsn-00ff31", "1", "restricted"),
}
EVERY = [(dataset, name) for dataset, named in CAPABILITIES.items() for name in named]
WHOLE = {("purification-batches", "step_totals"), ("chromatography-results", "run_totals")}
"""Those that leave no group out, so that parts of a result are results: they have no LIMIT."""


def test_the_world_is_that_of_the_conformance_kit(manifests: dict[str, DatasetManifest]) -> None:
    assert {
        name: (m.version, m.revision, m.schema_version, m.sensitivity.value) for name, m in manifests.items()
    } == IDENTITIES


def test_capabilities_are_those_of_the_conformance_kit(manifests: dict[str, DatasetManifest]) -> None:
    assert {
        name: {
            c.name: (c.effect.value, c.sensitivity.value, c.policy_id, [p.name for p in c.parameters])
            for c in manifest.capabilities
        }
        for name, manifest in manifests.items()
    } == CAPABILITIES


def test_the_published_half_survives_json(manifests: dict[str, DatasetManifest]) -> None:
    for manifest in manifests.values():
        published = manifest.published()
        assert DatasetDescriptor.model_validate(published.to_json()) == published


@pytest.mark.parametrize(("dataset", "capability"), EVERY)
def test_result_columns_are_the_outputs_of_the_template(
    dataset: str, capability: str, manifest: Callable[[str], DatasetManifest], template_text: Callable[[str, str], str]
) -> None:
    tree = sqlglot.parse_one(template_text(dataset, capability), read="bigquery")
    declared = manifest(dataset).capability(capability)
    assert declared is not None
    assert [output.alias for output in tree.selects] == [column.name for column in declared.results]


@pytest.mark.parametrize(("dataset", "capability"), EVERY)
def test_parameters_are_those_the_template_uses(
    dataset: str, capability: str, manifest: Callable[[str], DatasetManifest], template_text: Callable[[str, str], str]
) -> None:
    tree = sqlglot.parse_one(template_text(dataset, capability), read="bigquery")
    declared = manifest(dataset).capability(capability)
    assert declared is not None
    assert {node.name for node in tree.find_all(exp.Parameter)} == {p.name for p in declared.parameters}


@pytest.mark.parametrize(("dataset", "capability"), EVERY)
def test_a_capability_is_as_sensitive_as_every_column_it_reads(
    dataset: str, capability: str, manifest: Callable[[str], DatasetManifest], template_text: Callable[[str, str], str]
) -> None:
    declared = manifest(dataset).capability(capability)
    assert declared is not None
    read = _columns_read(manifest(dataset), template_text(dataset, capability))
    assert read
    assert all(sensitivity.within(declared.sensitivity) for sensitivity in read.values()), read


def _columns_read(manifest: DatasetManifest, text: str) -> dict[str, Sensitivity]:
    schema = {table.name: {column.name: column.type.value for column in table.columns} for table in manifest.tables}
    tree = qualify(sqlglot.parse_one(text, read="bigquery"), schema=schema, dialect="bigquery")
    aliases = {table.alias: table.name for table in tree.find_all(exp.Table) if table.name in schema}
    sensitivities = {
        f"{table.name}.{column.name}": column.sensitivity for table in manifest.tables for column in table.columns
    }
    named = {
        f"{aliases[column.table]}.{column.name}" for column in tree.find_all(exp.Column) if column.table in aliases
    }
    return {name: sensitivities[name] for name in named}


def test_every_template_orders_and_limits_its_result(template_text: Callable[[str, str], str]) -> None:
    for dataset, capability in EVERY:
        tree = sqlglot.parse_one(template_text(dataset, capability), read="bigquery")
        limited = tree.args.get("limit") is not None
        assert tree.args.get("order") and limited == ((dataset, capability) not in WHOLE), (dataset, capability)


def test_the_limit_of_a_template_is_the_row_limit_of_its_capability(
    manifest: Callable[[str], DatasetManifest], template_text: Callable[[str, str], str]
) -> None:
    for dataset, capability in sorted({*EVERY} - WHOLE):
        tree = sqlglot.parse_one(template_text(dataset, capability), read="bigquery")
        declared = manifest(dataset).capability(capability)
        assert declared is not None
        assert int(tree.args["limit"].expression.name) == declared.max_rows, (dataset, capability)


def test_examples_contain_arguments_their_patterns_accept(manifest: Callable[[str], DatasetManifest]) -> None:
    capability = manifest("purification-batches").capability("compare_batches")
    assert capability is not None
    for example in capability.examples:
        assert len(re.findall(str(capability.parameters[0].pattern), example)) == 2


def test_words_for_a_metric_name_one_value_only(manifests: dict[str, DatasetManifest]) -> None:
    for manifest in manifests.values():
        for capability in manifest.capabilities:
            for parameter in capability.parameters:
                synonyms = [word for several in parameter.synonyms.values() for word in several]
                assert len(synonyms) == len(set(synonyms))
