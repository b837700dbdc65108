"""What a root agent counts and times. No label holds anything that somebody asked, or who did.

How long a call took at a dataset agent says whether its result was stored, which of restricted
capabilities nobody is told: of those neither that step nor the whole asking is timed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from contract.errors import SignerUnavailable
from contract.verdict import VERDICTS, Decision, NotGranted, Reason
from metrics.common import OUTCOMES, build_info
from metrics.table import Kind, Metric, Table

_P: Final = "dataset_agent_root"
NODES: Final = (
    *("interpret_intent", "discover_datasets", "resolve_capability", "evaluate_admission", "plan", "execute"),
    *("validate", "record_evidence", "explain_response", "record_refusal", "record_indeterminate", "await_approval"),
)
_STORES: Final = ("ledger", "memo", "identity_provider", "policy_server")
_GRANT_FAULTS: Final = (
    "GRANT_WIDENED",
    "GRANT_AUDIENCE_MISMATCH",
    "GRANT_EXPIRED",
    "NO_ACTIVE_GRANT",
    "KEYS_UNAVAILABLE",
)
_OTHER: Final = "other"
_NO_REASON: Final = ""

BUILD: Final = build_info(_P)
ASKS: Final = Metric(
    f"{_P}_asks", Kind.COUNTER, "Askings of verified people, by how they ended.", ("verdict", "reason"), OUTCOMES
)
IN_FLIGHT: Final = Metric(f"{_P}_asks_in_flight", Kind.GAUGE, "Askings that are being answered just now.")
ASK_SECONDS: Final = Metric(
    f"{_P}_ask_seconds", Kind.HISTOGRAM, "A whole asking, without those of restricted capabilities."
)
NODE_SECONDS: Final = Metric.by(
    f"{_P}_step_seconds",
    Kind.HISTOGRAM,
    "Each step that an asking came to; execute without restricted capabilities.",
    "step",
    NODES,
)
REMOTE: Final = Metric(
    f"{_P}_remote_outcomes",
    Kind.COUNTER,
    "Calls to dataset agents by their reply: COMPLETED, or the reason in place of rows.",
    ("outcome", "reason"),
    (("COMPLETED", _NO_REASON), *(label for label in OUTCOMES if label[0] != "GRANTED")),
)
GRANTS: Final = Metric(
    f"{_P}_grants",
    Kind.COUNTER,
    "Root tokens that were to be minted, and leaves that were to be derived: made, or why not.",
    ("kind", "outcome"),
    tuple((kind, outcome) for kind in ("root", "leaf") for outcome in ("made", *_GRANT_FAULTS, _OTHER)),
)
MEMO: Final = Metric.by(
    f"{_P}_memo_lookups",
    Kind.COUNTER,
    "Words that were looked up among those read before: known, alike to known ones, or neither.",
    "outcome",
    ("exact", "alike", "none"),
)
REFUSED_DOORS: Final = Metric.by(
    f"{_P}_unauthenticated", Kind.COUNTER, "Requests that were answered with 401.", "door", ("people", "metrics")
)
LIMITED: Final = Metric.by(
    f"{_P}_limited", Kind.COUNTER, "Askings that were over a limit of their person.", "limit", ("rate", "running")
)
STORE_UP: Final = Metric.by(
    f"{_P}_store_up", Kind.GAUGE, "Whether it answered when it was asked for this.", "store", _STORES, common=True
)
STORE_SECONDS: Final = Metric.by(
    f"{_P}_store_seconds", Kind.GAUGE, "How long it took to answer.", "store", _STORES, common=True
)
EVIDENCE: Final = Metric(f"{_P}_evidence_rows", Kind.GAUGE, "Rows of the ledger, of all its writers.", common=True)

METRICS: Final = (
    *(BUILD, ASKS, IN_FLIGHT, ASK_SECONDS, NODE_SECONDS, GRANTS, REMOTE, MEMO, REFUSED_DOORS, LIMITED),
    *(STORE_UP, STORE_SECONDS, EVIDENCE),
)


class Measures:
    """The numbers of one process."""

    def __init__(self) -> None:
        self.table = Table(METRICS)
        self._asks = self.table.numbers(ASKS)
        self._in_flight = self.table.numbers(IN_FLIGHT)
        self._ask_seconds = self.table.times(ASK_SECONDS)
        self._node_seconds = self.table.times(NODE_SECONDS)
        self._remote = self.table.numbers(REMOTE)
        self._grants = self.table.numbers(GRANTS)
        self._memo = self.table.numbers(MEMO)
        self._refused = self.table.numbers(REFUSED_DOORS)
        self._limited = self.table.numbers(LIMITED)
        self.table.numbers(BUILD).set(1, BUILD.values[0])

    @contextmanager
    def asking(self) -> Iterator[None]:
        """One asking is being answered inside."""
        self._in_flight.add()
        try:
            yield
        finally:
            self._in_flight.add(amount=-1.0)

    def asked(self, decision: Decision, seconds: float, *, restricted: bool) -> None:
        """It has ended."""
        self._asks.add((decision.verdict.value, decision.reason.value))
        if not restricted:
            self._ask_seconds.observe(seconds)

    def step(self, node: str, seconds: float, *, restricted: bool) -> None:
        if not (restricted and node == "execute"):
            self._node_seconds.observe(seconds, (node,))

    @contextmanager
    def granting(self, kind: str) -> Iterator[None]:
        """A ``root`` token is minted inside, or a ``leaf`` derived; what is raised says why it was not."""
        outcome = _OTHER
        try:
            yield
            outcome = "made"
        except NotGranted as stop:
            outcome = stop.reason.value if stop.reason.value in _GRANT_FAULTS else _OTHER
            raise
        except SignerUnavailable:
            outcome = Reason.KEYS_UNAVAILABLE.value
            raise
        finally:
            self._grants.add((kind, outcome))

    def replied(self, reason: Reason | None) -> None:
        """A call to a dataset agent has come back; ``None`` with what was asked for."""
        label = ("COMPLETED", _NO_REASON) if reason is None else (VERDICTS[reason].value, reason.value)
        self._remote.add(label)

    def recalled(self, outcome: str) -> None:
        """``exact``, ``alike`` or ``none``."""
        self._memo.add((outcome,))

    def refused(self, door: str) -> None:
        """401: ``people`` or ``metrics``."""
        self._refused.add((door,))

    def limited(self, limit: str) -> None:
        """429: over the ``rate`` of a person, or what may be ``running``."""
        self._limited.add((limit,))
