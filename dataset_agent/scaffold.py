"""``datasets init``: a datasets folder made of a table, whole and valid, or nothing at all.

Everything is written into a hidden folder beside the target, checked there as a start of the
dataset agent would, and only then moved to its place. What is there is never overwritten.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from contract.errors import Category, Component, DatasetAgentError
from contract.ids import is_slug
from contract.schema import Table
from contract.settings import Settings
from control_plane.descriptor_schema import SCHEMA_FILE, schema_text
from control_plane.registry import load_registry
from dataset_agent.dataset_validation import validate_folder
from dataset_agent.scaffold_bigquery import bigquery_options_of, is_bigquery, read_bigquery
from dataset_agent.scaffold_capabilities import ScaffoldCapability, capabilities_of, type_members
from dataset_agent.scaffold_facts import UNKNOWN, TableFacts, is_personal, look_at
from dataset_agent.scaffold_names import slug_of
from dataset_agent.scaffold_policies import add_to_policies, new_policies
from dataset_agent.scaffold_source import SourceTable, read_file
from dataset_agent.scaffold_text import NewDataset, descriptor_text

ANALYST, GUEST = "analyst", "guest"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What ``datasets init`` is asked for. ``into`` adds to a folder that is there."""

    folder: Path
    sources: tuple[str, ...]
    name: str | None = None
    tenant: str = "acme"
    tables: tuple[str, ...] = ()
    null: tuple[str, ...] = ()
    location: str = "US"
    into: bool = False


@dataclass(slots=True)
class Made:
    """What was made, for the report. ``facts`` has the table's rows by its name."""

    dataset: NewDataset
    folder: Path
    principals: tuple[str, ...]
    facts: dict[str, TableFacts] = field(default_factory=dict)
    changed: list[str] = field(default_factory=list)

    def notes(self) -> Iterator[str]:
        """What was inferred, changed or left out, a line each."""
        for table in self.dataset.tables:
            yield from (f"{table.name}.{note}" if ":" in note else f"{table.name}: {note}" for note in table.notes)
            for column in table.columns:
                if is_personal(column):
                    yield f"{table.name}.{column.name}: sounds personal: confidential, and in no template"


def make(wanted: Wanted, settings: Settings) -> Made:
    """Make it. Raises ``DatasetAgentError`` where something is in the way, or does not fit."""
    name = _name(wanted)
    _check_target(wanted, name)
    with _staging(wanted) as staging:
        made = _dataset(wanted, name, staging, settings)
        changed = (
            add_to_policies(made.dataset, wanted.folder, staging, made.principals[0])
            if wanted.into
            else new_policies(made.dataset, staging, settings.issuer_url, made.principals)
        )
        (staging / SCHEMA_FILE).write_text(schema_text(), encoding="utf-8")
        _check(staging, settings, whole=not wanted.into)
        made.changed = _move(staging, wanted, name, changed)
    return made


def _name(wanted: Wanted) -> str:
    first = wanted.sources[0]
    name = wanted.name or slug_of(first.rpartition(".")[2] if is_bigquery(first) else Path(first).stem, "dataset")
    if not is_slug(name) or name == "policies":
        raise _fault(f"{name[:64]!r} is no name for a dataset: give --name of a-z, 0-9, _ and -")
    if not is_slug(wanted.tenant):
        raise _fault(f"{wanted.tenant[:64]!r} is no name for a tenant: give --tenant of a-z, 0-9, _ and -")
    return name


def _check_target(wanted: Wanted, name: str) -> None:
    folder = wanted.folder
    if not wanted.into:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise _fault(f"{folder} is there and not empty: choose another folder, or add a dataset to it with --into")
        if not folder.absolute().parent.is_dir():
            raise _fault(f"{folder.absolute().parent} is no folder: make it first")
        return
    for needed in ("policies", "principals.yaml"):
        if not (folder / needed).exists():
            raise _fault(f"{folder} has no {needed}: it is no datasets folder; leave --into away to make one")
    if (folder / name).exists():
        raise _fault(f"{folder / name} is there: give the new dataset another --name")
    if name in load_registry(folder).datasets:
        raise _fault(f"a dataset {name} is there, in a folder of another name: give the new one another --name")


