"""One dataset as it would be served, with nothing behind it that could run: to explain keys where nothing is served."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Any, NoReturn

from contract.errors import Category, Component, DatasetAgentError
from contract.settings import Settings
from control_plane.policy import load_policies
from control_plane.principals import load_directory
from control_plane.registry import load_registry
from queries.engine import Load
from remote_agent.service import ServedDataset, World
from remote_agent.sources import ask_source
from remote_agent.world import close_world, evaluator_for, served_capability


class _NoEngine:
    """An ``Engine`` that runs nothing."""

    load = Load(0)

    def stream(self, *_: Any, **__: Any) -> NoReturn:
        raise DatasetAgentError(
            Component.REMOTE_AGENT, Category.INTERNAL, "remote_agent.admin.engine", "nothing runs here"
        )

    async def check(self, template: object) -> NoReturn:
        self.stream(template)

    async def close(self) -> None:
        return


@asynccontextmanager
async def described_world(settings: Settings, dataset: str) -> AsyncIterator[World]:
    """Principals, policies and one dataset, or none where it is not there, as their files are now.

    Raises ``DatasetAgentError`` where one is broken.
    """
    world = await asyncio.to_thread(_described, settings, dataset)
    try:
        yield world
    finally:
        await close_world(world)


def _described(settings: Settings, dataset: str) -> World:
    policies = load_policies(settings.datasets / "policies")
    registry = load_registry(settings.datasets)
    datasets: dict[str, ServedDataset] = {}
    if dataset in registry.datasets:
        folder = registry.path(dataset)
        manifest = ask_source(registry.datasets[dataset], folder, settings, time.time())
        capabilities = {
            capability.name: served_capability(capability, manifest, folder)
            for capability in manifest.capabilities
            if capability.template
        }
        datasets[dataset] = ServedDataset(
            manifest.published(), MappingProxyType(capabilities), _NoEngine(), folder.name
        )
    return World(
        datasets=MappingProxyType(datasets),
        invalid=registry.invalid,
        directory=load_directory(settings.datasets / "principals.yaml"),
        evaluator=evaluator_for(settings, policies),
        policy_version=policies.version,
        generation=0,
    )
