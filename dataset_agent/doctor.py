"""``doctor``: what is set up, what is not, and what to do about it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import httpx
import typer

from contract.canonical import InvalidJson, parse_json
from contract.errors import Category, Component, DatasetAgentError
from contract.settings import Settings
from control_plane.identity import refuse_in_production
from control_plane.oidc import OidcVerifier
from control_plane.policy import load_policies
from control_plane.policy_seen import told_apart
from control_plane.principals import load_directory
from control_plane.registry import load_registry
from dataset_agent.configuration import load_settings, unknown_settings
from dataset_agent.console import EXIT_FAULT, AsJson, print_json, progress, table
from dataset_agent.doctor_cache import check_cache
from dataset_agent.doctor_clocks import check_clocks
from dataset_agent.doctor_keys import check_keys
from dataset_agent.doctor_ledgers import check_ledgers
from dataset_agent.doctor_places import check_places
from dataset_agent.doctor_trust import check_trust
from dataset_agent.finding import Finding, acheck, check
from dataset_agent.scratch import database_scratch
from grants.state import STATE_FILE
from grants.state_reading import Held, has_memory, read_memory
from grants.trust import load_trust
from remote_agent.world import check_datasets

_PATIENCE_S: Final = 2.0
_MOST: Final = 64 * 1024


def doctor(as_json: AsJson = False) -> None:
    """Check keys, trust, datasets, policies, stores and the dataset agent; exit 1 where one is broken."""
    settings = load_settings()
    with progress("checking"):
        findings = [*_environment(settings), *_files(settings), *asyncio.run(_opened(settings))]
    if as_json:
        print_json({"home": str(settings.home), "findings": [asdict(finding) for finding in findings]})
    else:
        lines = [_row(finding) for finding in findings]
        table(f"Home: {settings.home}", ("check", "status", "what to do"), lines, lead=("check", "status"))
    if any(finding.status == "broken" for finding in findings):
        raise typer.Exit(EXIT_FAULT)


def _row(finding: Finding) -> tuple[str, str, str]:
    return finding.check, finding.status, finding.advice


def _environment(settings: Settings) -> Iterator[Finding]:
    for name, advice in unknown_settings():
        yield Finding(name, "broken", advice)
    if settings.production:
        yield check("production settings", lambda: refuse_in_production(settings))


def _files(settings: Settings) -> Iterator[Finding]:
    yield check("trust file", lambda: load_trust(settings.trust_path))
    yield from check_keys(settings)
    yield from check_trust(settings)
    yield from check_places(settings)
    yield from check_ledgers(settings)
    yield _policies(settings)
    yield check("principals", lambda: load_directory(settings.datasets / "principals.yaml"))


def _policies(settings: Settings) -> Finding:
    """As a dataset agent checks them before it starts; what is worth knowing is an edit without another version."""
    told: list[str] = []

    def probe() -> None:
        policies = load_policies(settings.datasets / "policies")
        if problems := policies.problems(load_registry(settings.datasets).datasets):
            raise DatasetAgentError(Component.COMMAND, Category.CONFIGURATION, "command.doctor.policies", problems[0])
        told.extend(filter(None, [told_apart(policies, settings.datasets, settings.home)]))

    found = check("policies", probe)
    return Finding(found.check, found.status, told[0]) if told else found


async def _datasets(settings: Settings) -> list[Finding]:
    """Every dataset opened as a dataset agent opens it: data, templates, and each template on its tables."""
    try:
        with database_scratch(settings) as scratch:
            found = await check_datasets(settings, scratch=scratch)
    except DatasetAgentError as error:
        return [Finding("datasets", "broken", error.message)]
    return [Finding(f"dataset {name}", "broken" if why else "ok", why or "") for name, why in sorted(found.items())]


async def _opened(settings: Settings) -> list[Finding]:
    return [
        *await _datasets(settings),
        await _state(settings),
        await check_cache(settings, none_yet=_none_yet(settings, "the first answer makes it")),
        await _agent(settings),
        *[finding async for finding in check_clocks(settings)],
        *await _identity_provider(settings),
    ]


async def _identity_provider(settings: Settings) -> list[Finding]:
    if settings.identity_provider is None:
        return []
    name = f"identity provider {settings.identity_provider.issuer}"
    try:
        verifier = OidcVerifier(settings.identity_provider)
    except DatasetAgentError as error:
        return [Finding(name, "broken", error.message)]
    return [await acheck(name, verifier.probe)]


async def _state(settings: Settings) -> Finding:
    """As it lies there: looking begins no memory, and arms none that was lost."""
    name = "state store"
    if not has_memory(settings):
        return Finding(name, "absent", _none_yet(settings, "dataset-agent serve makes it"))
    if settings.state_url is None and not _writable(settings.home / STATE_FILE):
        return Finding(name, "broken", f"this user may not write {settings.home / STATE_FILE}, or beside it")

    async def told() -> str:
        return _remembers(await read_memory(settings))

    return await acheck(name, told)


def _writable(file: Path) -> bool:
    return os.access(file, os.W_OK) and os.access(file.parent, os.W_OK)


def _remembers(held: Held) -> str:
    if held.lost:
        return (
            "its memory was lost, or its machine or server restarted: the next call arms it anew, and older grants end"
        )
    if held.armed == 0:
        return "nothing is remembered yet: that begins with dataset-agent serve"
    return f"complete since {datetime.fromtimestamp(held.armed, UTC):%Y-%m-%d %H:%M:%SZ}"


def _none_yet(settings: Settings, otherwise: str) -> str:
    return otherwise if settings.home.is_dir() else f"there is no home at {settings.home} yet: dataset-agent keys init"


async def _agent(settings: Settings) -> Finding:
    """The running agent says in its readiness what it could not load."""
    name = f"dataset agent {settings.url}"
    report = await _readiness(f"{settings.url.rstrip('/')}/readyz")
    if report is None:
        return Finding(name, "absent", "not reached: dataset-agent serve, or set DATASET_AGENT_URL")
    if not isinstance(report, dict) or "status" not in report:
        return Finding(name, "broken", "what answers there is no dataset agent: correct DATASET_AGENT_URL")
    if report["status"] != "ready":
        return Finding(name, "broken", "its state store or its ledger does not answer: its log says why")
    if report.get("reload") == "refused":
        return Finding(name, "broken", "its last reload was refused: dataset-agent reload --wait says why")
    if report.get("invalid"):
        advice = f"{report['invalid']} of its datasets are not served: dataset-agent reload --wait says why"
        return Finding(name, "broken", advice)
    if report.get("outdated"):
        advice = f"{report['outdated']} of its datasets are served as before an edit that cannot be used: see the datasets above"
        return Finding(name, "broken", advice)
    workers, serving, restarted = (report.get(f"workers{part}") for part in ("", "_serving", "_restarted"))
    if serving != workers:
        return Finding(name, "broken", f"{serving} of its {workers} workers serve: its log says why the others ended")
    if report.get("cache") == "unavailable":
        return Finding(name, "ok", "its cache store does not answer just now: every call runs")
    ended = f"{restarted} of its workers ended and were started again: its log says why"
    return Finding(name, "ok", ended if restarted else "")


async def _readiness(url: str) -> Any:
    """What is said there: JSON, text where it is none, ``None`` where nothing answers."""
    body = b""
    try:
        async with (
            asyncio.timeout(_PATIENCE_S),
            httpx.AsyncClient(timeout=_PATIENCE_S, trust_env=False) as http,
            http.stream("GET", url) as answer,
        ):
            async for piece in answer.aiter_bytes():
                body += piece
                if len(body) > _MOST:
                    return "endless"
    except (httpx.HTTPError, httpx.InvalidURL, OSError):  # TimeoutError is an OSError
        return None
    try:
        return parse_json(body, limit=_MOST) or "nothing"
    except InvalidJson:
        return "something else"
