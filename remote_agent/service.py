"""The collaborators of the request path, built in one place from one ``Settings``.

``World`` is what is served at one moment: descriptors, templates, engines, principals and
the policy evaluator. A reload builds a new one and swaps it; a request keeps the one it
started with.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Protocol

from approvals.book import ApprovalBook
from approvals.seal import Seal
from approvals.store import MemoryApprovals
from cache.result_cache import ResultCache
from contract.authority import Authority
from contract.ids import is_slug
from contract.signing import Signer
from contract.tracing import Traces
from control_plane.descriptor import DatasetDescriptor
from control_plane.evaluator import Evaluator
from control_plane.manifest import CapabilityManifest
from control_plane.principals import Directory
from control_plane.registry import InvalidDataset
from delegation.reply import Reply
from delegation.sending import Plan, Sent
from evidence.ledger import Ledger
from grants.jwks import PublishedKeys
from grants.state import StateStore
from grants.trust import Trust, TrustedAgent
from queries.engine import Engine
from queries.rollup_plan import RollupPlan
from queries.template import Template
from quota.limiter import Limiter
from remote_agent.measures import Measures
from remote_agent.refreshes import Refreshes
from remote_agent.spool import Spool


@dataclass(frozen=True, slots=True)
class ServedCapability:
    """A capability with its validated template.

    ``rollup`` is there where its narrower and coarser calls are proven to follow from a stored result.
    ``source`` is a digest of all that it was made from, so that a reload does not make it anew where nothing of that changed.
    """

    descriptor: CapabilityManifest
    template: Template
    rollup: RollupPlan | None = None
    source: str = ""


@dataclass(frozen=True, slots=True)
class ServedDataset:
    """A dataset version that is open for execution.

    ``folder`` is the name of the folder it was read from, ``columns`` are those of its base
    tables, as ``table.column``. ``mask_id`` names the key that its engine masks with.
    """

    descriptor: DatasetDescriptor
    capabilities: Mapping[str, ServedCapability]
    engine: Engine
    folder: str = ""
    columns: frozenset[str] = frozenset()
    mask_id: str = ""

    @property
    def as_of(self) -> str:
        return _instant(self.descriptor.as_of)


@lru_cache(maxsize=256)
def _instant(as_of: datetime) -> str:
    return as_of.strftime("%Y-%m-%dT%H:%M:%S.%fZ").rjust(27, "0")


@dataclass(frozen=True, slots=True)
class World:
    """Everything that may change on a reload, as one value.

    ``invalid`` maps a dataset that could not be loaded to one line that says why. ``outdated``
    does so for those that are served as they were before an edit that cannot be used.
    """

    datasets: Mapping[str, ServedDataset]
    invalid: Mapping[str, str]
    directory: Directory
    evaluator: Evaluator
    policy_version: str
    generation: int
    outdated: Mapping[str, str] = field(default_factory=dict)

    @property
    def broken(self) -> frozenset[str]:
        """Those of ``invalid`` that are names of datasets: a card with any other is none, for everybody on it."""
        return frozenset(name for name in self.invalid if is_slug(name) and name not in self.datasets)

    def lookup(self, dataset: str) -> DatasetDescriptor | InvalidDataset | None:
        """The served descriptor, the fact that it is broken, or ``None`` where there is none."""
        served = self.datasets.get(dataset)
        if served is not None:
            return served.descriptor
        if dataset in self.invalid:
            return InvalidDataset(dataset, self.invalid[dataset])
        return None

    def revision(self, dataset: str) -> str | None:
        """The one that is served; ``None`` where none is."""
        served = self.datasets.get(dataset)
        return None if served is None else served.descriptor.revision


@dataclass(frozen=True, slots=True)
class Errand:
    """One call that another dataset agent is asked, under the name this agent gives the asking.

    ``prepare`` derives the leaf at the moment the call leaves; ``timeout`` is in seconds.
    """

    name: str
    plan: Plan
    prepare: Callable[[], Sent] = field(repr=False)
    timeout: float


class Upstreams(Protocol):
    """How this agent asks other dataset agents. What travels by A2A and ADK does so behind it."""

    async def descriptor(
        self, agent: TrustedAgent, dataset: str, now: float, *, anew: bool = False
    ) -> DatasetDescriptor | None:
        """A dataset as the agent's verified card describes it, ``None`` where it does not; ``anew`` fetches the card.

        Raises ``NotGranted`` with REMOTE_UNREACHABLE, REMOTE_UNAVAILABLE, REMOTE_TIMEOUT or REMOTE_CARD_INVALID.
        """
        ...

    def headers(self, audience: str, grant: str, trace_id: str, now: float) -> Mapping[str, str]:
        """What goes on the wire beside one call: who sends it, under which grant, in which trace."""
        ...

    async def ask(self, authority: Authority, errand: Errand) -> tuple[Sent | None, Reply]:
        """Send one call once. What was sent, ``None`` for nothing; the reply is not verified yet."""
        ...

    def forget(self, agents: Iterable[str]) -> None:
        """Fetch these agents' cards again the next time."""
        ...

    async def close(self) -> None:
        """Give back connections."""
        ...


@dataclass(slots=True)
class Service:
    """What one dataset agent works with. Only ``world``, ``trust`` and ``mask_id`` are ever replaced.

    ``upstreams`` is ``None`` for an agent that asks no other. ``call_timeout`` is how long it
    waits for one, ``leaf_ttl`` how long what it derives lives, in seconds. ``public_url`` is
    where its large results are fetched, without a trailing slash. ``mask_id`` is of the mask key
    that goes with the cache's present keys: rows that were masked with another are not stored.
    """

    agent_id: str
    world: World
    trust: Trust
    signer: Signer
    state: StateStore
    cache: ResultCache
    ledger: Ledger
    max_result_bytes: int
    cache_enabled: bool = True
    upstreams: Upstreams | None = None
    call_timeout: float = 60.0
    leaf_ttl: int = 60
    spool: Spool = field(default_factory=Spool.none)
    public_url: str = ""
    mask_id: str = ""
    published_keys: PublishedKeys = field(default_factory=PublishedKeys)
    measures: Measures = field(default_factory=Measures, repr=False)
    traces: Traces = field(default_factory=Traces, repr=False)
    refreshes: Refreshes = field(default_factory=Refreshes)
    limiter: Limiter = field(default_factory=Limiter.unlimited, repr=False)
    approvals: ApprovalBook = field(default_factory=lambda: _forgetful())
    clock: Callable[[], float] = time.time


def _forgetful() -> ApprovalBook:
    """Approvals of this process alone, gone with it."""
    return ApprovalBook(MemoryApprovals(), Seal("", [secrets.token_bytes(32)]), ttl=3_600.0)
