"""From words to a capability and typed arguments: offline, deterministic, and never authoritative.

It knows nothing of any world: everything comes from the descriptors it is given (keywords,
examples, descriptions, parameter patterns, values and synonyms). It proposes; resolution,
admission and binding decide. A model's typed intent goes through ``check_proposal`` and
ends as the same value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final
from zoneinfo import ZoneInfo

from contract.schema import Parameter, SqlType
from contract.verdict import NotGranted, Reason
from contract.zone import UTC
from control_plane.arguments import Found, find_arguments, shown_pattern
from control_plane.confirm import confirm
from control_plane.descriptor import DatasetCapability, DatasetDescriptor
from control_plane.free_text import find_text, is_free_text
from control_plane.periods import resolve_periods
from control_plane.reading import Reading, Vocabulary, plain
from control_plane.words import content_stems, find_phrase, stems

MAX_QUESTION_CHARS: Final = 4_000
_KEYWORD, _EXAMPLE, _DESCRIPTION, _DATASET, _FILLED, _MISSING = 8.0, 4.0, 0.5, 1.0, 1.5, 0.75
_SAME: Final = 1e-9
_GOOD_EXAMPLE: Final = 0.6


@dataclass(frozen=True, slots=True)
class Missing:
    """A parameter a call still needs, as it may be told to the asker."""

    name: str
    type: SqlType
    values: tuple[str, ...]
    description: str
    repeated: bool = False

    @classmethod
    def of(cls, parameter: Parameter, problem: str = "") -> Missing:
        """``problem`` says what of the question was looked at and did not fit; it comes first."""
        told = ". ".join(part for part in (problem, parameter.description) if part)
        return cls(parameter.name, parameter.type, parameter.values, told, parameter.repeated)


@dataclass(frozen=True, slots=True)
class Proposal:
    """A call that a question seems to ask for. ``missing`` is empty where it is complete.

    ``capability`` may be an operation the dataset prohibits: admission refuses it by name.
    """

    dataset: str
    capability: str
    arguments: Mapping[str, Any]
    missing: tuple[Missing, ...]
    score: float


def interpret(
    question: str, descriptors: Sequence[DatasetDescriptor], *, now: float, zone: ZoneInfo = UTC
) -> Proposal | None:
    """The call a question asks for, or ``None`` where it is not understood or two fit equally.

    ``now`` is POSIX seconds; with ``zone``, where it is asked, it tells which day *today* is. Raises
    ``NotGranted(INTENT_NOT_UNDERSTOOD)`` for an empty question and for one of more than ``MAX_QUESTION_CHARS`` characters.
    """
    _check_readable(question)
    prohibited = _prohibited(question, descriptors)
    if prohibited is not None:
        return prohibited
    reading = Reading.of(question, descriptors)
    proposals = [
        proposal
        for descriptor in descriptors
        for capability in descriptor.capabilities
        if (proposal := _propose(reading, descriptor, capability, zone, now)) is not None
    ]
    complete = [item for item in proposals if not item.missing]
    proposals = [item for item in proposals if not _is_told_by_another(reading, item, complete, descriptors)]
    proposals.sort(key=lambda item: (-item.score, item.dataset, item.capability))
    if not proposals or (len(proposals) > 1 and proposals[0].score - proposals[1].score < _SAME):
        return None
    return proposals[0]


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
    return _proposal(descriptor, capability, confirmed, frozenset(problems), problems)


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

    Nothing that was given before is read again. ``now`` and ``zone`` are as for ``interpret``. Raises ``KeyError``
    where the dataset has no such capability, and as ``interpret``.
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
    return _proposal(descriptor, capability, arguments, found.ambiguous, found.problems)


def _unfit(capability: DatasetCapability, name: str) -> str:
    parameter = capability.parameter(name)
    shape = f"match {shown_pattern(parameter)}" if parameter is not None and parameter.pattern else "fit"
    return f"the value that was proposed does not {shape}"


def _propose(
    reading: Reading, descriptor: DatasetDescriptor, capability: DatasetCapability, zone: ZoneInfo, now: float
) -> Proposal | None:
    found = find_arguments(reading.question, capability.parameters, now, zone=zone, capability=capability)
    arguments = dict(found.values)
    text = find_text(reading.question, descriptor, capability)
    if text is not None:
        arguments[text.name] = text.value
    if not reading.is_about(Vocabulary.of(descriptor, capability), named=found.named, text=text, timed=found.timed):
        return None
    keywords = [phrase for phrase in _keyword_phrases(capability) if reading.holds(phrase)]
    example = _example(reading, capability, found)
    nouns = frozenset(stems(" ".join((descriptor.dataset, *descriptor.schemas))))
    cued = any(not nouns.issuperset(phrase) for phrase in keywords) or example >= _GOOD_EXAMPLE
    proposal = _proposal(descriptor, capability, arguments, found.ambiguous, found.problems)
    if not cued and not (keywords and found.values and not proposal.missing):
        return None
    score = (
        _KEYWORD * sum(max(map(reading.weight, phrase)) for phrase in keywords)
        + _EXAMPLE * example
        + _DESCRIPTION * len(reading.subject & plain(capability.description))
        + _DATASET * _about(reading, descriptor)
        + _FILLED * len(found.values)
        - _MISSING * len(proposal.missing)
    )
    return replace(proposal, score=score)


def _is_told_by_another(
    reading: Reading, proposal: Proposal, complete: Sequence[Proposal], descriptors: Sequence[DatasetDescriptor]
) -> bool:
    """Whether a search would look for just the words by which another, complete call is asked for.

    *Show outlier batches by titre* names a capability and its argument; it is no text to be found.
    """
    descriptor, capability = _named(proposal, descriptors)
    text = find_text(reading.question, descriptor, capability)
    if text is None or text.is_marked:
        return False
    sought = plain(text.value)
    others = [_named(item, descriptors) for item in complete if item is not proposal and item.arguments]
    return bool(sought) and any(sought <= Vocabulary.of(*other).named_in(reading.stems) for other in others)


def _named(proposal: Proposal, descriptors: Sequence[DatasetDescriptor]) -> tuple[DatasetDescriptor, DatasetCapability]:
    return next(
        (descriptor, capability)
        for descriptor in descriptors
        for capability in descriptor.capabilities
        if (descriptor.dataset, capability.name) == (proposal.dataset, proposal.capability)
    )


def _proposal(
    descriptor: DatasetDescriptor,
    capability: DatasetCapability,
    arguments: Mapping[str, Any],
    unsettled: frozenset[str],
    problems: Mapping[str, str],
) -> Proposal:
    missing = tuple(
        Missing.of(parameter, problems.get(parameter.name, ""))
        for parameter in capability.parameters
        if parameter.name not in arguments and (parameter.required or parameter.name in unsettled)
    )
    ordered = {item.name: arguments[item.name] for item in capability.parameters if item.name in arguments}
    return Proposal(descriptor.dataset, capability.name, MappingProxyType(ordered), missing, 1.0)


def _prohibited(question: str, descriptors: Sequence[DatasetDescriptor]) -> Proposal | None:
    """A question that says every word of a prohibited operation's name, in order, asks for it."""
    asked = content_stems(question)
    found = [
        (descriptor.dataset, name, _DATASET * len(set(asked) & set(content_stems(descriptor.dataset))))
        for descriptor in descriptors
        for name in descriptor.prohibited
        if find_phrase(content_stems(name), asked) is not None
    ]
    if not found:
        return None
    dataset, name, score = min(found, key=lambda item: (-item[2], item[0], item[1]))
    return Proposal(dataset, name, MappingProxyType({}), (), score)


def _keyword_phrases(capability: DatasetCapability) -> list[tuple[str, ...]]:
    phrases = [stems(keyword) for keyword in (*capability.keywords, capability.name)]
    return list(dict.fromkeys(phrase for phrase in phrases if phrase))


def _example(reading: Reading, capability: DatasetCapability, found: Found) -> float:
    """Likeness to the best example, 0 to 1, with arguments left out of both sides."""
    asked = plain(reading.question) - found.used
    best = 0.0
    for example in capability.examples:
        told = plain(example)
        union = asked | told
        best = max(best, len(asked & told) / len(union) if union else 0.0)
    return best


def _about(reading: Reading, descriptor: DatasetDescriptor) -> float:
    named = 3.0 if reading.holds(stems(descriptor.dataset)) else 0.0
    told = plain(" ".join((descriptor.dataset, descriptor.description, *descriptor.schemas)))
    return named + 0.5 * len(reading.subject & told)
