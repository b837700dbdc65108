"""The values that travel along the asking path. All frozen; none of them is ever stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from contract.identity import AdkIdentity
from contract.ids import InvocationId, SessionId, new_id
from contract.principal import Principal
from contract.progress import Watch
from contract.result import Result
from contract.scope import Sensitivity
from contract.verdict import Decision, Route, Verdict
from control_plane.descriptor import DatasetCapability, DatasetDescriptor
from control_plane.discovery import Funnel
from control_plane.registry import InvalidDataset
from delegation.offer import Offer, Unavailable
from delegation.reply import Outcome, Reply
from delegation.sending import Plan, Sent, Verified
from evidence.statement import Draft
from root_agent.identity import APP_NAME, RequestContext
from root_agent.wanted import TypedCall, Wanted

if TYPE_CHECKING:  # who only shows an answer loads no service
    from root_agent.service import Service, World

MAX_EVENTS: Final = 64
"""So many ids of events a row of the ledger takes."""
_ENDING: Final = frozenset(
    {"record_evidence", "record_refusal", "record_indeterminate", "await_approval", "explain_response"}
)


@dataclass(frozen=True, slots=True)
class Missing:
    """A parameter the words did not give, as the descriptor declares it, or a period for both its bounds."""

    name: str
    type: str
    values: tuple[str, ...] = ()
    description: str = ""

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "type": self.type, "values": list(self.values), "description": self.description}


@dataclass(frozen=True, slots=True)
class NotUnderstood:
    """The words for which a question is not read as the call that is nearest to it. Told to who asks, and kept nowhere.

    ``limits`` where one of them denies, limits, times or compares: without them another question would be answered.
    """

    words: tuple[str, ...] = field(repr=False)
    dataset: str
    capability: str
    limits: bool = False

    def to_json(self) -> dict[str, Any]:
        nearest = {"dataset": self.dataset, "capability": self.capability}
        return {"words": list(self.words), "limits": self.limits, "nearest": nearest}


@dataclass(frozen=True, slots=True)
class Target:
    """The one capability an intent resolved to.

    ``descriptor`` is what the serving agent's verified card says; ``None`` where no card
    offers the dataset. ``agent_id`` is ``None`` then too. With ``is_unread`` a period that the call
    gives could not be read: nothing stands for it, so the call is not made.
    """

    call: TypedCall
    agent_id: str | None
    descriptor: DatasetDescriptor | InvalidDataset | None
    missing: tuple[Missing, ...] = ()
    is_unread: bool = False


@dataclass(frozen=True, slots=True)
class Hop:
    """One capability at one agent that a call makes run, as the root decided about it."""

    agent_id: str
    descriptor: DatasetDescriptor
    capability: DatasetCapability
    decision: Decision


@dataclass(frozen=True, slots=True)
class Answer:
    """What the person gets. ``document`` is there only after GRANTED, verified and recorded.

    A ``StoredResult`` is proven and is still to be fetched.
    """

    asking: Asking
    decision: Decision
    document: Result | None = None
    evidence: Mapping[str, Any] | None = None

    @property
    def verdict(self) -> Verdict:
        return self.decision.verdict


@dataclass(frozen=True, slots=True)
class Asking:
    """One asking, as far as it has come. Steps return a new one.

    ``principal`` is who asks in the directory of ``world``, by which everything about this asking is decided.
    ``offered`` can be asked; ``indirect`` only by an agent that completes its answer with it. Of a
    question ``candidates`` are what was found of it for this person, and ``readable`` what is read beside
    them as far as it is public; ``funnel`` counts how they were found.
    ``admitted`` is the root's own last admission decision, ``hops`` what that call makes
    further agents do; ``drafted`` is the root's own provenance of what was ``verified``, all
    but its receipt, and ``relayed`` the same sealed; ``stop`` is the decision the path ended with early, whoever made it.
    ``read_under`` is all that the reading of the words depends on, where it was read anew and may be remembered.
    ``trace_id`` is 32 hex digits. ``watch`` is told how far the call is while it runs.
    ``event_ids`` are of the events that the steps left in the session. ``began`` is of ``perf_counter``.
    """

    person: RequestContext
    wanted: Wanted
    session_id: SessionId
    trace_id: str
    invocation_id: InvocationId | None = None
    request_id: str = field(default_factory=lambda: new_id("ask"))
    principal: Principal | None = None
    world: World | None = field(default=None, repr=False)
    offered: tuple[Offer, ...] = ()
    indirect: tuple[Offer, ...] = ()
    unavailable: tuple[Unavailable, ...] = ()
    candidates: tuple[Offer, ...] = ()
    readable: tuple[Offer, ...] = ()
    funnel: Funnel | None = None
    target: Target | None = None
    not_understood: NotUnderstood | None = None
    read_under: tuple[Any, ...] | None = field(default=None, repr=False)
    admitted: Decision | None = None
    hops: tuple[Hop, ...] = ()
    plan: Plan | None = field(default=None, repr=False)
    sent: Sent | None = field(default=None, repr=False)
    reply: Reply | None = field(default=None, repr=False)
    verified: Verified | None = field(default=None, repr=False)
    drafted: Draft | None = field(default=None, repr=False)
    attempts: int = 0
    stop: Decision | None = None
    evidence: Mapping[str, Any] | None = None
    relayed: Mapping[str, Any] | None = field(default=None, repr=False)
    answer: Answer | None = field(default=None, repr=False)
    visited: tuple[str, ...] = ()
    event_ids: tuple[str, ...] = ()
    watch: Watch | None = field(default=None, repr=False, compare=False)
    began: float = field(default_factory=perf_counter, repr=False, compare=False)

    def ids(self) -> dict[str, str]:
        """What it may be called in a log line and in a span."""
        return {"request_id": self.request_id, "trace_id": self.trace_id}

    @property
    def adk(self) -> AdkIdentity:
        """The session it runs in, which is its person's own."""
        return AdkIdentity(APP_NAME, self.person.user_id, self.session_id)

    def world_in(self, service: Service) -> World:
        """The one it began in: what was replaced since decides about others."""
        return self.world or service.world

    @property
    def is_restricted(self) -> bool:
        """Whether a restricted capability is asked, as far as is known."""
        target = self.target
        if target is None or not isinstance(target.descriptor, DatasetDescriptor):
            return False
        capability = target.descriptor.capability(target.call.capability)
        return capability is not None and capability.sensitivity is Sensitivity.RESTRICTED

    @property
    def continued(self) -> str:
        """The task that the next attempt goes on with; an attempt that failed has ended it."""
        return "" if self.attempts else self.wanted.task

    @property
    def verdict(self) -> Verdict:
        """GRANTED while admitted and not stopped."""
        if self.stop is not None:
            return self.stop.verdict
        return Verdict.INDETERMINATE if self.admitted is None else self.admitted.verdict

    @property
    def route(self) -> Route:
        """The only value a node routes on: the verdict, or to a person where the dataset agent waits for one."""
        waits = self.stop is not None and self.reply is not None and self.reply.outcome is Outcome.REVIEW
        return self.stop.route if waits and self.stop is not None else Route(self.verdict)

    @property
    def decision(self) -> Decision | None:
        return self.stop or self.admitted

    @property
    def is_ending(self) -> bool:
        """Whether its row is being written, or is written: from here on it is not broken off."""
        return bool(self.visited) and self.visited[-1] in _ENDING

    def left(self, event_id: str) -> Asking:
        """As it is once a step has left this event in the session."""
        return replace(self, event_ids=(*self.event_ids, event_id)[:MAX_EVENTS])

    def visiting(self, node: str) -> Asking:
        return replace(self, visited=(*self.visited, node))

    def stopped(self, decision: Decision) -> Asking:
        """Ended by ``decision``; what a remote returned is dropped with it."""
        return replace(self, stop=decision, verified=None, drafted=None)
