"""A dataset's revision and age where its descriptor leaves them to the source: files, tables of BigQuery, a command."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path

from contract.errors import Category, Component, DatasetAgentError
from contract.settings import Settings
from control_plane.manifest import DatasetManifest
from control_plane.registry import load_registry
from control_plane.source_facts import SourceFacts, check_age, command_facts, file_facts, not_allowed
from remote_agent.engines import bigquery_options, needs_bigquery
from remote_agent.service import World

log = logging.getLogger(__name__)


def ask_source(manifest: DatasetManifest, folder: Path, settings: Settings, now: float) -> DatasetManifest:
    """``manifest`` with a revision and an age. Blocks where it must ask. Raises ``DatasetAgentError``."""
    if not manifest.asks_its_source:
        return manifest
    try:
        return manifest.told(check_age(manifest.dataset, _facts(manifest, folder, settings), now))
    except ValueError as error:
        raise DatasetAgentError(
            Component.REMOTE_AGENT, Category.CONFIGURATION, "remote_agent.source.age", f"{folder.name}: {error}"
        ) from error


def check_unchanged(manifest: DatasetManifest, told: DatasetManifest, folder: Path, settings: Settings) -> None:
    """That the files whose digest is the revision are still the same, once their rows were read. Blocks.

    Raises ``DatasetAgentError``: rows of other bytes would be served, signed and kept under it.
    """
    if _lies_elsewhere(manifest) or ask_source(manifest, folder, settings, time.time()).revision == told.revision:
        return
    raise DatasetAgentError(
        Component.REMOTE_AGENT,
        Category.CONFIGURATION,
        "remote_agent.source.changed",
        f"{folder.name}: a file changed while it was read; write it beside, and rename it when it is whole",
    )


def _facts(manifest: DatasetManifest, folder: Path, settings: Settings) -> SourceFacts:
    if not manifest.revision_command:
        return _own_facts(manifest, folder, settings)
    if not settings.revision_commands:
        raise not_allowed(folder.name)
    told = command_facts(folder, manifest.revision_command)
    if told.as_of is not None:
        return told
    return SourceFacts(told.revision, _own_facts(manifest, folder, settings).as_of)


def _own_facts(manifest: DatasetManifest, folder: Path, settings: Settings) -> SourceFacts:
    if manifest.bigquery is None:
        return file_facts(folder, [table.file for table in manifest.tables if table.file is not None])
    with needs_bigquery(manifest.dataset):
        from queries.bigquery_tables import describe_tables, state_of
    options = bigquery_options(manifest, manifest.bigquery, settings)
    state = state_of(describe_tables(options, [table.source for table in manifest.tables]))
    return SourceFacts(state.revision, state.modified)


async def sources_changed(settings: Settings, world: World) -> bool:
    """Whether a source whose changes no file shows says another revision or age than is served.

    One that cannot be asked now is left as it is.
    """
    registry = await asyncio.to_thread(load_registry, settings.datasets)
    for name, manifest in registry.datasets.items():
        served = world.datasets.get(name)
        if served is None or not manifest.asks_its_source or not _lies_elsewhere(manifest):
            continue
        try:
            told = await asyncio.to_thread(ask_source, manifest, registry.path(name), settings, time.time())
        except DatasetAgentError as error:
            log.warning("the source of dataset %s cannot be asked: %s", name, error.message)
            continue
        if (told.revision, told.as_of) != (served.descriptor.revision, served.descriptor.as_of):
            return True
    return False


def _lies_elsewhere(manifest: DatasetManifest) -> bool:
    return bool(manifest.revision_command) or manifest.bigquery is not None
