"""Which engine a dataset runs on: BigQuery where its tables lie there, else the embedded one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from contract.errors import Category, Component, DatasetAgentError
from contract.settings import Settings
from control_plane.manifest import BigQuery, DatasetManifest
from queries.bigquery_options import BigQueryOptions, Budget, Emulator
from queries.duckdb_engine import DuckDbEngine
from queries.engine import Engine


def open_engine(manifest: DatasetManifest, folder: Path, settings: Settings, mask_key: bytes, scratch: Path) -> Engine:
    """Blocks. Raises ``DatasetAgentError``, for BigQuery without its extra too."""
    if manifest.bigquery is not None:
        return _on_bigquery(manifest, manifest.bigquery, settings, mask_key)
    return DuckDbEngine.open(
        manifest.dataset,
        manifest.version,
        folder,
        manifest.tables,
        scratch=scratch,
        memory_limit=settings.query_memory,
        timeout=settings.query_timeout,
        mask_key=mask_key,
        revision=manifest.revision,
    )


def bigquery_options(manifest: DatasetManifest, told: BigQuery, settings: Settings) -> BigQueryOptions:
    """A descriptor's options as the engine takes them, each capability with its budget."""
    budgets = {
        capability.name: Budget(
            told.maximum_bytes_billed if capability.maximum_bytes_billed is None else capability.maximum_bytes_billed,
            told.estimate if capability.estimate is None else capability.estimate,
        )
        for capability in manifest.capabilities
    }
    return BigQueryOptions(
        project=told.project,
        location=told.location,
        budget=Budget(told.maximum_bytes_billed, told.estimate),
        capabilities=budgets,
        accounts=told.impersonate,
        storage_read=told.storage_read,
        emulator=None if settings.bigquery_emulator is None else Emulator(settings.bigquery_emulator),
    )


@contextmanager
def needs_bigquery(dataset: str) -> Iterator[None]:
    """Around an import of what the extra ``bigquery`` installs. Raises a CONFIGURATION fault without it."""
    try:
        yield
    except ModuleNotFoundError as absent:
        if not (absent.name or "").startswith(("google", "grpc")):
            raise
        raise DatasetAgentError(
            Component.REMOTE_AGENT,
            Category.CONFIGURATION,
            "remote_agent.bigquery.extra",
            f"dataset {dataset} lies in BigQuery: install dataset-agent[bigquery]",
        ) from None


def _on_bigquery(manifest: DatasetManifest, told: BigQuery, settings: Settings, mask_key: bytes) -> Engine:
    with needs_bigquery(manifest.dataset):
        from queries.bigquery_engine import BigQueryEngine
    return BigQueryEngine.open(
        manifest.dataset,
        manifest.version,
        bigquery_options(manifest, told, settings),
        timeout=settings.query_timeout,
        mask_key=mask_key,
        revision=manifest.revision,
    )
