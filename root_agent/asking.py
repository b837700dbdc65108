"""The values that travel along the asking path. All frozen; none of them is ever stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any, Final
from zoneinfo import ZoneInfo

from contract.call import ARROW_MEDIA_TYPE, MAX_CALL_BYTES, RESULT_MEDIA_TYPE, encode_call
from contract.errors import Category, Component, DatasetAgentError
from contract.identity import AdkIdentity
from contract.ids import InvocationId, SessionId, is_slug, new_id
from contract.principal import Principal
from contract.progress import Watch
from contract.result import Result
from contract.scope import Sensitivity
from contract.verdict import Decision, Route, Verdict
from contract.zone import UTC, read_zone
from control_plane.descriptor import DatasetCapability, DatasetDescriptor
from control_plane.discovery import Funnel
from control_plane.registry import InvalidDataset
from delegation.offer import Offer, Unavailable
from delegation.reply import Outcome, Reply
from delegation.sending import Plan, Sent, Verified
from evidence.statement import Draft
from root_agent.doors import read_via
from root_agent.identity import APP_NAME, RequestContext
from root_agent.service import Service, World

MAX_QUESTION_CHARS: Final = 4_000
MAX_AGE_S: Final = 10**10
MAX_EVENTS: Final = 64
"""So many ids of events a row of the ledger takes."""
_ENDING: Final = frozenset(
    {"record_evidence", "record_refusal", "record_indeterminate", "await_approval", "explain_response"}
)


@dataclass(frozen=True, slots=True)
class TypedCall:
    """A call whose capability and arguments are already known. ``arguments`` are JSON values."""

    dataset: str
    capability: str
    arguments: Mapping[str, Any] = field(repr=False)

    def encode(self) -> bytes:
        """The bytes of the single ``raw`` part. Integers of any size survive."""
        return encode_call(self.dataset, self.capability, self.arguments)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a person asks: a question in words or a typed call, exactly one of the two; and in which form.

    ``media_type`` is the form of the result: JSON, which comes in the reply where it is small,
    or Arrow, which is always fetched. A call may complete the ``task`` of a dataset agent that
    asked for what an earlier one missed. ``zone`` is where it is asked: which day *today* is there,
    and at which instants days begin. Whoever asks may take no data that are older than ``max_age_s``
    seconds, and none but those of one ``schema_version``. ``via`` is the door to ask at, ``a2a`` or ``mcp``;
    the one that the publisher prefers where none is named.
    """

    question: str | None = field(default=None, repr=False)
    call: TypedCall | None = None
    media_type: str = RESULT_MEDIA_TYPE
    task: str = ""
    zone: ZoneInfo = UTC
    max_age_s: float | None = None
    schema_version: str | None = None
    via: str | None = None

    @classmethod
    def of(
        cls,
        question: object = None,
        call: object = None,
        media_type: str = RESULT_MEDIA_TYPE,
        task: object = None,
        zone: object = UTC,
        max_age_s: object = None,
        schema_version: object = None,
        via: object = None,
    ) -> Wanted:
        """Checked at the door. Raises INVALID_INPUT with one line that says what to send."""
        if (question is None) == (call is None):
            raise _invalid("root_agent.ask.shape", "send either a question or a dataset, a capability and arguments")
        if task is not None and (call is None or not is_plain_id(task)):
            raise _invalid("root_agent.ask.task", "a task is completed by a call: send the task's id with a whole one")
        if media_type not in (RESULT_MEDIA_TYPE, ARROW_MEDIA_TYPE):
            raise _invalid("root_agent.ask.form", f"a result comes as {RESULT_MEDIA_TYPE} or {ARROW_MEDIA_TYPE}")
        stated: dict[str, Any] = {"zone": zone_of(zone), "max_age_s": _age(max_age_s)}
        stated["schema_version"] = _version(schema_version)
        stated["via"] = read_via(via, only_a2a=task is not None or media_type != RESULT_MEDIA_TYPE)
        if call is not None:
            return cls(call=_typed(call), media_type=media_type, task=str(task or ""), **stated)
        if not isinstance(question, str) or not question.strip():
            raise _invalid("root_agent.question.empty", "the question is empty: ask something in words")
        if len(question) > MAX_QUESTION_CHARS:
            raise _invalid("root_agent.question.too_long", f"a question has at most {MAX_QUESTION_CHARS} characters")
        try:
            question.encode()
        except UnicodeEncodeError as error:
            raise _invalid("root_agent.question.unicode", "the question is not valid Unicode text") from error
        return cls(question=question, media_type=media_type, **stated)


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


def zone_of(value: object) -> ZoneInfo:
    """The zone that is meant. Raises INVALID_INPUT."""
    try:
        return value if isinstance(value, ZoneInfo) else read_zone(value)
    except ValueError as error:
        raise _invalid("root_agent.ask.zone", f"the zone cannot be used: {error}") from error


def _age(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= MAX_AGE_S:
        raise _invalid("root_agent.ask.max_age", f"max_age_s is a number of seconds from 0 to {MAX_AGE_S}")
    return float(value)


def _version(value: object) -> str | None:
    if value is not None and not is_plain_id(value):
        raise _invalid(
            "root_agent.ask.schema_version", "schema_version is the version of a schema, as its card says it"
        )
    return None if value is None else str(value)


def is_plain_id(value: object) -> bool:
    """Whether it may be a task's id: short, printable ASCII."""
    return isinstance(value, str) and 0 < len(value) <= 200 and value.isascii() and value.isprintable()


def _typed(call: object) -> TypedCall:
    if not isinstance(call, Mapping) or set(call) != {"dataset", "capability", "arguments"}:
        raise _invalid("root_agent.call.shape", "a call has exactly the members dataset, capability and arguments")
    dataset, capability, arguments = call["dataset"], call["capability"], call["arguments"]
    if not (isinstance(dataset, str) and is_slug(dataset) and isinstance(capability, str) and is_slug(capability)):
        raise _invalid("root_agent.call.names", "dataset and capability must be names of a-z, 0-9, '_' and '-'")
    if not isinstance(arguments, Mapping) or not all(isinstance(name, str) for name in arguments):
        raise _invalid("root_agent.call.arguments", "arguments must be an object")
    typed = TypedCall(dataset, capability, arguments)
    try:
        size = len(typed.encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise _invalid("root_agent.call.arguments", "arguments must be plain JSON values") from error
    if size > MAX_CALL_BYTES:
        raise _invalid("root_agent.call.too_large", f"a call has at most {MAX_CALL_BYTES} bytes")
    return typed


def _invalid(code: str, message: str) -> DatasetAgentError:
    return DatasetAgentError(Component.ROOT_AGENT, Category.INVALID_INPUT, code, message)
