"""Builds the ``World`` from its folder: a broken dataset is listed, the others are served."""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Final

from contract.canonical import sha256_hex
from contract.errors import Category, Component, DatasetAgentError
from contract.files import OutsideFolder, open_inside
from contract.scope import Sensitivity
from contract.settings import Settings
from control_plane.evaluator import Evaluator, HttpEvaluator, InProcessEvaluator
from control_plane.manifest import CapabilityManifest, DatasetManifest
from control_plane.policy import PolicySet, load_policies
from control_plane.policy_seen import told_apart
from control_plane.principals import Directory, load_directory
from control_plane.registry import Registry, load_registry
from queries.engine import Engine
from queries.rollup_proof import prove_rollup
from queries.supplied import SuppliedRelation
from queries.template import Template, TemplateError, load_template
from remote_agent.engines import open_engine
from remote_agent.service import ServedCapability, ServedDataset, World
from remote_agent.sources import ask_source, check_unchanged

log = logging.getLogger(__name__)
_NONE: Final[Mapping[str, ServedCapability]] = MappingProxyType({})
_UNUSED_MASK_KEY: Final = bytes(32)  # where nothing is executed, nothing is masked


async def load_world(settings: Settings, *, generation: int, mask_key: bytes, before: World | None = None) -> World:
    """Descriptors, templates, engines, principals and policies as they are on disk now.

    Raises ``DatasetAgentError`` where principals or policies are broken: without them no
    decision is possible. A broken dataset lands in ``invalid``, and so does one without the columns
    that a policy names; one that is served ``before`` goes on as it was, with its engine, and
    lands in ``outdated``.
    """
    policies, directory, registry = await asyncio.to_thread(_read, settings.datasets)
    if told := await asyncio.to_thread(told_apart, policies, settings.datasets, settings.home, remember=True):
        log.warning(told)
    unfit = _unfit(policies, registry, before)
    datasets: dict[str, ServedDataset] = {}
    invalid, kept = dict(registry.invalid), _made(before)
    scratch = engines_folder(settings)
    for name in registry.datasets:
        if name in unfit:
            opened: ServedDataset | str = unfit[name]
        elif _is_taken(before, name, registry):
            opened = f"{name} is served from another folder, which is faulty: give this one its own"
        else:
            opened = await _open(registry, name, settings, mask_key, scratch, kept)
        if isinstance(opened, str):
            invalid[name] = opened
        else:
            datasets[name] = opened
    evaluator = evaluator_for(settings, policies)
    if isinstance(evaluator, HttpEvaluator):
        await evaluator.warm()
    outdated = _go_on(before, registry, datasets, invalid)
    for name, why in invalid.items():
        log.warning("dataset %s is not served: %s", name, why)
    for name, why in outdated.items():
        log.warning("dataset %s is served as it was before an edit: %s", name, why)
    return World(
        datasets=MappingProxyType(datasets),
        invalid=MappingProxyType(invalid),
        directory=directory,
        evaluator=evaluator,
        policy_version=policies.version,
        generation=generation,
        outdated=MappingProxyType(outdated),
    )


def _made(before: World | None) -> dict[str, ServedCapability]:
    """What was made of templates for the world that is served, by what it was made from."""
    served = before.datasets.values() if before is not None else ()
    return {item.source: item for dataset in served for item in dataset.capabilities.values()}


def _unfit(policies: PolicySet, registry: Registry, before: World | None) -> dict[str, str]:
    """Datasets that lack a column by which a policy withholds something, and which column that is.

    It is a dataset's fault where the column was there before, or where the policy is of that
    dataset and nothing was served before: that dataset is not served like this, and the rest of
    what was edited is taken over. Anything else is the policy's. Raises ``DatasetAgentError``.
    """
    unfit: dict[str, str] = {}
    for problem in policies.unknown_columns(registry.datasets):
        had = {
            name
            for name, served in (before.datasets if before is not None else {}).items()
            if problem.dataset in (None, name) and problem.column in served.columns
        }
        if before is None and problem.dataset is not None:
            had = {problem.dataset}
        if not had:
            raise DatasetAgentError(
                Component.REMOTE_AGENT, Category.CONFIGURATION, "remote_agent.policies", str(problem)
            )
        unfit |= {name: str(problem) for name in had if name in registry.datasets}
    return unfit