@contextmanager
def _staging(wanted: Wanted) -> Iterator[Path]:
    """A hidden folder on the target's own file system, gone in the end unless it was moved."""
    beside = wanted.folder if wanted.into else wanted.folder.absolute().parent
    try:
        folder = Path(tempfile.mkdtemp(prefix=".init-", dir=beside))
    except OSError as error:
        raise _fault(f"{beside} cannot be written ({error.strerror}): name a place in a folder that may be") from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _dataset(wanted: Wanted, name: str, staging: Path, settings: Settings) -> Made:
    folder = staging / name
    (folder / "templates").mkdir(parents=True)
    tables, bigquery = _tables(wanted, folder, settings)
    names = [table.name for table in tables]
    if twice := next((held for held in names if names.count(held) > 1), None):
        raise _fault(f"two tables would be called {twice}: rename a file")
    facts: dict[str, TableFacts] = {}
    capabilities: list[ScaffoldCapability] = []
    for table in tables:
        facts[table.name] = look_at(folder, table, declared(table)) if table.file is not None else UNKNOWN
        capabilities += capabilities_of(table, facts[table.name])
    source = ", ".join(item if is_bigquery(item) else Path(item).name for item in wanted.sources)
    dataset = NewDataset(name, wanted.tenant, _one_line(source), tuple(tables), tuple(capabilities), bigquery)
    (folder / "descriptor.yaml").write_text(descriptor_text(dataset), encoding="utf-8")
    for capability in capabilities:
        (folder / "templates" / f"{capability.name}.sql").write_text(capability.sql, encoding="utf-8")
    people = (f"{name.replace('-', '_')}_{ANALYST}",) if wanted.into else (ANALYST, GUEST)
    return Made(dataset, wanted.folder, people, facts)


def _tables(wanted: Wanted, folder: Path, settings: Settings) -> tuple[list[SourceTable], Mapping[str, Any] | None]:
    kinds = {is_bigquery(source) for source in wanted.sources}
    if len(kinds) > 1:
        raise _fault("files and tables of BigQuery are two datasets: make one after the other, the second with --into")
    if kinds == {True}:
        options = bigquery_options_of(wanted.sources, wanted.location)
        return read_bigquery(wanted.sources, options, settings), options
    (folder / "data").mkdir()
    tables: list[SourceTable] = []
    for source in wanted.sources:
        tables += read_file(Path(source), folder / "data", tables=wanted.tables, null=wanted.null)
    return tables, None


def declared(table: SourceTable) -> Table:
    """The table as the descriptor declares it."""
    columns = [{"name": column.name, **type_members(column)} for column in table.columns]
    raw = {"name": table.name, "file": table.file, "relation": table.relation, "columns": columns}
    return Table.model_validate(raw)


def _one_line(text: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in text)[:255]


def _check(staging: Path, settings: Settings, *, whole: bool) -> None:
    there = settings.model_copy(update={"datasets": staging})
    with tempfile.TemporaryDirectory(prefix="dataset-agent-init-") as scratch:
        report = asyncio.run(validate_folder(there, Path(scratch), whole=whole))
    if report.faults:
        raise _fault(f"nothing was written, it could not be served: {report.faults[0]}")


def _move(staging: Path, wanted: Wanted, name: str, changed: Sequence[str]) -> list[str]:
    """What now stands in the folder, the dataset last: a running service sees it when the rest is there."""
    if not wanted.into:
        umask = os.umask(0)
        os.umask(umask)
        staging.chmod(0o777 & ~umask)
        staging.rename(wanted.folder)
        return [name, *changed, SCHEMA_FILE]
    for file in (*changed, SCHEMA_FILE):
        (staging / file).replace(wanted.folder / file)
    (staging / name).rename(wanted.folder / name)
    return [name, *changed, SCHEMA_FILE]


def _fault(message: str) -> DatasetAgentError:
    return DatasetAgentError(Component.COMMAND, Category.INVALID_INPUT, "command.datasets.init", message)
