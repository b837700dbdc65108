"""The collaborators of the request path, built in one place from one ``Settings``.

``World`` is what is served at one moment: descriptors, templates, engines, principals and
the policy evaluator. A reload builds a new one and swaps it; a request keeps the one it
started with.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from cache.result_cache import ResultCache
from contract.signing import Signer
from control_plane.descriptor import CapabilityManifest, DatasetDescriptor
from control_plane.evaluator import Evaluator
from control_plane.principals import Directory
from control_plane.registry import InvalidDataset
from evidence.ledger import Ledger
from grants.jwks import PublishedKeys
from grants.state import StateStore
from grants.trust import Trust
from queries.engine import Engine
from queries.template import Template


@dataclass(frozen=True, slots=True)
class ServedCapability:
    """A capability with its validated template."""

    descriptor: CapabilityManifest
    template: Template


@dataclass(frozen=True, slots=True)
class ServedDataset:
    """A dataset version that is open for execution."""

    descriptor: DatasetDescriptor
    capabilities: Mapping[str, ServedCapability]
    engine: Engine

    @property
    def as_of(self) -> str:
        return self.descriptor.as_of.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@dataclass(frozen=True, slots=True)
class World:
    """Everything that may change on a reload, as one value.

    ``invalid`` maps a dataset that could not be loaded to one line that says why.
    """

    datasets: Mapping[str, ServedDataset]
    invalid: Mapping[str, str]
    directory: Directory
    evaluator: Evaluator
    policy_version: str
    generation: int

    def lookup(self, dataset: str) -> DatasetDescriptor | InvalidDataset | None:
        """The served descriptor, the fact that it is broken, or ``None`` where there is none."""
        served = self.datasets.get(dataset)
        if served is not None:
            return served.descriptor
        if dataset in self.invalid:
            return InvalidDataset(dataset, self.invalid[dataset])
        return None


@dataclass(slots=True)
class Service:
    """What one dataset agent works with. Only ``world`` is ever replaced."""

    agent_id: str
    world: World
    trust: Trust
    signer: Signer
    state: StateStore
    cache: ResultCache
    ledger: Ledger
    max_result_bytes: int
    cache_enabled: bool = True
    published_keys: PublishedKeys = field(default_factory=PublishedKeys)
    clock: Callable[[], float] = time.time
