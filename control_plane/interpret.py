"""From words to a capability and typed arguments: offline, deterministic, and never authoritative.

It knows nothing of any world: everything comes from the descriptors it is given (keywords,
examples, descriptions, parameter patterns, values and synonyms). It proposes; resolution,
admission and binding decide. A model's typed intent goes through ``check_proposal`` and
ends as the same value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final
from zoneinfo import ZoneInfo

from contract.call import MAX_QUESTION_CHARS
from contract.verdict import NotGranted, Reason
from contract.zone import UTC
from control_plane.accounting import left_over
from control_plane.arguments import find_arguments
from control_plane.candidates import DATASET, candidates, is_passed_over, is_told_by_another
from control_plane.confirm import confirm
from control_plane.descriptor import DatasetCapability, DatasetDescriptor
from control_plane.free_text import is_free_text
from control_plane.periods import resolve_periods
from control_plane.proposals import Proposal, proposed
from control_plane.reader_terms import ANSWERING
from control_plane.reading import Reading
from control_plane.strays import shown_pattern
from control_plane.words import content_stems, find_phrase

_SAME: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Heard:
    """``proposal`` is what a question asks for. ``nearest`` is the best of all readings, those too that leave words over.

    ``far`` is only there to tell the words that it leaves over, where these are most of the question.
    """

    proposal: Proposal | None
    nearest: Proposal | None
    far: Proposal | None = None

    @property
    def left(self) -> tuple[str, ...]:
        """The words for which a question is not understood that is so otherwise."""
        near = self.nearest or self.far
        return () if self.proposal is not None or near is None else near.left


def interpret(
    question: str, descriptors: Sequence[DatasetDescriptor], *, now: float, zone: ZoneInfo = UTC
) -> Proposal | None:
    """The call a question asks for, or ``None`` where it is not understood or two fit equally: as ``hear``."""
    return hear(question, descriptors, now=now, zone=zone).proposal


def hear(question: str, descriptors: Sequence[DatasetDescriptor], *, now: float, zone: ZoneInfo = UTC) -> Heard:
    """The call that accounts for every word of a question, or what was nearest and the words that it leaves over.

    ``now`` is POSIX seconds; with ``zone``, where it is asked, it tells which day *today* is. Raises
    ``NotGranted(INTENT_NOT_UNDERSTOOD)`` for an empty question and for one of more than ``MAX_QUESTION_CHARS`` characters.
    """
    _check_readable(question)
    prohibited = _prohibited(question, descriptors)
    if prohibited is not None:
        return Heard(prohibited, None)
    reading = Reading.of(question, descriptors)
    proposals = candidates(reading, descriptors, now=now, zone=zone)
    nearest = next((item for item in proposals if not item.is_far), None)
    far = next((item for item in proposals if item.is_far and item.left), None)
    proposals = [item for item in proposals if not item.left and not item.is_far]
    complete = [item for item in proposals if not item.missing]
    proposals = [item for item in proposals if not is_told_by_another(reading, item, complete, descriptors)]
    complete = [item for item in proposals if not item.missing]
    proposals = [item for item in proposals if not is_passed_over(item, complete, descriptors)]
    if not proposals or (len(proposals) > 1 and proposals[0].score - proposals[1].score < _SAME):
        return Heard(None, nearest, far)
    return Heard(proposals[0], nearest, far)


def check_proposal(
    raw: Any, descriptors: Sequence[DatasetDescriptor], *, now: float, zone: ZoneInfo = UTC
) -> Proposal | None:
    """A model's typed intent ``{"dataset", "capability", "arguments"}``, confirmed by code.

    Anything that names no registered capability or an undeclared argument is ``None``; an
    argument that does not fit its parameter counts as missing. A period by its name becomes its
    bounds, read on the day it is in ``zone`` at ``now`` (POSIX seconds).
    """
    if not isinstance(raw, dict) or not {"dataset", "capability"} <= set(raw) <= {"dataset", "capability", "arguments"}:
        return None
    descriptor = next((item for item in descriptors if item.dataset == raw["dataset"]), None)
    name, arguments = raw["capability"], raw.get("arguments", {})
    capability = descriptor.capability(name) if descriptor is not None and isinstance(name, str) else None
    if descriptor is None or capability is None or not isinstance(arguments, dict):
        return None
    if any(not isinstance(key, str) for key in arguments):
        return None
    resolved = resolve_periods(capability, arguments, zone=zone, now=now)
    arguments = resolved.arguments
    if any(capability.parameter(key) is None for key in arguments):
        return None
    confirmed = {
        parameter.name: value
        for parameter in capability.parameters
        if parameter.name in arguments and (value := confirm(parameter, arguments[parameter.name])) is not None
    }
    refused = frozenset(arguments) - frozenset(confirmed)
    problems = {name: _unfit(capability, name) for name in refused}
    for period in capability.periods:
        if period.name in resolved.unread:
            problems |= dict.fromkeys((period.from_, period.to), resolved.unread[period.name])
    return proposed(descriptor, capability, confirmed, frozenset(problems), problems)


def _check_readable(question: str) -> None:
    if not question.strip():
        raise NotGranted(Reason.INTENT_NOT_UNDERSTOOD, "the question is empty; ask for something")
    if len(question) > MAX_QUESTION_CHARS:
        limit = f"the question is longer than {MAX_QUESTION_CHARS} characters; ask more briefly"
        raise NotGranted(Reason.INTENT_NOT_UNDERSTOOD, limit)


def supplement(
    question: str,
    descriptor: DatasetDescriptor,
    half: Mapping[str, Any],
    name: str,
    *,
    now: float,
    zone: ZoneInfo = UTC,
) -> Proposal:
    """A call of capability ``name`` with the arguments ``half`` and what the words say of the others.

    Nothing that was given before is read again, and where a word tells something that no argument takes, nothing is
    read. ``now`` and ``zone`` are as for ``interpret``. Raises ``KeyError`` where the dataset has no such capability,
    and as ``interpret``.
    """
    _check_readable(question)
    capability = descriptor.capability(name)
    if capability is None:
        raise KeyError(name)
    open_ = [parameter for parameter in capability.parameters if parameter.name not in half]
    found = find_arguments(question, open_, now, zone=zone, capability=capability)
    arguments = {**half, **found.values}
    required = [parameter for parameter in open_ if parameter.required and parameter.name not in arguments]
    if (
        len(required) == 1
        and is_free_text(required[0])
        and (text := confirm(required[0], question.strip())) is not None
    ):
        arguments[required[0].name] = text
        return proposed(descriptor, capability, arguments, found.ambiguous, found.problems)
    left = left_over(question, descriptor, capability, arguments, found, None)
    over = [word for word in left.words if word.casefold() not in ANSWERING]
    if over:
        told = f"“{' '.join(over)}” is not understood here"
        problems = {**found.problems, **{parameter.name: told for parameter in open_ if parameter.required}}
        return proposed(descriptor, capability, half, found.ambiguous, problems)
    return proposed(descriptor, capability, arguments, found.ambiguous, found.problems)


def _unfit(capability: DatasetCapability, name: str) -> str:
    parameter = capability.parameter(name)
    shape = f"match {shown_pattern(parameter)}" if parameter is not None and parameter.pattern else "fit"
    return f"the value that was proposed does not {shape}"


def _prohibited(question: str, descriptors: Sequence[DatasetDescriptor]) -> Proposal | None:
    """A question that says every word of a prohibited operation's name, in order, asks for it."""
    asked = content_stems(question)
    found = [
        (descriptor.dataset, name, DATASET * len(set(asked) & set(content_stems(descriptor.dataset))))
        for descriptor in descriptors
        for name in descriptor.prohibited
        if find_phrase(content_stems(name), asked) is not None
    ]
    if not found:
        return None
    dataset, name, score = min(found, key=lambda item: (-item[2], item[0], item[1]))
    return Proposal(dataset, name, MappingProxyType({}), (), score)