def _is_taken(before: World | None, name: str, registry: Registry) -> bool:
    """Whether the dataset is served from a folder that is there and faulty, so that no other stands in for it."""
    served = None if before is None else before.datasets.get(name)
    return served is not None and served.folder != registry.path(name).name and served.folder in registry.faults


def _go_on(
    before: World | None, registry: Registry, datasets: dict[str, ServedDataset], invalid: dict[str, str]
) -> dict[str, str]:
    """Take over what was served and whose folder is broken now, and why it is. One whose folder is gone is not."""
    outdated: dict[str, str] = {}
    for name, served in before.datasets.items() if before is not None else ():
        why = registry.faults.get(served.folder)
        if why is None and name in registry.datasets and registry.path(name).name == served.folder:
            why = invalid.get(name)  # its folder is right, and what is in it cannot be opened
        if name not in datasets and why is not None:
            datasets[name], outdated[name] = served, why
            invalid.pop(name, None)
            invalid.pop(served.folder, None)
    return outdated


async def check_datasets(settings: Settings, *, scratch: Path) -> dict[str, str | None]:
    """What keeps each dataset of the folder from being served, ``None`` where nothing does.

    Every dataset is opened as ``load_world`` opens it, and closed again: without keys,
    policies or a running service. Database files that are missing are built in ``scratch``.
    Raises ``DatasetAgentError`` where the folder cannot be listed.
    """
    registry = await asyncio.to_thread(load_registry, settings.datasets)
    found: dict[str, str | None] = dict(registry.invalid)
    for name in registry.datasets:
        opened = await _open(registry, name, settings, _UNUSED_MASK_KEY, scratch)
        found[name] = opened if isinstance(opened, str) else None
        if isinstance(opened, ServedDataset):
            await opened.engine.close()
    return found


def mask_id(mask_key: bytes) -> str:
    """A name for a mask key that reveals nothing of it."""
    return hmac.digest(mask_key, b"dataset-agent/mask-id/1", "sha256").hex()[:16]


def engines_folder(settings: Settings) -> Path:
    """Where a dataset agent of this home keeps the database files it builds."""
    return settings.home / "remote" / "engines"


def _read(folder: Path) -> tuple[PolicySet, Directory, Registry]:
    return load_policies(folder / "policies"), load_directory(folder / "principals.yaml"), load_registry(folder)


def evaluator_for(settings: Settings, policies: PolicySet) -> Evaluator:
    """The policy server where one is configured, else the same policies in process."""
    if settings.policy_url:
        return HttpEvaluator(settings.policy_url, settings.policy_budget, private_network=settings.private_network)
    return InProcessEvaluator(policies, settings.policy_budget)


async def _open(
    registry: Registry,
    name: str,
    settings: Settings,
    mask_key: bytes,
    scratch: Path,
    kept: Mapping[str, ServedCapability] = _NONE,
) -> ServedDataset | str:
    """The dataset, open; or in one line why it cannot be served."""
    manifest, folder = registry.datasets[name], registry.path(name)
    try:
        # Digests, building and parsing take seconds of CPU: requests are answered meanwhile.
        told = await asyncio.to_thread(ask_source, manifest, folder, settings, time.time())
        engine = await asyncio.to_thread(open_engine, told, folder, settings, mask_key, scratch)
        try:
            await asyncio.to_thread(check_unchanged, manifest, told, folder, settings)
        except BaseException:
            await engine.close()
            raise
        return replace(await _checked(told, folder, engine, kept), mask_id=mask_id(mask_key))
    except DatasetAgentError as error:
        return error.message
    except OSError as error:
        return f"{error.filename or folder}: {error.strerror}"
    except Exception as error:  # whatever it is, the others are served; its text may be from a file
        log.error("dataset %s cannot be opened: %s", name, type(error).__name__)
        return f"{folder.name}: it cannot be opened ({type(error).__name__})"


