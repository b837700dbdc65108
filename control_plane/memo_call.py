"""A call that questions are held against, and the arguments of it that stand in a question's words."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final
from zoneinfo import ZoneInfo

from contract.schema import Case, Parameter, SqlType
from contract.zone import UTC
from control_plane.argument_hits import is_grouping
from control_plane.confirm import NUMERIC
from control_plane.descriptor import DatasetCapability, DatasetDescriptor
from control_plane.flags import WITH, WITHOUT, subject_of
from control_plane.free_text import is_free_text
from control_plane.memo_terms import LINKS
from control_plane.memo_words import Token, singular, tokens, written
from control_plane.reader_terms import GROUPING, RELATIONS
from control_plane.words import STOP_WORDS, is_function_word

DAY_TYPES: Final = frozenset({SqlType.DATE, SqlType.DATETIME, SqlType.TIMESTAMP})
_YEAR: Final = re.compile(r"(19|20|21)\d\d")
_BEFORE: Final = re.compile(r"(^|[\s(\"'‘“,;:])$")
_QUOTE: Final = re.compile("[\"“”„‚`«»]|(?<!\\w)['’‘]|['’‘](?!\\w)")
_PAIRS: Final = frozenset({'""', "''", "“”", "‘’", "„“", "‚‘", "«»", "``"})
_AFTER: Final = re.compile(r"($|[\s)\"'’”;:?!]|[.,]($|\s))")


@dataclass(frozen=True, slots=True)
class Call:
    """A call that a question may mean.

    ``cues`` are the phrases by which this capability, and no other, is asked for; days are those of ``zone``.
    """

    descriptor: DatasetDescriptor
    capability: DatasetCapability
    arguments: Mapping[str, Any]
    cues: frozenset[tuple[str, ...]]
    zone: ZoneInfo = UTC

    @property
    def given(self) -> list[Parameter]:
        return [parameter for parameter in self.capability.parameters if parameter.name in self.arguments]

    def values(self, parameter: Parameter) -> list[Any]:
        """The argument, or the items of it."""
        value = self.arguments.get(parameter.name)
        return value if isinstance(value, list) else [] if value is None else [value]


def cues(capability: DatasetCapability, offered: Iterable[DatasetDescriptor]) -> frozenset[tuple[str, ...]]:
    """The keywords of a capability that share no word with the names, keywords and values of any other offered.

    A phrase with a word of relation in it (*per step*) is none, but *side by side* is. Of a
    capability that looks for free text there are none: any word may be meant as that text.
    """
    if any(is_free_text(parameter) for parameter in capability.parameters):
        return frozenset()
    others: set[str] = set()
    for descriptor in offered:
        others.update(_phrase(" ".join((descriptor.dataset, *descriptor.schemas))))
        for other in descriptor.capabilities:
            if other != capability:
                others.update(_names(other))
    found = {_phrase(keyword) for keyword in (*capability.keywords, capability.name)}
    return frozenset(
        phrase
        for phrase in found
        if phrase
        and others.isdisjoint(set(phrase) - STOP_WORDS)
        and (RELATIONS - {"by", "against"}).isdisjoint(phrase)
        and not set(phrase) <= STOP_WORDS - {"against"}
    )


def with_arguments(question: str, call: Call) -> list[Token]:
    """The tokens of a question, with every stretch that is an argument as one token of that kind.

    What a search looks for comes first, for any words may be in it. Values of closed lists that
    are not the argument are argument tokens too: they say something else.
    """
    found = list(tokens(question))
    texts = [parameter for parameter in call.given if parameter.type is SqlType.STRING]
    for parameter in sorted(texts, key=lambda item: not is_free_text(item)):
        found = _listed(found, parameter, call) if parameter.values else _written(found, parameter, call, question)
    found = [_as_year(token, call) for token in found]
    for parameter in call.given:
        if parameter.type is SqlType.BOOL:
            found = _flagged(found, parameter)
    return found


def label(parameter: Parameter, call: Call) -> str:
    """What argument tokens are called: parameters that take the same values share it, for order tells them apart."""
    if not parameter.values:
        return parameter.name if is_free_text(parameter) else ""
    return next(item.name for item in call.capability.parameters if item.values == parameter.values)


def replaced(
    found: Sequence[Token],
    phrase: tuple[str, ...],
    made: Token,
    spelling: Callable[[Token], str],
    fits: Callable[[Sequence[Token]], bool] = lambda stretch: True,
) -> list[Token]:
    """``made`` in place of every stretch that is spelt as ``phrase`` and fits."""
    out: list[Token] = []
    at = 0
    while at < len(found):
        stretch = found[at : at + len(phrase)]
        is_plain = all(token.kind not in ("argument", "cue") for token in stretch)
        if is_plain and tuple(map(spelling, stretch)) == phrase and fits(stretch):
            out.append(made)
            at += len(phrase)
        else:
            out.append(found[at])
            at += 1
    return out


def named(token: Token) -> str:
    """How a word is compared with a keyword or the name of a value."""
    return singular(token.raw)


@lru_cache(maxsize=4_096)
def _phrase(text: str) -> tuple[str, ...]:
    return tuple(map(named, tokens(text)))


def _names(capability: DatasetCapability) -> set[str]:
    names = [capability.name, *capability.keywords]
    for parameter in capability.parameters:
        names += [parameter.name, *parameter.values]
        names += [synonym for synonyms in parameter.synonyms.values() for synonym in synonyms]
    return {item for name in names for item in _phrase(name)} - STOP_WORDS


def _listed(found: list[Token], parameter: Parameter, call: Call) -> list[Token]:
    """Values of a closed list by their names, longer ones first; a name of two values is none."""
    meant: dict[tuple[str, ...], set[str]] = {}
    for value in parameter.values:
        for name in (value, *parameter.synonyms.get(value, ())):
            meant.setdefault(_phrase(name), set()).add(value)
    for phrase in sorted(meant, key=lambda item: (-len(item), item)):
        if phrase and len(meant[phrase]) == 1:
            (value,) = meant[phrase]
            made = Token("argument", f"{label(parameter, call)}={value}")
            bare = is_grouping(parameter) and phrase == _phrase(value)
            found = replaced(found, phrase, made, named, _grouped(found) if bare else _names_a_value)
    return found


def _names_a_value(stretch: Sequence[Token]) -> bool:
    """*In*, *us* and the like are values where capitals make names of them, and nowhere else."""
    return len(stretch) > 1 or not is_function_word(stretch[0].raw, begins=False, shouted=False)


def _grouped(found: Sequence[Token]) -> Callable[[Sequence[Token]], bool]:
    """Of what an answer may be by, a value is said behind *by* or *per*: *that day* is by no day."""
    before = {after.start: token.text for token, after in pairwise(found)}
    return lambda stretch: before.get(stretch[0].start, "") in GROUPING


def _written(found: list[Token], parameter: Parameter, call: Call, question: str) -> list[Token]:
    """Text arguments where they are written out, sign by sign; case counts only where the parameter keeps it.

    What is quoted is sought with every blank and mark in it.
    """
    free, text = is_free_text(parameter), written(question)
    marks = "".join(_QUOTE.findall(text)) if free else ""
    is_quoted = marks in _PAIRS
    if marks and not (is_quoted and text == unicodedata.normalize("NFC", question).strip()):
        return found

    def folded(said: str) -> str:
        # As an argument is: *ß* is no *ss* where a text is made small.
        cased = {Case.UPPER: said.upper(), Case.LOWER: said.lower(), Case.KEEP: said}[parameter.case]
        return unicodedata.normalize("NFC", cased)

    for item in sorted(map(str, call.values(parameter)), key=len, reverse=True):

        def fits(stretch: Sequence[Token], item: str = item) -> bool:
            start, end = stretch[0].start, stretch[-1].end
            before, after = text[max(0, start - 1) : start], text[end : end + 3]
            if is_quoted:
                whole = _QUOTE.match(before) is not None and _QUOTE.match(after) is not None
            else:
                owned = not free and re.match(r"['’]s(?!\w)", after)
                whole = bool(_BEFORE.search(before) and (owned or _AFTER.match(after)))
            return whole and folded(text[start:end]) == folded(item)

        phrase = tuple(folded(token.raw) for token in tokens(item))
        token = Token("argument", f"{label(parameter, call)}={folded(item)}")
        if phrase:
            found = replaced(found, phrase, token, lambda part: folded(part.raw), fits)
    return _without_links(found, f"{parameter.name}=") if free else found


def _without_links(found: list[Token], prefix: str) -> list[Token]:
    """One word such as *mentioning* before what a search looks for adds nothing to it."""
    following = [*found[1:], Token("sign", "")]
    return [
        token
        for token, after in zip(found, following, strict=True)
        if not (
            token.kind == "word" and token.text in LINKS and after.kind == "argument" and after.text.startswith(prefix)
        )
    ]


def _as_year(token: Token, call: Call) -> Token:
    """A figure such as 2024 is a year where the call has days and no such number."""
    if token.kind != "number" or not _YEAR.fullmatch(token.raw):
        return token
    numbers = {str(item) for parameter in call.given if parameter.type in NUMERIC for item in call.values(parameter)}
    if token.raw in numbers or not any(parameter.type in DAY_TYPES for parameter in call.given):
        return token
    year = int(token.raw)
    return Token("date", f"{year}-01-01..{year + 1}-01-01", token.raw)


def _flagged(found: list[Token], parameter: Parameter) -> list[Token]:
    """*with controls*, *excluding controls* as what they say of the flag ``include_controls``."""
    subject, flipped = subject_of(parameter)
    for words, yes in ((WITH, True), (WITHOUT, False)):
        made = Token("argument", f"{parameter.name}={yes != flipped}")
        for word in words if subject else ():
            found = replaced(found, (singular(word), *subject), made, named)
    return found
