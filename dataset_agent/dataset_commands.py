"""``datasets``: make, list and check datasets."""

from __future__ import annotations

import asyncio
import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from contract.errors import Category, Component, DatasetAgentError
from contract.settings import Settings
from control_plane.descriptor_schema import schema_text
from control_plane.manifest import DatasetManifest
from control_plane.registry import DESCRIPTOR_FILES, Registry, load_registry
from control_plane.source_facts import AUTO
from dataset_agent.configuration import datasets_problem, load_settings, read_settings
from dataset_agent.console import EXIT_FAULT, AsJson, note, print_json, progress, say, table
from dataset_agent.dataset_validation import Report, validate_folder
from dataset_agent.folder_fault import FolderFault
from dataset_agent.scaffold import Made, Wanted, make
from dataset_agent.scaffold_capabilities import type_members
from dataset_agent.scratch import database_scratch
from remote_agent.sources import ask_source

datasets_app = typer.Typer(help="Make, list and check datasets.", no_args_is_help=True)

_Folder = Annotated[Path, typer.Argument(metavar="DIR", help="A datasets folder.", show_default=False)]
_Given = Annotated[
    Path | None, typer.Argument(metavar="[DIR]", help="A datasets folder; default DATASET_AGENT_DATASETS.")
]


@datasets_app.command("init")
def init(
    folder: _Folder,
    source: Annotated[
        list[str],
        typer.Option("--from", help="A .parquet, .csv or .duckdb file, or bq:project.dataset.table; repeatable."),
    ],
    name: Annotated[str | None, typer.Option(help="The dataset's name; default that of the first source.")] = None,
    relation: Annotated[
        list[str] | None, typer.Option("--table", help="Tables to take of a DuckDB file; or the name of the only one.")
    ] = None,
    tenant: Annotated[str, typer.Option(help="Whose data it is.")] = "acme",
    null: Annotated[
        list[str] | None, typer.Option(help="A text that stands for NULL in a CSV file; repeatable.")
    ] = None,
    location: Annotated[str, typer.Option(help="Where jobs of BigQuery run.")] = "US",
    into: Annotated[bool, typer.Option("--into", help="Add to a datasets folder that is there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Make a datasets folder of a table: descriptor, templates, policies and principals, valid at once."""
    settings = read_settings()
    wanted = Wanted(folder, tuple(source), name, tenant, tuple(relation or ()), tuple(null or ()), location, into)
    with progress("reading"):
        made = make(wanted, settings)
    if as_json:
        print_json(_made_json(made))
        return
    _tell(made)


def _tell(made: Made) -> None:
    dataset = made.dataset
    for held in dataset.tables:
        rows = made.facts[held.name].rows
        title = f"{held.name}: {held.file or held.bigquery}" + (f", {_many(rows, 'row')}" if rows is not None else "")
        notes = dict(note.split(": ", 1) for note in held.notes if ": " in note)
        lines = [(column.name, _type(type_members(column)), notes.get(column.name, "")) for column in held.columns]
        table(title, ("column", "type", "what was inferred"), lines, lead=("column", "type"))
    shown = {f"{held.name}.{line}" for held in dataset.tables for line in held.notes}
    told = {f"{held.name}.{column.name}: " for held in dataset.tables for column in held.columns}
    for line in made.notes():
        if line not in shown or not line.startswith(tuple(told)):
            note(line)
    say(f"Made {dataset.name} in {made.folder}: {', '.join(made.changed)}")
    say("Next:")
    for line in _next(made):
        say(f"  {line}")


def _next(made: Made) -> Sequence[str]:
    """What to type; the words are those of the new dataset."""
    folder = shlex.quote(str(made.folder.absolute()))
    person = made.principals[0]
    examples = [capability.examples[-1] for capability in made.dataset.capabilities[:2]]
    asks = [f"dataset-agent ask --as {person} {shlex.quote(example)}" for example in examples]
    first = made.dataset.capabilities[0].name
    return [
        f"export DATASET_AGENT_DATASETS={folder}",
        f"dataset-agent datasets validate {folder}",
        "dataset-agent keys init   # once, where there are no keys yet",
        "dataset-agent serve",
        *asks,
        f"dataset-agent call {first} --as {person} --dataset {made.dataset.name}",
    ]


def _made_json(made: Made) -> dict[str, Any]:
    tables = [
        {
            "name": held.name,
            "source": held.file or held.bigquery,
            "rows": made.facts[held.name].rows,
            "columns": [{"name": column.name, **type_members(column)} for column in held.columns],
        }
        for held in made.dataset.tables
    ]
    return {
        "folder": str(made.folder),
        "dataset": made.dataset.name,
        "tables": tables,
        "capabilities": [capability.name for capability in made.dataset.capabilities],
        "policies": list(made.dataset.policy_ids.values()),
        "principals": list(made.principals),
        "notes": list(made.notes()),
        "files": made.changed,
        "next": list(_next(made)),
    }


def _type(members: dict[str, Any]) -> str:
    return f"ARRAY of {members['type']}" if members.get("mode") == "REPEATED" else str(members["type"])


@datasets_app.command("list")
def list_datasets(folder: _Given = None, as_json: AsJson = False) -> None:
    """List the datasets of a folder with their revision and age; what is in data and templates is not looked at."""
    settings = _of(folder)
    registry = load_registry(settings.datasets)
    lines = [_line(registry, name, settings) for name in sorted({*registry.datasets, *registry.invalid})]
    if as_json:
        print_json({"folder": str(settings.datasets), "datasets": lines})
        return
    columns = ("dataset", "status", "version", "revision", "as of", "sensitivity", "capabilities", "tables")
    rows = [
        (
            line["dataset"],
            line["status"],
            line["version"],
            line["revision"],
            line["as_of"],
            line["sensitivity"],
            ", ".join(line["capabilities"]),
            ", ".join(line["tables"]),
        )
        for line in lines
    ]
    table(f"Datasets of {settings.datasets}", columns, rows, lead=("dataset", "status"))
    for line in lines:
        if line["problem"]:
            note(f"{line['dataset']}: {line['problem']}")


def _line(registry: Registry, name: str, settings: Settings) -> dict[str, Any]:
    manifest = registry.datasets.get(name)
    if manifest is None:
        told = dict.fromkeys(("version", "revision", "as_of", "sensitivity"))
        return {
            "dataset": name,
            "status": "broken",
            **told,
            "capabilities": [],
            "tables": [],
            "problem": registry.invalid[name],
        }
    problem = None
    if manifest.bigquery is None:  # listing asks nobody elsewhere
        try:
            manifest = ask_source(manifest, registry.path(name), settings, time.time())
        except DatasetAgentError as error:
            problem = error.message
    return {
        "dataset": name,
        "status": "readable" if problem is None else "broken",
        "version": manifest.version,
        "revision": manifest.revision,
        "as_of": _as_of(manifest),
        "sensitivity": manifest.sensitivity.value,
        "capabilities": [capability.name for capability in manifest.capabilities],
        "tables": [held.name for held in manifest.tables],
        "problem": problem,
    }


def _as_of(manifest: DatasetManifest) -> str:
    return AUTO if manifest.asks_its_source else manifest.as_of.strftime("%Y-%m-%dT%H:%M:%SZ")


@datasets_app.command("validate")
def validate(folder: _Given = None, as_json: AsJson = False) -> None:
    """Check all that serving a datasets folder would check; name file, line and fix of every fault; exit 1 if any."""
    settings = _of(folder)
    with progress("checking"), database_scratch(settings) as scratch:
        report = asyncio.run(validate_folder(settings, scratch))
    if as_json:
        print_json(_report_json(settings, report))
    else:
        _told(settings, report)
    if not report.ok:
        raise typer.Exit(EXIT_FAULT)


def _told(settings: Settings, report: Report) -> None:
    # A line each, as compilers write it: editors jump to it, and programs cut it at the colons.
    for kind, faults in (("fault", report.faults), ("warning", report.warnings)):
        for fault in faults:
            say(f"{fault.where}: {kind}: {': '.join(part for part in (fault.place, fault.message) if part)}")
    counted = f"{_many(len(report.faults), 'fault')}, {_many(len(report.warnings), 'warning')}"
    say(f"{settings.datasets}: {counted}; can be served: {', '.join(report.served) or 'no dataset'}")


def _many(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def _report_json(settings: Settings, report: Report) -> dict[str, Any]:
    def told(faults: Sequence[FolderFault]) -> list[dict[str, Any]]:
        return [fault.to_json() for fault in faults]

    return {
        "folder": str(settings.datasets),
        "ok": report.ok,
        "datasets": report.served,
        "faults": told(report.faults),
        "warnings": told(report.warnings),
    }


@datasets_app.command("schema")
def schema() -> None:
    """Print the JSON Schema of descriptor.yaml, for editors."""
    typer.echo(schema_text(), nl=False)


def _of(folder: Path | None) -> Settings:
    settings = load_settings() if folder is None else read_settings(datasets=_folder(folder))
    if datasets_problem(settings) is not None and not _holds_datasets(settings.datasets):
        raise _no_folder(
            f"{settings.datasets} holds no dataset, no policies and no principals.yaml: name the folder that holds "
            "them, or make one with dataset-agent datasets init"
        )
    return settings


def _holds_datasets(folder: Path) -> bool:
    return any(True for name in DESCRIPTOR_FILES for _ in folder.glob(f"*/{name}"))


def _folder(folder: Path) -> Path:
    if not folder.is_dir():
        raise _no_folder(f"{folder} is no folder: name one")
    return folder


def _no_folder(message: str) -> DatasetAgentError:
    return DatasetAgentError(Component.COMMAND, Category.INVALID_INPUT, "command.datasets.folder", message)
