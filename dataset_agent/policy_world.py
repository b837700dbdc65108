"""What ``policy explain`` and ``policy test`` decide by: the files of a datasets folder, and the evaluator that is asked."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from contract.address import UnsafeUrl, plain_url, secure_url
from contract.errors import Category, Component, DatasetAgentError
from contract.settings import Settings
from control_plane.admission import AdmissionRequest, EvaluatorFailure, ask_policies
from control_plane.cedar_versions import find_versions
from control_plane.descriptor import DatasetDescriptor
from control_plane.evaluator import HttpEvaluator, InProcessEvaluator
from control_plane.policy import PolicyAnswer, PolicyRequest, PolicySet, load_policies
from control_plane.policy_explain import Ask
from control_plane.principals import Directory, load_directory
from control_plane.registry import InvalidDataset, Registry, load_registry
from remote_agent.sources import ask_source

EXPECTED: Final = "expected.yaml"
_PATIENCE_S: Final = 10.0
"""An explanation is no call: a budget that is too short for a cold start would explain nothing."""


@dataclass(frozen=True, slots=True)
class PolicyWorld:
    """People, datasets and the policies of the versions that were asked for, the first one first."""

    directory: Directory
    registry: Registry
    sets: tuple[PolicySet, ...]
    in_force: str
    settings: Settings
    url: str | None

    def descriptor(self, dataset: str) -> DatasetDescriptor | InvalidDataset | None:
        """As it is served: with the revision and the age that its source has now."""
        found = self.registry.lookup(dataset)
        if found is None or isinstance(found, InvalidDataset):
            return found
        try:
            return ask_source(found, self.registry.path(dataset), self.settings, time.time())
        except DatasetAgentError as error:
            return InvalidDataset(dataset, error.message)

    def request(self, principal: str, dataset: str, capability: str, version: str, now: float) -> AdmissionRequest:
        """A call of a person by name, as a dataset agent would decide it."""
        return AdmissionRequest(
            principal=self.directory.named(principal),
            dataset=dataset,
            capability=capability,
            descriptor=self.descriptor(dataset),
            policy_version=version,
            now=now,
        )

    @property
    def classes(self) -> tuple[str, ...]:
        return tuple(sorted({person.principal_class for person in self.directory.by_name.values()}))


def server_of(settings: Settings, versions: Sequence[str], evaluator: str | None) -> str | None:
    """The policy server to ask: the one of ``--evaluator``, else that of the settings, where no version is asked for.

    Raises INVALID_INPUT for an option that is no address to ask at.
    """
    if evaluator is None:
        return None if versions else settings.policy_url
    try:
        (plain_url if settings.private_network else secure_url)(evaluator)
    except UnsafeUrl as why:
        raise _fault(Category.INVALID_INPUT, "evaluator", f"--evaluator cannot be asked: {why}") from None
    return evaluator


def open_policy_world(settings: Settings, versions: Sequence[str], url: str | None) -> PolicyWorld:
    """The world of the datasets folder. ``versions`` are those to decide by, none: the one in force; ``all`` is every one.

    ``url`` is of a policy server that is asked instead. Raises CONFIGURATION as a start would, and NOT_FOUND for a
    version that is not there.
    """
    folder = settings.datasets / "policies"
    found = find_versions(folder)
    wanted = list(found.folders) if list(versions) == ["all"] else list(dict.fromkeys(versions)) or [found.current]
    if unknown := [version for version in wanted if versions and version not in found.folders]:
        known = ", ".join(found.folders)
        raise _fault(Category.NOT_FOUND, "version", f"there is no policy version {unknown[0]}; known: {known}")
    return PolicyWorld(
        directory=load_directory(settings.datasets / "principals.yaml"),
        registry=load_registry(settings.datasets),
        sets=tuple(load_policies(folder, version) for version in wanted),
        in_force=found.current,
        settings=settings,
        url=url,
    )


@asynccontextmanager
async def asking(world: PolicyWorld) -> AsyncIterator[Ask]:
    """Asks a set of this side in process, or the policy server, whose connection is closed at the end."""
    server = None
    if world.url is not None:
        server = HttpEvaluator(world.url, _PATIENCE_S, private_network=world.settings.private_network)

    async def ask(policies: PolicySet | None, question: PolicyRequest) -> PolicyAnswer | EvaluatorFailure:
        if policies is not None:
            return await ask_policies(InProcessEvaluator(policies, _PATIENCE_S), question)
        if server is None:
            raise TypeError("there are neither policies nor a server to ask")
        return await ask_policies(server, question)

    try:
        yield ask
    finally:
        if server is not None:
            await server.close()


def expected_file(folder: Path) -> Path:
    """Where the expected verdicts of the set in force stand: beside its policies, else beside all versions.

    Raises CONFIGURATION where no set is in force.
    """
    found = find_versions(folder)
    beside = found.folders[found.current] / EXPECTED
    return beside if beside.exists() else folder / EXPECTED


def _fault(category: Category, what: str, message: str) -> DatasetAgentError:
    return DatasetAgentError(Component.COMMAND, category, f"command.policy.{what}", message)
