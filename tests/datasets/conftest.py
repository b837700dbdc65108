"""The shipped datasets, opened without any part of the product but the descriptor models."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import duckdb
import pytest
import sqlglot
import yaml

from control_plane.manifest import DatasetManifest

DATASETS = Path(__file__).resolve().parents[2] / "datasets"

Rows = list[dict[str, Any]]
Run = Callable[..., Rows]


@cache
def _manifest(dataset: str) -> DatasetManifest:
    text = (DATASETS / dataset / "descriptor.yaml").read_text(encoding="utf-8")
    return DatasetManifest.model_validate(yaml.safe_load(text))


@pytest.fixture(scope="session")
def manifest() -> Callable[[str], DatasetManifest]:
    return _manifest


@pytest.fixture(scope="session")
def manifests() -> dict[str, DatasetManifest]:
    return {path.parent.name: _manifest(path.parent.name) for path in sorted(DATASETS.glob("*/descriptor.yaml"))}


@pytest.fixture(scope="session")
def template_text() -> Callable[[str, str], str]:
    def read(dataset: str, capability: str) -> str:
        found = _manifest(dataset).capability(capability)
        return (DATASETS / dataset / str(found.template)).read_text(encoding="utf-8")  # type: ignore[union-attr]

    return read


@pytest.fixture(scope="session")
def databases(manifests: dict[str, DatasetManifest]) -> Iterator[dict[str, duckdb.DuckDBPyConnection]]:
    opened = {}
    for name, manifest in manifests.items():
        connection = duckdb.connect()
        connection.execute("SET TimeZone = 'UTC'")
        for table in manifest.tables:
            connection.read_parquet(str(DATASETS / name / table.file)).create(table.name)
        opened[name] = connection
    yield opened
    for connection in opened.values():
        connection.close()


@pytest.fixture(scope="session")
def table(databases: dict[str, duckdb.DuckDBPyConnection]) -> Callable[[str, str], Rows]:
    """Every row of a base table, as Python values."""

    def read(dataset: str, name: str) -> Rows:
        return databases[dataset].table(name).to_arrow_table().to_pylist()

    return read


@pytest.fixture(scope="session")
def run(databases: dict[str, duckdb.DuckDBPyConnection], template_text: Callable[[str, str], str]) -> Run:
    """Run a template on plain DuckDB after a plain transpile."""

    def call(dataset: str, capability: str, **arguments: Any) -> Rows:
        (sql,) = sqlglot.transpile(template_text(dataset, capability), read="bigquery", write="duckdb")
        return databases[dataset].sql(sql, params=arguments).to_arrow_table().to_pylist()

    return call


@pytest.fixture(scope="session")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("dataset_generator", DATASETS / "generate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    before = list(sys.path)
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path[:] = before
    return module
