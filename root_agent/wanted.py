"""What a person asks, as it is checked where it comes in: words or a typed call, and what is stated beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypedDict
from zoneinfo import ZoneInfo

from contract.call import ARROW_MEDIA_TYPE, MAX_CALL_BYTES, MAX_QUESTION_CHARS, RESULT_MEDIA_TYPE, encode_call
from contract.errors import Category, Component, DatasetAgentError
from contract.ids import is_slug
from contract.zone import UTC, read_zone
from root_agent.doors import read_via

MAX_AGE_S: Final = 10**10


@dataclass(frozen=True, slots=True)
class TypedCall:
    """A call whose capability and arguments are already known. ``arguments`` are JSON values."""

    dataset: str
    capability: str
    arguments: Mapping[str, Any] = field(repr=False)

    def encode(self) -> bytes:
        """The bytes of the single ``raw`` part. Integers of any size survive."""
        return encode_call(self.dataset, self.capability, self.arguments)


class Asked(TypedDict, total=False):
    """What comes in with an asking, as it came: ``Wanted`` says what each is, and checks it."""

    question: object
    call: object
    media_type: str
    task: object
    zone: object
    max_age_s: object
    schema_version: object
    via: object


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
