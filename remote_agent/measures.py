"""What a dataset agent counts and times. No label holds anything that a request brought.

Whether a result of a restricted capability was stored says that somebody asked before. So of such
a call there is nothing in here by which one that was found differs from one that ran: its outcome is
WITHHELD, and neither how long it took, nor the steps that find or run, nor a lookup is told.
"""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter
from typing import Final

from cache.found import MISS_REASONS
from contract.result import CacheOutcome
from contract.verdict import Decision, Reason
from metrics.common import OUTCOME_OF, OUTCOMES, build_info
from metrics.folder import TableFile
from metrics.table import Kind, Label, Metric, Table
from remote_agent.steps import Step, Steps, under_way

_P: Final = "dataset_agent"
BUILD: Final = build_info(_P)
REQUESTS: Final = Metric(
    f"{_P}_requests",
    Kind.COUNTER,
    "Requests that were answered, by how they ended; every one of them has a row of evidence.",
    ("verdict", "reason"),
    OUTCOMES,
)
IN_FLIGHT: Final = Metric(f"{_P}_requests_in_flight", Kind.GAUGE, "Requests on their path just now.")
REQUEST_SECONDS: Final = Metric(
    f"{_P}_request_seconds", Kind.HISTOGRAM, "From a verified client to the outcome, without restricted capabilities."
)
STEP_SECONDS: Final = Metric.by(
    f"{_P}_step_seconds",
    Kind.HISTOGRAM,
    "Each step of the path, once for each request that came to it; find and run without restricted capabilities.",
    "step",
    (step.name.lower() for step in Step),
)
REFUSED_DOORS: Final = Metric.by(
    f"{_P}_unauthenticated",
    Kind.COUNTER,
    "Requests that were answered with 401, by whose door they came to.",
    "door",
    ("clients", "admin", "metrics"),
)
LIMITED: Final = Metric(
    f"{_P}_limited",
    Kind.COUNTER,
    "Requests that were over a limit of their client agent, or of the person.",
    ("caller", "limit"),
    tuple((caller, limit) for caller in ("agent", "person") for limit in ("rate", "running")),
)
_OF_GRANTS: Final = frozenset({Reason.NO_ACTIVE_GRANT, Reason.KEYS_UNAVAILABLE, Reason.REPLAY_MEMORY_LOST})
_GRANT: Final[Mapping[Reason, Label]] = {
    reason: ((reason.value if reason.value.startswith("GRANT_") or reason in _OF_GRANTS else "verified"),)
    for reason in Reason
}
GRANTS: Final = Metric(
    f"{_P}_grants_checked",
    Kind.COUNTER,
    "Requests by what was found of their grant: verified, or the reason for which it does not hold.",
    ("outcome",),
    tuple(dict.fromkeys(_GRANT.values())),
)
CACHE: Final = Metric.by(
    f"{_P}_cache_outcomes",
    Kind.COUNTER,
    "Granted calls by how their result was found; of restricted capabilities that is withheld.",
    "outcome",
    ("HIT", "STALE", "DERIVED", "MISS", "OFF", "WITHHELD"),
)
LOOKUPS: Final = Metric.by(
    f"{_P}_cache_events",
    Kind.COUNTER,
    "What lookups found, and results that were kept or refreshed, without restricted capabilities.",
    "event",
    ("hit", "derived", "stale", *MISS_REASONS, "kept", "refreshed", "refresh_failed"),
)
FLIGHTS: Final = Metric.by(
    f"{_P}_single_flight",
    Kind.COUNTER,
    "Calls that were not in the cache: those that ran, and those that had the result of an equal one under way.",
    "outcome",
    ("ran", "shared"),
)
BREAKER_OPEN: Final = Metric(f"{_P}_cache_breaker_open", Kind.GAUGE, "Processes that leave the cache store alone.")
BREAKER_OPENINGS: Final = Metric.by(
    f"{_P}_cache_breaker_openings",
    Kind.COUNTER,
    "How often the cache store began to be left alone, and why.",
    "cause",
    ("faults", "silence"),
)
_STORES: Final = ("state", "cache", "ledger", "policy_server")
STORE_UP: Final = Metric.by(
    f"{_P}_store_up",
    Kind.GAUGE,
    "Whether a store answered when it was asked for this.",
    "store",
    _STORES,
    common=True,
)
STORE_SECONDS: Final = Metric.by(
    f"{_P}_store_seconds", Kind.GAUGE, "How long it took to answer.", "store", _STORES, common=True
)
EVIDENCE: Final = Metric(f"{_P}_evidence_rows", Kind.GAUGE, "Rows of the ledger, of all its writers.", common=True)
WAITING: Final = Metric(
    f"{_P}_evidence_rows_waiting", Kind.GAUGE, "Rows that wait to be on disk, with the answers behind them."
)
SPOOL: Final = Metric(f"{_P}_spool_bytes", Kind.GAUGE, "Bytes of large results that wait to be fetched.")
QUERIES: Final = Metric(f"{_P}_engine_queries", Kind.GAUGE, "Queries that run, or wait for a thread.")
WORKERS: Final = Metric(f"{_P}_engine_workers", Kind.GAUGE, "Processes that run queries apart.")
PROCESSES: Final = Metric(f"{_P}_processes", Kind.GAUGE, "Processes of this agent that serve.")
DATASETS: Final = Metric.by(
    f"{_P}_datasets",
    Kind.GAUGE,
    "Datasets by their state; those that are outdated are served as they were.",
    "state",
    ("served", "invalid", "outdated"),
    common=True,
)
RELOAD: Final = Metric(f"{_P}_reload_refused", Kind.GAUGE, "Whether the newest reload was refused.", common=True)

