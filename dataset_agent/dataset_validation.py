"""Everything that would keep a datasets folder from being served, each with its file, its line and what to do.

It checks what serving checks, and goes on after a fault: what is found of a descriptor that is
partly wrong is found of the rest of it too. What serving takes and nobody can have meant (a
capability that no policy permits) is a warning.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from contract.errors import DatasetAgentError
from contract.settings import Settings
from control_plane.cedar_files import PolicyFault, examine_policies
from control_plane.cedar_versions import CURRENT, examine_version, find_versions
from control_plane.manifest import DatasetManifest
from control_plane.policy import PolicySet
from control_plane.principals import Directory, examine_directory
from control_plane.registry import Examined, dataset_folders, examine
from dataset_agent.dataset_warnings import warnings_of
from dataset_agent.folder_fault import FolderFault
from dataset_agent.policy_testing import check_table
from dataset_agent.policy_world import expected_file, open_policy_world
from dataset_agent.template_advice import advice
from queries.engine import Engine
from queries.errors import TemplateError
from queries.source_faults import source_faults
from queries.template import Template
from remote_agent.engines import open_engine
from remote_agent.sources import ask_source
from remote_agent.world import template_of

_NO_KEY = bytes(32)  # nothing is executed, so nothing is masked
_STAND_INS: Mapping[str, Any] = {
    "dataset": "dataset",
    "description": "-",
    "tenant": "tenant",
    "version": "0",
    "revision": "0",
    "schema_version": "0",
    "as_of": "2000-01-01T00:00:00Z",
    "freshness": {"maximum_age_s": 1},
    "provenance": {"system": "-", "source": "-"},
}


@dataclass(slots=True)
class Report:
    """What was found in a datasets folder. ``datasets`` are the names of those that are right in themselves.

    Where ``decides`` is false, policies or principals are broken, and none of them could be served.
    """

    datasets: list[str] = field(default_factory=list)
    decides: bool = True
    faults: list[FolderFault] = field(default_factory=list)
    warnings: list[FolderFault] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.faults

    @property
    def served(self) -> list[str]:
        """The datasets that a start would serve."""
        return sorted(self.datasets) if self.decides else []


async def validate_folder(settings: Settings, scratch: Path, *, whole: bool = True) -> Report:
    """Check ``settings.datasets`` as a start of the dataset agent would; database files are built in ``scratch``.

    One that is not ``whole`` has datasets of its policies somewhere else: what they should come to is not judged.
    Raises ``DatasetAgentError`` where the folder cannot be listed.
    """
    report = Report()
    folder = settings.datasets
    found = [item for child in dataset_folders(folder) if (item := examine(child)) is not None]
    if not found:
        report.faults.append(FolderFault(str(folder), "holds no dataset: make one with dataset-agent datasets init"))
    _twice(found, report)
    templates: dict[tuple[str, str], Template] = {}
    for item in found:
        before = len(report.faults)
        loaded = await _dataset(item, settings, scratch, report)
        if item.manifest is not None:
            templates |= {(item.manifest.dataset, name): template for name, template in loaded.items()}
            if len(report.faults) == before:
                report.datasets.append(item.manifest.dataset)
    manifests = {item.manifest.dataset: item.manifest for item in found if item.manifest is not None}
    before = len(report.faults)
    policies, directory = _policies(folder, manifests, report), _directory(folder, report)
    report.decides = len(report.faults) == before
    report.warnings.extend(warnings_of(found, policies, directory, templates))
    if whole and report.ok:  # a dataset that is broken is refused to everybody
        report.faults.extend([fault async for fault in _unexpected(settings)])
    return report


async def _unexpected(settings: Settings) -> AsyncIterator[FolderFault]:
    """Where the expected verdicts beside the policies, if there are any, are not what is decided."""
    path = expected_file(settings.datasets / "policies")
    if not path.exists():
        return
    file = str(path.relative_to(settings.datasets))
    try:
        world = await asyncio.to_thread(open_policy_world, settings, [], None)
        reports = await check_table(world, path)
    except DatasetAgentError as error:
        yield FolderFault(file, error.message.removeprefix(f"{path.name}: "))
        return
    for one in (one for report in reports for one in report.failed):
        expected = one.expected
        place = f"{expected.principal} {expected.dataset} {expected.capability}"
        yield FolderFault(
            file, f"{'; '.join(one.differences)}; correct the policies, or what is expected", expected.line, place
        )


def _twice(found: Sequence[Examined], report: Report) -> None:
    names = [item.manifest.dataset for item in found if item.manifest is not None]
    for item in found:
        if item.manifest is not None and names.count(item.manifest.dataset) > 1:
            line, place = item.document.where(("dataset",))
            message = f"{item.manifest.dataset} is described by another folder too; give each its own name"
            report.faults.append(FolderFault(item.file, message, line, place))


async def _dataset(item: Examined, settings: Settings, scratch: Path, report: Report) -> dict[str, Template]:
    """Its templates by the names of their capabilities, as far as they can be loaded."""
    for fault in item.faults:
        report.faults.append(FolderFault(item.file, fault.message, fault.line, fault.place))
    manifest = item.manifest or _rest(item)
    if manifest is None:
        return {}
    templates = dict(_templates(manifest, item, report))
    if item.manifest is None:
        await asyncio.to_thread(_data, manifest, item, report)
        return templates
    try:
        told = await asyncio.to_thread(ask_source, manifest, item.folder, settings, time.time())
        engine = await asyncio.to_thread(open_engine, told, item.folder, settings, _NO_KEY, scratch)
    except (DatasetAgentError, OSError) as error:
        # What one file does not fit, others may not either.
        if not await asyncio.to_thread(_data, manifest, item, report):
            said = error.message if isinstance(error, DatasetAgentError) else f"{error.filename}: {error.strerror}"
            report.faults.append(FolderFault(item.file, said))
        return templates
    await _tried(engine, manifest, item, list(templates.values()), report)
    return templates


def _rest(item: Examined) -> DatasetManifest | None:
    """What a descriptor with faults says beside them; ``None`` where that is not enough."""
    raw = item.document.value
    if not isinstance(raw, dict) or not isinstance(raw.get("capabilities"), list):
        return None
    held = {**_STAND_INS, **raw}
    for _ in range(3):
        try:
            return DatasetManifest.model_validate(held)
        except ValidationError as error:
            held = _without(held, [problem["loc"] for problem in error.errors(include_url=False)])
    return None


def _without(raw: Mapping[str, Any], faulty: Sequence[tuple[int | str, ...]]) -> dict[str, Any]:
    """Without the capabilities that are faulty, and with stand-ins for other members; tables stay as they are."""
    dropped = {loc[1] for loc in faulty if loc[:1] == ("capabilities",) and len(loc) > 1}
    members = {loc[0] for loc in faulty if loc and loc[0] not in ("capabilities", "tables")}
    held = {name: value for name, value in raw.items() if name not in members}
    held |= {name: value for name, value in _STAND_INS.items() if name in members}
    held["capabilities"] = [item for number, item in enumerate(raw["capabilities"]) if number not in dropped]
    if not faulty or any(not loc for loc in faulty):
        held["policies"] = sorted(
            {str(item.get("policy_id")) for item in held["capabilities"] if isinstance(item, dict)}
        )
    return held


def _templates(manifest: DatasetManifest, item: Examined, report: Report) -> Iterator[tuple[str, Template]]:
    absent = {fault.place for fault in item.faults}
    for capability in manifest.capabilities:
        if not capability.template or any(f"({capability.name}).template" in place for place in absent):
            continue
        try:
            yield capability.name, template_of(capability, manifest, item.folder)
        except TemplateError as error:
            report.faults.append(_template_fault(error, item, manifest))


def _template_fault(error: TemplateError, item: Examined, manifest: DatasetManifest) -> FolderFault:
    file = error.file if error.file.startswith(f"{item.folder.name}/") else f"{item.folder.name}/{error.file}"
    return FolderFault(file, error.reason + advice(error.reason, manifest), error.line)


def _data(manifest: DatasetManifest, item: Examined, report: Report) -> bool:
    """Whether a file does not fit what is declared of it. None is looked at of tables that lie in BigQuery."""
    if manifest.bigquery is not None:
        return False
    numbers = {table.name: number for number, table in enumerate(manifest.tables)}
    before = len(report.faults)
    for table, column, error in source_faults(item.folder, manifest.tables):
        path: tuple[int | str, ...] = ("tables", numbers[table.name], "file")
        if column is not None:
            place = next(number for number, held in enumerate(table.columns) if held.name == column)
            path = ("tables", numbers[table.name], "columns", place)
        line, said = item.document.where(path)
        report.faults.append(FolderFault(item.file, error.message, line, said))
    return len(report.faults) > before


async def _tried(
    engine: Engine, manifest: DatasetManifest, item: Examined, templates: Sequence[Template], report: Report
) -> None:
    """Each template tried on its tables, as a start does."""
    try:
        for template in templates:
            try:
                await engine.check(template)
            except TemplateError as error:
                report.faults.append(_template_fault(error, item, manifest))
            except DatasetAgentError as error:
                report.faults.append(FolderFault(item.file, error.message))
    finally:
        with suppress(DatasetAgentError):
            await engine.close()


def _policies(folder: Path, manifests: Mapping[str, DatasetManifest], report: Report) -> PolicySet | None:
    """The set in force. Every other version is checked as well, since it can be put in force by one word."""
    within = folder / "policies"
    try:
        versions = find_versions(within)
    except PolicyFault as fault:
        report.faults.append(_policy_fault(fault))
        if not (within / CURRENT).exists():  # then the rest of the one set can be looked at all the same
            report.faults.extend(_policy_fault(more) for more in examine_policies(within, version="0")[1])
        return None
    in_force: PolicySet | None = None
    for version in versions.folders:
        found, faults = examine_version(within, versions, version)
        report.faults.extend(_policy_fault(fault) for fault in faults)
        if found is None:
            continue
        policies = PolicySet.of(found.version, found.digest, found.policies)
        for problem in policies.problems(manifests):
            place, _, message = problem.partition(": ")
            file, _, line = place.partition(":")
            report.faults.append(FolderFault(f"policies/{file}", message, int(line) if line.isdecimal() else None))
        if version == versions.current:
            in_force = policies
    return in_force


def _policy_fault(fault: PolicyFault) -> FolderFault:
    return FolderFault(f"policies/{fault.file}".rstrip("/"), fault.problem, fault.line)


def _directory(folder: Path, report: Report) -> Directory | None:
    directory, faults = examine_directory(folder / "principals.yaml")
    for fault in faults:
        report.faults.append(FolderFault("principals.yaml", fault.message, fault.line, fault.place))
    return directory
