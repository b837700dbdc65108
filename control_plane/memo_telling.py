"""What a question tells, once its words are held against one call: arguments, relations, and the rest.

A word is dropped only where a closed list says that it tells nothing. Everything else stays,
so that two questions that differ in it are two questions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final
from zoneinfo import ZoneInfo

from contract.schema import Case, Parameter, SqlType
from contract.zone import UTC
from control_plane.confirm import NUMERIC
from control_plane.descriptor import DatasetCapability, DatasetDescriptor
from control_plane.free_text import is_free_text
from control_plane.memo_terms import (
    ASKING,
    COMPARISONS,
    COUNTS,
    DAYS,
    EXTREMES,
    LINKS,
    NEGATIONS,
    NEUTRAL,
    RESTRICTING,
    SHIFTS,
    SPANS,
    STRUCTURE,
    TIMES,
)
from control_plane.memo_words import Token, tokens
from control_plane.words import STOP_WORDS, stem, stems

DAY_TYPES: Final = frozenset({SqlType.DATE, SqlType.DATETIME, SqlType.TIMESTAMP})
_JOINING: Final = frozenset({"and", "with", "&"})
_NAMING: Final = frozenset({"number", "id", "called", "named"})
_RELATIONS: Final = NEGATIONS | EXTREMES | RESTRICTING | frozenset(TIMES) | STRUCTURE


@dataclass(frozen=True, slots=True)
class Call:
    """A call that a question may mean. ``cues`` are the phrases by which this capability, and no other, is asked for; days are those of ``zone``."""

    descriptor: DatasetDescriptor
    capability: DatasetCapability
    arguments: Mapping[str, Any]
    cues: frozenset[tuple[str, ...]]
    zone: ZoneInfo = UTC


@dataclass(frozen=True, slots=True)
class Told:
    """``tokens`` are all that tells something, in order; ``cued`` and ``asks`` say what else was said.

    ``bare`` says that nothing but words of asking, arguments and the dataset's own nouns is there.
    """

    tokens: tuple[Token, ...]
    cued: bool
    asks: bool
    bare: bool

    @property
    def figures(self) -> tuple[Token, ...]:
        return tuple(token for token in self.tokens if token.kind not in ("word", "relation"))


def cues(capability: DatasetCapability, offered: Iterable[DatasetDescriptor]) -> frozenset[tuple[str, ...]]:
    """The keywords of a capability that share no word with the names, keywords and values of any other offered.

    A phrase with a word of relation in it (*per step*) is none, but *side by side* is. Of a
    capability that looks for free text there are none: any word may be meant as that text.
    """
    if any(is_free_text(parameter) for parameter in capability.parameters):
        return frozenset()
    others: set[str] = set()
    for descriptor in offered:
        others.update(stems(" ".join((descriptor.dataset, *descriptor.schemas))))
        for other in descriptor.capabilities:
            if other != capability:
                others.update(_names(other))
    found = {stems(keyword) for keyword in (*capability.keywords, capability.name.replace("_", " "))}
    return frozenset(
        phrase
        for phrase in found
        if phrase
        and others.isdisjoint(set(phrase) - STOP_WORDS)
        and (_RELATIONS - {"by", "against"}).isdisjoint(phrase)
        and not set(phrase) <= STOP_WORDS - {"against"}
    )


def told(question: str, call: Call) -> Told:
    """What a question tells of a call, and beside it."""
    found = list(tokens(question))
    for parameter in _by_length(call):
        found = _with_arguments(found, parameter, call.arguments[parameter.name])
    found = [_as_year(token, call) for token in found]
    found = _with_cues(found, call.cues)
    found = _with_negations(_with_comparisons(_with_relative(found)))
    found = _without_joining(_without_nouns(found, call))
    asks = any(token.kind == "word" and token.text in ASKING for token in found)
    cued = any(token.kind == "cue" for token in found)
    telling = tuple(_classed(token) for token in found if not _is_silent(token))
    nouns = frozenset(stems(" ".join((call.descriptor.dataset, *call.descriptor.schemas))))
    bare = all(token.kind != "word" or token.text in nouns for token in telling)
    return Told(telling, cued, asks, bare)


@lru_cache(maxsize=4_096)
def _phrase(text: str) -> tuple[Token, ...]:
    return tokens(text)


def _names(capability: DatasetCapability) -> set[str]:
    names = [capability.name, *capability.keywords]
    for parameter in capability.parameters:
        names += [parameter.name, *parameter.values]
        names += [synonym for synonyms in parameter.synonyms.values() for synonym in synonyms]
    return {item for name in names for item in stems(name)} - STOP_WORDS


def _by_length(call: Call) -> list[Parameter]:
    """The text parameters that have a value, free text first: whatever a search looks for is one piece."""
    given = [p for p in call.capability.parameters if p.type is SqlType.STRING and p.name in call.arguments]
    return sorted(given, key=lambda parameter: not is_free_text(parameter))


def _with_arguments(found: list[Token], parameter: Parameter, value: Any) -> list[Token]:
    """Stretches that are the argument, as argument tokens; other values of a closed list as what they are."""
    free = is_free_text(parameter)
    spelt = _stemmed if parameter.values else _as_written if parameter.case is Case.KEEP else _folded
    meant: dict[tuple[str, ...], set[str]] = {}
    for name, named in _named(parameter, value):
        meant.setdefault(tuple(spelt(token) for token in _phrase(name)), set()).add(named)
    for phrase in sorted(meant, key=lambda item: (-len(item), item)):
        if phrase and len(meant[phrase]) == 1:
            (named,) = meant[phrase]
            text = named if parameter.case is Case.KEEP else named.casefold()
            token = Token("argument", f"{parameter.name if free or parameter.values else ''}={text}", named)
            found = _replaced(found, phrase, token, spelt, after=LINKS if free else frozenset())
    return found


def _named(parameter: Parameter, value: Any) -> list[tuple[str, str]]:
    """Names and what they stand for: each value of a closed list with its synonyms, else the argument itself."""
    if not parameter.values:
        return [(str(item), str(item)) for item in _items(value)]
    return [(name, item) for item in parameter.values for name in (item, *parameter.synonyms.get(item, ()))]


def _stemmed(token: Token) -> str:
    return stem(token.raw)


def _as_written(token: Token) -> str:
    return token.raw


def _folded(token: Token) -> str:
    return token.raw.casefold()


def _replaced(
    found: list[Token],
    phrase: tuple[str, ...],
    made: Token,
    spelt: Callable[[Token], str],
    *,
    after: frozenset[str] = frozenset(),
) -> list[Token]:
    """``made`` in place of every stretch that is spelt as ``phrase``, and of one word of ``after`` before it."""
    out: list[Token] = []
    at = 0
    while at < len(found):
        stretch = found[at : at + len(phrase)]
        if all(token.kind not in ("argument", "cue") for token in stretch) and tuple(map(spelt, stretch)) == phrase:
            if out and out[-1].kind == "word" and out[-1].text in after:
                out.pop()
            out.append(made)
            at += len(phrase)
        else:
            out.append(found[at])
            at += 1
    return out


def _as_year(token: Token, call: Call) -> Token:
    """A figure such as 2024 is a year where the call has days and no such number."""
    given = [item for item in call.capability.parameters if item.name in call.arguments]
    if token.kind != "number" or not re.fullmatch(r"(19|20|21)\d\d", token.raw):
        return token
    if any(item.type in NUMERIC for item in given) or not any(item.type in DAY_TYPES for item in given):
        return token
    year = int(token.raw)
    return Token("date", f"{year}-01-01..{year + 1}-01-01", token.raw)


def _with_cues(found: list[Token], phrases: frozenset[tuple[str, ...]]) -> list[Token]:
    for phrase in sorted(phrases, key=lambda item: (-len(item), item)):
        found = _replaced(found, phrase, Token("cue", ""), _stemmed)
    return found


def _with_relative(found: list[Token]) -> list[Token]:
    """*last 7 days*, *2 weeks ago*, *this month*, *yesterday* as one token each."""
    out: list[Token] = []
    at = 0
    while at < len(found):
        size = _relative_size(found[at:])
        if size:
            out.append(Token("relative", " ".join(token.text for token in found[at : at + size])))
        else:
            out.append(found[at])
        at += size or 1
    return out


def _relative_size(ahead: Sequence[Token]) -> int:
    said = [token.text for token in ahead[:3]]
    numbered = len(ahead) > 1 and ahead[1].kind == "number"
    if said[0] in SHIFTS and len(said) > 1 and said[1] in SPANS:
        return 2
    if said[0] in SHIFTS and numbered and len(said) > 2 and said[2] in SPANS:
        return 3
    if said[0] in SPANS and said[1:] and said[1] == "ago":
        return 2
    if ahead[0].kind == "number" and said[1:2] and said[1] in SPANS and said[2:] == ["ago"]:
        return 3
    return 1 if said[0] in DAYS and ahead[0].kind == "word" else 0


def _with_comparisons(found: list[Token]) -> list[Token]:
    """*more than*, *at least*, *≤* and the like before a number, as what they mean."""
    out: list[Token] = []
    at = 0
    while at < len(found):
        meaning, size = _comparison(found, at)
        out.append(Token("relation", meaning) if size else found[at])
        at += size or 1
    return out


def _comparison(found: Sequence[Token], at: int) -> tuple[str, int]:
    for meaning, phrase in COMPARISONS:
        end = at + len(phrase)
        said = tuple(token.text for token in found[at:end] if token.kind in ("word", "sign"))
        if said == phrase and end < len(found) and found[end].kind == "number":
            return meaning, len(phrase)
    return "", 0


def _with_negations(found: list[Token]) -> list[Token]:
    """*isn't*, *doesn't* and *cannot* are *not*."""
    return [
        Token("relation", "not", token.raw)
        if token.kind == "word" and (token.text.replace("’", "'").endswith("n't") or token.text == "cannot")
        else token
        for token in found
    ]


def _without_nouns(found: list[Token], call: Call) -> list[Token]:
    """*batch B001* without *batch*: a word of the parameter's own name right before its value tells nothing.

    Nor does the count of the values that are there: *the two batches B001 and B002*.
    """
    patterned = [item for item in call.capability.parameters if item.pattern is not None]
    names = frozenset(stem for item in patterned for stem in stems(item.name)) | _NAMING
    values = {str(value).casefold() for item in patterned for value in _items(call.arguments.get(item.name))}
    count = sum(token.kind == "argument" and token.text[1:].casefold() in values for token in found)
    out: list[Token] = []
    for token in found:
        if token.kind == "argument" and token.text[1:].casefold() in values:
            while out and out[-1].kind == "word" and stem(out[-1].raw) in names:
                out.pop()
            while out and out[-1].kind == "word" and COUNTS.get(out[-1].text) == count:
                out.pop()
        out.append(token)
    return out


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _without_joining(found: list[Token]) -> list[Token]:
    """*and*, *with* and *&* say nothing between two arguments, and *between* nothing before two of them."""
    kinds = ["", *(token.kind for token in found), "", ""]
    return [
        token
        for at, token in enumerate(found)
        if not (
            token.kind in ("word", "sign")
            and (
                (token.text in _JOINING and kinds[at] == kinds[at + 2] == "argument")
                or (token.text == "between" and _two_arguments(found[at + 1 : at + 4]))
            )
        )
    ]


def _two_arguments(ahead: Sequence[Token]) -> bool:
    joined = [token for token in ahead if token.text not in _JOINING or token.kind == "argument"]
    return len(joined) >= 2 and all(token.kind == "argument" for token in joined[:2])


def _is_silent(token: Token) -> bool:
    return token.kind == "cue" or (token.kind == "word" and (token.text in NEUTRAL or token.text in ASKING))


def _classed(token: Token) -> Token:
    if token.kind == "sign" and token.text == "&":
        return Token("relation", "and", token.raw)
    if token.kind != "word":
        return token
    if token.text in _RELATIONS:
        return replace(token, kind="relation")
    return replace(token, text=stem(token.raw))