async def _checked(
    manifest: DatasetManifest, folder: Path, engine: Engine, kept: Mapping[str, ServedCapability]
) -> ServedDataset:
    """The dataset with every template loaded, and each tried on its tables."""
    try:
        served = await asyncio.to_thread(
            lambda: {c.name: served_capability(c, manifest, folder, kept) for c in manifest.capabilities if c.template}
        )
        for capability in served.values():
            await engine.check(capability.template)
    except BaseException:
        await engine.close()
        raise
    return ServedDataset(
        descriptor=manifest.published(),
        capabilities=MappingProxyType(served),
        engine=engine,
        folder=folder.name,
        columns=frozenset(f"{table.name}.{column.name}" for table in manifest.tables for column in table.columns),
    )


def served_capability(
    capability: CapabilityManifest,
    manifest: DatasetManifest,
    folder: Path,
    kept: Mapping[str, ServedCapability] = _NONE,
) -> ServedCapability:
    """Its template, loaded, and its rollup, proven; the one of ``kept`` that was made from the same.

    Raises ``TemplateError`` and what ``prove_rollup`` raises.
    """
    sql, declared = _sql_of(capability, folder), capability.rollup
    source = _source(sql, capability, manifest, folder)
    if (held := kept.get(source)) is not None:
        return held
    template = _load(sql, capability, manifest)
    return ServedCapability(capability, template, prove_rollup(template, declared) if declared else None, source)


def template_of(capability: CapabilityManifest, manifest: DatasetManifest, folder: Path) -> Template:
    """The capability's template, loaded. Raises ``TemplateError``."""
    return _load(_sql_of(capability, folder), capability, manifest)


def _sql_of(capability: CapabilityManifest, folder: Path) -> str:
    name = f"{folder.name}/{capability.template}"
    try:
        with (
            open_inside(folder, str(capability.template)) as file,
            open(file.fileno(), encoding="utf-8", closefd=False) as text,
        ):
            return text.read()
    except OutsideFolder as error:
        raise TemplateError(name, None, "the template lies outside the dataset's folder") from error
    except (OSError, RuntimeError, ValueError) as error:
        raise TemplateError(name, None, "the template cannot be read: is it there, and UTF-8?") from error


def _source(sql: str, capability: CapabilityManifest, manifest: DatasetManifest, folder: Path) -> str:
    """A digest of everything that a capability is made from: its text, what it declares, and every table of the dataset."""
    tables = [table.model_dump_json() for table in manifest.tables]
    parts = [folder.name, manifest.dataset, sql, capability.model_dump_json(), *tables]
    return sha256_hex(json.dumps(parts).encode())


def _load(sql: str, capability: CapabilityManifest, manifest: DatasetManifest) -> Template:
    return load_template(
        sql,
        name=str(capability.template),
        dataset=manifest.dataset,
        tables=manifest.tables,
        parameters=capability.parameters,
        results=capability.results,
        ceiling=Sensitivity(capability.sensitivity),
        supplied=SuppliedRelation(supply.table, supply.columns) if (supply := capability.supply) else None,
        minimum_group=capability.minimum_group,
    )


async def close_world(world: World, *, beside: Iterable[World] = ()) -> None:
    """Close every engine and the connection to a policy server; queries still running are interrupted.

    Engines that a world of ``beside`` works with too stay open.
    """
    used = {id(served.engine) for other in beside for served in other.datasets.values()}
    for served in world.datasets.values():
        if id(served.engine) not in used:
            await served.engine.close()
    if isinstance(world.evaluator, HttpEvaluator):
        await world.evaluator.close()