METRICS: Final = (
    BUILD,
    PROCESSES,
    REQUESTS,
    IN_FLIGHT,
    REQUEST_SECONDS,
    STEP_SECONDS,
    GRANTS,
    REFUSED_DOORS,
    LIMITED,
    CACHE,
    LOOKUPS,
    FLIGHTS,
    BREAKER_OPEN,
    BREAKER_OPENINGS,
    STORE_UP,
    STORE_SECONDS,
    EVIDENCE,
    WAITING,
    SPOOL,
    QUERIES,
    WORKERS,
    DATASETS,
    RELOAD,
)
"""In the order in which they are told."""

_FIND: Final = int(Step.FIND)
_RUN: Final = int(Step.RUN)


class Measures:
    """The numbers of one process. ``file`` is where other processes of the agent read them, if there are others."""

    def __init__(self, file: TableFile | None = None) -> None:
        self.file = file
        self.table = Table(METRICS) if file is None else file.table
        self._requests = self.table.numbers(REQUESTS)
        self._in_flight = self.table.numbers(IN_FLIGHT)
        self._request_seconds = self.table.times(REQUEST_SECONDS)
        self._step_seconds = self.table.times(STEP_SECONDS)
        self._refused = self.table.numbers(REFUSED_DOORS)
        self._limited = self.table.numbers(LIMITED)
        self._grants = self.table.numbers(GRANTS)
        self._cache = self.table.numbers(CACHE)
        self._lookups = self.table.numbers(LOOKUPS)
        self._flights = self.table.numbers(FLIGHTS)
        self._breaker_open = self.table.numbers(BREAKER_OPEN)
        self._openings = self.table.numbers(BREAKER_OPENINGS)
        self.table.numbers(PROCESSES).set(1)
        self.table.numbers(BUILD).set(1, BUILD.values[0])

    def begin(self) -> Steps:
        """A request comes onto its path, in this context."""
        steps = Steps(perf_counter())
        under_way.set(steps)
        self._in_flight.add()
        return steps

    def end(
        self, steps: Steps, decision: Decision | None, cache: CacheOutcome | None, *, restricted: bool
    ) -> float | None:
        """It has its outcome; the seconds it took. ``restricted``: of a restricted capability, so that whether it was
        stored is not told, nor these seconds.
        """
        took = perf_counter() - steps.began
        under_way.set(None)
        self._in_flight.add(amount=-1.0)
        if decision is not None:
            self.decided(decision)
        if cache is not None:
            self._cache.add(("DERIVED" if cache.derived else cache.outcome,))
        if restricted:
            steps.seconds[_FIND] = steps.seconds[_RUN] = 0.0
        else:
            self._request_seconds.observe(took)
            if cache is not None:
                self._flown(steps.runs)
        self._step_seconds.observe_each(steps.seconds)
        return None if restricted else took

    def decided(self, decision: Decision) -> None:
        self._requests.add(OUTCOME_OF[decision.reason])
        self._grants.add(_GRANT[decision.reason])

    def refused(self, door: str) -> None:
        """401: ``clients``, ``admin`` or ``metrics``."""
        self._refused.add((door,))

    def limited(self, caller: str, limit: str) -> None:
        """An ``agent`` or a ``person`` was over its ``rate``, or over what may be ``running``."""
        self._limited.add((caller, limit))

    def looked(self, event: str) -> None:
        """An event of the cache, of no restricted capability."""
        self._lookups.add((event,))

    def breaker(self, cause: str | None) -> None:
        """The cache store is left alone from now on: for its ``faults``, or ``silence``; ``None``: no more."""
        self._breaker_open.set(0.0 if cause is None else 1.0)
        if cause is not None:
            self._openings.add((cause,))

    def _flown(self, runs: list[int]) -> None:
        looks = runs[_FIND]
        if looks and runs[_RUN]:
            self._flights.add(("ran",))
        elif looks > 1:
            self._flights.add(("shared",))
