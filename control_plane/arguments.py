"""Arguments found in a question: confirmed by code, never guessed.

A value that could belong to several parameters, or a parameter that several values could
fill, stays open and is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from zoneinfo import ZoneInfo

from contract.schema import Parameter
from contract.zone import UTC
from control_plane.argument_bounds import Bounded, bounded, is_bound, unit_missing
from control_plane.argument_hits import ISO, Hit, Place, hits_of, is_grain
from control_plane.argument_order import assigned
from control_plane.confirm import NUMERIC, confirm_one
from control_plane.descriptor import DatasetCapability
from control_plane.flags import flag_hits
from control_plane.period_hits import Said, find_periods, said_of_time, unread_times
from control_plane.strays import shown_pattern, strays_of, unfit
from control_plane.stretches import Stretches
from control_plane.words import Word, is_function_word, stems, words


@dataclass(frozen=True, slots=True)
class Found:
    """Arguments by parameter, and what else the words say of parameters.

    ``ambiguous`` are parameters for which the question holds something that does not settle them.
    ``problems`` say in a few words why a parameter is not filled, where that is known.
    ``used`` are the stems that arguments account for. ``named`` counts the distinct
    identifiers that match a pattern: a word without a digit is none, because a wide pattern
    fits any word; and the values that capitals alone make names of (*US*, *IT*). ``timed`` are the stems of what speaks of time, where the capability has periods.
    ``places`` is where the question holds something for parameters, but for numbers; ``numbers`` are those that
    could be of a parameter and fill none. ``times`` (character offsets) is where it speaks of time; with
    ``is_untimed`` that settles no period. ``figures`` are the numbers that are said for bounds, by parameter.
    """

    values: Mapping[str, Any]
    ambiguous: frozenset[str]
    problems: Mapping[str, str]
    used: frozenset[str]
    named: int
    timed: frozenset[str] = frozenset()
    places: tuple[Place, ...] = ()
    numbers: tuple[str, ...] = ()
    times: tuple[tuple[int, int], ...] = ()
    is_untimed: bool = False
    figures: Mapping[str, str] = field(default_factory=dict)


def find_arguments(
    question: str,
    parameters: Sequence[Parameter],
    now: float,
    *,
    zone: ZoneInfo = UTC,
    capability: DatasetCapability | None = None,
) -> Found:
    """What a question says about parameters that have a shape (pattern, values, number, time).

    ``now`` (POSIX seconds) and ``zone`` give *today* and *yesterday* their dates. Both bounds of a
    period of ``capability`` are filled by what is said of the period, and by nothing else. Free
    text is not looked for here.
    """
    names = {parameter.name for parameter in parameters}
    periods = [] if capability is None else [p for p in capability.periods if {p.from_, p.to} <= names]
    bounds = {name for period in periods for name in (period.from_, period.to)}
    found, claimed, said = _of_shape(
        question, [p for p in parameters if p.name not in bounds], capability, bool(periods), zone, now
    )
    if capability is None or not periods:
        return found
    timed = find_periods(question, capability, periods, said, claimed, zone=zone, now=now)
    spoken = frozenset(stems(" ".join((*(item.text for item in said), timed.stray))))
    unsettled = bounds - set(timed.values) if timed.is_unsettled else frozenset[str]()
    return replace(
        found,
        values={**found.values, **timed.values},
        ambiguous=found.ambiguous | unsettled,
        problems={**found.problems, **timed.problems},
        used=found.used | spoken,
        timed=spoken,
        times=tuple(sorted((*((item.start, item.end) for item in said), *timed.places))),
        is_untimed=timed.is_unsettled,
    )


def _of_shape(
    question: str,
    parameters: Sequence[Parameter],
    capability: DatasetCapability | None,
    with_time: bool,
    zone: ZoneInfo,
    now: float,
) -> tuple[Found, list[tuple[int, int]], list[Said]]:
    """What is found of parameters that bound no period, the stretches they claim, and what speaks of time."""
    asked = words(question)
    groups = _groups(parameters)
    phrases = [] if capability is None else [stems(text) for text in (*capability.keywords, capability.name)]
    claims = [hits_of(question, asked, group[0], zone, now, phrases) for group in groups]
    said = list(said_of_time(question)) if with_time else []
    times = Stretches(said)
    unread = Stretches(Place(*at, ()) for at in unread_times(question, said)) if with_time else Stretches[Place](())
    claims = [
        [hit for hit in hits if not (_is_dated(group[0], hit, times) or _is_of_time(question, hit, times, unread))]
        for group, hits in zip(groups, claims, strict=True)
    ]
    claims = [
        _settled(question, hits, claims) if group[0].type in NUMERIC else hits
        for group, hits in zip(groups, claims, strict=True)
    ]
    taken = [hit for hits in claims for hit in hits]
    filled_by = Stretches(taken)
    said = [item for item in said if not (item.is_bare and any(True for _ in filled_by.over(item.start, item.end)))]
    said = [replace(item, is_clear=item.is_clear and not _is_shared(item, filled_by)) for item in said]
    strays = strays_of(question, [*taken, *(Hit(None, item.start, item.end) for item in said)])
    values: dict[str, Any] = {}
    figures: dict[str, str] = {}
    unsettled: set[str] = set()
    problems: dict[str, str] = {}
    examples = () if capability is None else capability.examples
    spoken = [Hit(None, item.start, item.end) for item in said]
    for group, claimed, hits in zip(groups, claims, _uncontested([*claims, spoken]), strict=False):
        contested = len(hits) < len(claimed) or any(hit.is_doubtful for hit in claimed)
        made = Bounded() if contested else _assign(question, group, hits, examples)
        filled = made.values
        left = [parameter.name for parameter in group if parameter.name not in filled]
        values.update(filled)
        figures.update(made.said)
        if claimed and not filled:
            unsettled.update(left)
        problem = made.problem or _problem(group, claimed, filled, contested, strays)
        if problem:
            problems.update(dict.fromkeys(left, problem))
    used = {stem for hit in taken for stem in stems(question[hit.start : hit.end])}
    named = {hit.value for group, hits in zip(groups, claims, strict=True) if group[0].pattern for hit in hits}
    identifiers = sum(any(char.isdigit() for char in str(value)) for value in named)
    listed = [hit for group, hits in zip(groups, claims, strict=True) if group[0].values for hit in hits]
    identifiers += _names_in_capitals(asked, listed)
    flags = {item.name: flag_hits(question, asked, item) for item in parameters}
    for name, said_of in flags.items():
        if len({hit.value for hit in said_of}) == 1:
            values[name] = said_of[0].value
        elif said_of:
            unsettled.add(name)
    of_group = [(tuple(item.name for item in group), hits) for group, hits in zip(groups, claims, strict=True)]
    of_group += [((name,), said_of) for name, said_of in flags.items()]
    numeric = {item.name for item in parameters if item.type in NUMERIC}
    found = Found(
        values,
        frozenset(unsettled),
        problems,
        frozenset(used),
        identifiers,
        places=tuple(
            Place(hit.start, hit.end, names) for names, hits in of_group if names[0] not in numeric for hit in hits
        ),
        numbers=tuple(
            hit.value
            for names, hits in of_group
            if names[0] in numeric and values.keys().isdisjoint(names)
            for hit in hits
        ),
        figures=figures,
    )
    return found, [(hit.start, hit.end) for hit in taken], said


def _names_in_capitals(asked: Sequence[Word], listed: Sequence[Hit]) -> int:
    small = {word.start for word in asked if is_function_word(word.text.lower(), begins=False, shouted=False)}
    return len({hit.value for hit in listed if hit.start in small and not hit.is_doubtful})


def _settled(question: str, hits: Sequence[Hit], claims: Sequence[Sequence[Hit]]) -> list[Hit]:
    """Numbers that count nothing after all, since what stands behind them is a value: *1000 dollars*."""
    starts = {hit.start for claimed in claims for hit in claimed}
    return [replace(hit, is_doubtful=hit.is_doubtful and _next_word(question, hit.end) not in starts) for hit in hits]


def _next_word(question: str, at: int) -> int:
    while at < len(question) and question[at].isspace():
        at += 1
    return at


def _is_of_time(question: str, hit: Hit, times: Stretches[Said], unread: Stretches[Place]) -> bool:
    """Whether a word such as *month* is part of a time: of *last month*, and of *two months ago*, which is not read."""
    if not is_grain(question[hit.start : hit.end]):
        return False
    return any(True for _ in times.over(hit.start, hit.end)) or any(True for _ in unread.over(hit.start, hit.end))


def _is_dated(parameter: Parameter, hit: Hit, times: Stretches[Said]) -> bool:
    """Whether a number is part of a time that nothing but a time can be."""
    if parameter.type not in NUMERIC:
        return False
    around = times.over(hit.start, hit.end)
    return any(not item.is_weak and item.start <= hit.start and hit.end <= item.end for item in around)


def _is_shared(item: Said, taken: Stretches[Hit]) -> bool:
    """Whether what speaks of time may as well be a value of another kind."""
    size = item.end - item.start
    return any(item.is_weak or hit.end - hit.start >= size for hit in taken.over(item.start, item.end))


def _problem(
    group: Sequence[Parameter],
    claimed: Sequence[Hit],
    filled: Mapping[str, Any],
    contested: bool,
    strays: Sequence[str],
) -> str:
    """Why parameters of a group stay open, from what the descriptor declares of them."""
    wanted = group[0]
    if claimed and not filled:
        if contested:
            return "what is said could be this or another parameter"
        count = len({hit.value for hit in claimed})
        room = wanted.max_items if wanted.repeated else len(group)
        if count > room:
            shape = f"match {shown_pattern(wanted)}" if wanted.pattern else "would fit"
            return f"{count} values in the question {shape} and the call takes {room}"
        if wanted.type in NUMERIC or wanted.type in ISO:
            return f"a {wanted.type.value} is said, but not for which bound, or it is out of bounds"
        return ""
    return unfit(wanted, strays) if wanted.pattern and strays else ""


def _groups(parameters: Sequence[Parameter]) -> list[list[Parameter]]:
    """Parameters that the same words could fill, in declared order."""
    groups: dict[tuple[Any, ...], list[Parameter]] = {}
    for item in parameters:
        kind = "number" if item.type in NUMERIC else item.type.value
        groups.setdefault((kind, item.pattern, item.values, item.case), []).append(item)
    return list(groups.values())


def _uncontested(claims: Sequence[list[Hit]]) -> list[list[Hit]]:
    """Hits that no other group claims with an equal or a longer stretch of the question."""
    found = [Stretches(hits) for hits in claims]

    def contested(hit: Hit, number: int) -> bool:
        size = hit.end - hit.start
        others = (other for n, held in enumerate(found) if n != number for other in held.over(hit.start, hit.end))
        return any(other.end - other.start >= size for other in others)

    return [[hit for hit in hits if not contested(hit, number)] for number, hits in enumerate(claims)]


def _assign(question: str, group: Sequence[Parameter], hits: Sequence[Hit], examples: Sequence[str]) -> Bounded:
    if len(group) == 1 and group[0].repeated:
        return Bounded(_confirmed(group, [list(dict.fromkeys(hit.value for hit in hits))] if hits else []))
    if group[0].values or group[0].pattern is not None:
        return Bounded(_of_several(question, group, hits))
    if hits and (problem := unit_missing(question, group, hits)):
        return Bounded(problem=problem)
    if any(is_bound(parameter) for parameter in group):
        return bounded(question, group, hits, examples)
    # Which of several plain numbers is which cannot be told from their order, and one that is said twice is two.
    if group[0].type in NUMERIC and (len(group) > 1 or len(hits) > 1):
        return Bounded()
    return Bounded(_of_several(question, group, hits))


def _of_several(question: str, group: Sequence[Parameter], hits: Sequence[Hit]) -> dict[str, Any]:
    found = assigned(question, group, hits) or {}
    given = [parameter for parameter in group if parameter.name in found]
    return _confirmed(given, [found[parameter.name] for parameter in given])


def _confirmed(group: Sequence[Parameter], values: Sequence[Any]) -> dict[str, Any]:
    """All of the values, each confirmed for its parameter, or none of them."""
    if len(values) > len(group):
        return {}
    found: dict[str, Any] = {}
    for parameter, value in zip(group, values, strict=False):
        items = value if isinstance(value, list) else [value]
        good = [confirm_one(parameter, item) for item in items]
        if any(item is None for item in good) or len(good) > parameter.max_items:
            return {}
        found[parameter.name] = good if parameter.repeated else good[0]
    return found
