"""``doctor``: what is set up, what is not, and what to do about it."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import httpx
import typer

from cache.opening import open_store
from contract.errors import Category, Component, DatasetAgentError
from contract.settings import Settings
from control_plane.identity import refuse_in_production
from control_plane.oidc import OidcVerifier
from control_plane.policy import load_policies
from control_plane.principals import load_directory
from control_plane.registry import load_registry
from dataset_agent.configuration import load_settings, unknown_settings
from dataset_agent.console import EXIT_FAULT, AsJson, print_json, progress, table
from dataset_agent.doctor_clocks import check_clocks
from dataset_agent.doctor_keys import check_keys
from dataset_agent.doctor_places import check_places
from dataset_agent.doctor_trust import check_trust
from dataset_agent.evidence_commands import Side, ledger_keys, ledger_path
from dataset_agent.finding import Finding, acheck, check
from evidence.reader import LedgerFile
from grants.state import open_state
from grants.state_look import armed_at
from grants.trust import load_trust
from remote_agent.world import check_datasets, engines_folder


def doctor(as_json: AsJson = False) -> None:
    """Check keys, trust, datasets, policies, stores and the dataset agent; exit 1 where one is broken."""
    settings = load_settings()
    with progress("checking"):
        findings = [*_environment(settings), *_files(settings), *asyncio.run(_opened(settings))]
    if as_json:
        print_json({"home": str(settings.home), "findings": [asdict(finding) for finding in findings]})
    else:
        table(f"Home: {settings.home}", ("check", "status", "what to do"), [_row(finding) for finding in findings])
    if any(finding.status == "broken" for finding in findings):
        raise typer.Exit(EXIT_FAULT)


def _row(finding: Finding) -> tuple[str, str, str]:
    return finding.check, finding.status, finding.advice


def _environment(settings: Settings) -> Iterator[Finding]:
    for name in unknown_settings():
        yield Finding(name, "broken", "is no setting: correct its name or unset it")
    if settings.production:
        yield check("production settings", lambda: refuse_in_production(settings))


def _files(settings: Settings) -> Iterator[Finding]:
    yield check("trust file", lambda: load_trust(settings.trust_path))
    yield from check_keys(settings)
    yield from check_trust(settings)
    yield from check_places(settings)
    yield from _ledgers(settings)
    yield check("policies", lambda: _policies(settings))
    yield check("principals", lambda: load_directory(settings.datasets / "principals.yaml"))


def _ledgers(settings: Settings) -> Iterator[Finding]:
    """Whether the ledgers that are there can be continued; ``evidence verify`` reads every row."""
    if not settings.trust_path.exists():
        return
    for side in Side:
        file = LedgerFile(ledger_path(settings, side))
        if file.path.exists():
            yield check(
                f"{side} ledger",
                lambda file=file, side=side: file.trusted_checkpoint(ledger_keys(settings, side)),  # type: ignore[misc]
            )


def _policies(settings: Settings) -> None:
    """As a dataset agent checks them before it starts."""
    problems = load_policies(settings.datasets / "policies").problems(load_registry(settings.datasets).datasets)
    if problems:
        raise DatasetAgentError(Component.COMMAND, Category.CONFIGURATION, "command.doctor.policies", problems[0])


async def _datasets(settings: Settings) -> list[Finding]:
    """Every dataset opened as a dataset agent opens it: data, templates, and each template on its tables."""
    try:
        with _scratch(settings) as scratch:
            found = await check_datasets(settings, scratch=scratch)
    except DatasetAgentError as error:
        return [Finding("datasets", "broken", error.message)]
    return [Finding(f"dataset {name}", "broken" if why else "ok", why or "") for name, why in sorted(found.items())]


@contextmanager
def _scratch(settings: Settings) -> Iterator[Path]:
    """The database files of a dataset agent that runs here as this user; elsewhere nothing is left behind."""
    own = engines_folder(settings)
    if own.is_dir() and own.stat().st_uid == os.geteuid() and os.access(own, os.W_OK):
        yield own
        return
    with tempfile.TemporaryDirectory(prefix="dataset-agent-doctor-") as folder:
        yield Path(folder)


async def _opened(settings: Settings) -> list[Finding]:
    return [
        *await _datasets(settings),
        await _store("state store", settings, settings.state_url, _state),
        await _store("cache store", settings, settings.cache_url, _cache),
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


async def _store(
    name: str, settings: Settings, url: str | None, probe: Callable[[Settings], Awaitable[str | None]]
) -> Finding:
    if url is None and not settings.home.is_dir():  # looking makes no home
        return Finding(name, "absent", f"there is no home at {settings.home} yet: dataset-agent keys init")
    return await acheck(name, lambda: probe(settings))


async def _state(settings: Settings) -> str | None:
    state = open_state(settings)
    try:
        await state.health()
    finally:
        await state.close()
    armed = await armed_at(settings)
    return None if armed is None else f"complete since {datetime.fromtimestamp(armed, UTC):%Y-%m-%d %H:%M:%SZ}"


async def _cache(settings: Settings) -> None:
    store = open_store(settings)
    try:
        await store.health()
    finally:
        await store.close()


async def _agent(settings: Settings) -> Finding:
    """The running agent says in its readiness what it could not load."""
    name = f"dataset agent {settings.url}"
    try:
        async with httpx.AsyncClient(timeout=2.0, trust_env=False) as http:
            report = (await http.get(f"{settings.url.rstrip('/')}/readyz")).json()
    except (httpx.HTTPError, ValueError):
        return Finding(name, "absent", "not reached: dataset-agent serve, or set DATASET_AGENT_URL")
    if report.get("status") != "ready":
        return Finding(name, "broken", "its state store or its ledger does not answer: its log says why")
    if report.get("reload") == "refused":
        return Finding(name, "broken", "its last reload was refused: dataset-agent reload --wait says why")
    if report.get("invalid"):
        advice = f"{report['invalid']} of its datasets are not served: dataset-agent reload --wait says why"
        return Finding(name, "broken", advice)
    return Finding(name, "ok")
