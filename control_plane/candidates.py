"""Every call that a question may mean, each with how well it fits and with the words that it leaves over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final
from zoneinfo import ZoneInfo

from control_plane.accounting import left_over
from control_plane.arguments import Found, find_arguments
from control_plane.descriptor import DatasetCapability, DatasetDescriptor
from control_plane.free_text import find_text
from control_plane.proposals import Proposal, proposed
from control_plane.published import Published
from control_plane.reading import Reading, Vocabulary, plain, telling
from control_plane.words import stems

DATASET: Final = 1.0
_KEYWORD, _EXAMPLE, _DESCRIPTION, _FILLED, _MISSING = 8.0, 4.0, 0.5, 1.5, 0.75
_GOOD_EXAMPLE: Final = 0.6


def candidates(
    reading: Reading, descriptors: Sequence[DatasetDescriptor], *, now: float, zone: ZoneInfo
) -> list[Proposal]:
    """Best first. ``now`` (POSIX seconds) and ``zone`` tell which day *today* is."""
    found = [
        proposal
        for descriptor in descriptors
        for capability in descriptor.capabilities
        if (proposal := _candidate(reading, descriptor, capability, zone, now)) is not None
    ]
    return sorted(found, key=lambda item: (item.is_far, -item.score, item.dataset, item.capability))


def is_told_by_another(
    reading: Reading, proposal: Proposal, complete: Sequence[Proposal], descriptors: Sequence[DatasetDescriptor]
) -> bool:
    """Whether a search would look for just the words by which another, complete call is asked for.

    *Show outlier batches by titre* names a capability and its argument; it is no text to be found.
    """
    descriptor, capability = _named(proposal, descriptors)
    text = find_text(reading.question, descriptor, capability)
    if text is None or text.is_marked:
        return False
    sought = telling(text.value)
    others = [_named(item, descriptors) for item in complete if item is not proposal and item.arguments]
    return bool(sought) and any(sought <= Vocabulary.of(*other).named_in(reading.stems) for other in others)


def _named(proposal: Proposal, descriptors: Sequence[DatasetDescriptor]) -> tuple[DatasetDescriptor, DatasetCapability]:
    return next(
        (descriptor, capability)
        for descriptor in descriptors
        for capability in descriptor.capabilities
        if (descriptor.dataset, capability.name) == (proposal.dataset, proposal.capability)
    )


def _candidate(
    reading: Reading, descriptor: DatasetDescriptor, capability: DatasetCapability, zone: ZoneInfo, now: float
) -> Proposal | None:
    found = find_arguments(reading.question, capability.parameters, now, zone=zone, capability=capability)
    arguments = dict(found.values)
    problems = dict(found.problems)
    text = find_text(reading.question, descriptor, capability)
    if text is not None and text.problem:
        problems[text.name] = text.problem
    elif text is not None:
        arguments[text.name] = text.value
    known = Vocabulary.of(descriptor, capability)
    is_far = not reading.is_about(known, named=found.named, text=text, timed=found.timed)
    if is_far and not arguments:
        return None
    spaced = Published.of(descriptor, capability).nouns
    keywords = [phrase for phrase in _keyword_phrases(capability) if reading.holds(phrase, spaced)]
    example = _example(reading, capability, found)
    nouns = frozenset(stems(" ".join((descriptor.dataset, *descriptor.schemas))))
    cued = any(not nouns.issuperset(phrase) for phrase in keywords) or example >= _GOOD_EXAMPLE
    left = left_over(reading.question, descriptor, capability, arguments, found, text)
    if left.values:
        problems |= {
            item.name: f"“{left.values}” is none of the values"
            for item in capability.parameters
            if item.values and item.required and item.name not in arguments
        }
    unsettled = found.ambiguous | ({text.name} if text is not None and text.problem else frozenset())
    proposal = replace(proposed(descriptor, capability, arguments, unsettled, problems), left=left.words, is_far=is_far)
    is_whole = not cued and not proposal.missing and _is_whole(reading, capability, found, nouns)
    if not cued and not is_whole and not (keywords and found.values and not proposal.missing):
        return None
    score = (
        _KEYWORD * sum(max(map(reading.weight, phrase)) for phrase in keywords)
        + _EXAMPLE * example
        + _DESCRIPTION * len(reading.subject & plain(capability.description))
        + DATASET * _about(reading, descriptor)
        + _FILLED * len(found.values)
        - _MISSING * len(proposal.missing)
    )
    return replace(proposal, score=score)


def is_passed_over(proposal: Proposal, whole: Sequence[Proposal], descriptors: Sequence[DatasetDescriptor]) -> bool:
    """Whether a call of which nothing is said of a parameter gives way to another of its dataset that lacks none.

    That one takes a value that is required and said: *the recovery of B044* is of one batch, and compares no two.
    """
    if not proposal.missing or not all(item.is_silent for item in proposal.missing):
        return False
    return any(
        item.dataset == proposal.dataset and _takes_required(item, _named(item, descriptors)[1]) for item in whole
    )


def _takes_required(proposal: Proposal, capability: DatasetCapability) -> bool:
    return any(item.required and item.name in proposal.arguments for item in capability.parameters)


def _is_whole(reading: Reading, capability: DatasetCapability, found: Found, nouns: frozenset[str]) -> bool:
    """Whether a value that it needs is said, and all else are words of its keywords and of one column of its results."""
    if not found.named or not any(item.required and item.name in found.values for item in capability.parameters):
        return False
    asked = reading.subject - found.used - nouns
    own = frozenset(word for phrase in _keyword_phrases(capability) for word in phrase)
    return bool(asked) and asked <= own and any(asked <= set(stems(column.name)) for column in capability.results)


def _keyword_phrases(capability: DatasetCapability) -> list[tuple[str, ...]]:
    phrases = [stems(keyword) for keyword in (*capability.keywords, capability.name)]
    return list(dict.fromkeys(phrase for phrase in phrases if phrase))


def _example(reading: Reading, capability: DatasetCapability, found: Found) -> float:
    """Likeness to the best example, 0 to 1, with arguments left out of both sides."""
    asked = reading.telling - found.used
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
