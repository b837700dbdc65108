"""Which words of a question a call leaves over: a question is read as a call only where none is.

    arguments -> phrases of the card -> numbers with side and unit -> words of the card -> words of relation

Everything that tells something must be taken by an argument or be published of the capability. A
denial, a limit, a comparison, a number, a unit or a name that nothing takes makes the question
another one: it is told, and never left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from contract.schema import PERIOD_TYPES, SqlType
from control_plane.argument_hits import Place
from control_plane.argument_order import role_of, way_of
from control_plane.arguments import Found
from control_plane.asked_twice import asked_twice
from control_plane.asked_units import is_asked_unit
from control_plane.confirm import names_of
from control_plane.descriptor import DatasetCapability, DatasetDescriptor
from control_plane.figures import Figures, items
from control_plane.free_text import LINK_STEMS, FreeText, is_polar
from control_plane.memo_terms import BOUNDS, COUNTS, TIMES, UNITS, side
from control_plane.published import HERE, Published, neighbour, spelled
from control_plane.reader_terms import (
    GENERAL,
    GROUPING,
    JOINING,
    LEADING,
    LISTING,
    NAMING,
    POLAR,
    RELATIONS,
    STRETCHING,
)
from control_plane.spoken import Spoken
from control_plane.words import ASKING_STEMS, stem, stems, words

_FROM: Final = frozenset({"from", "since", "starting"})
_ON: Final = frozenset({"on", "of", "at", "for", "in"})
_DECORATION: Final = frozenset("#*~`|\\•·…¡¿")
_COMPARED: Final = frozenset(map(stem, ("compare", "comparison", "difference", "differ", "versus")))
_SEEKING: Final = frozenset({"find", "search"})
_MAX_NEW_WORDS: Final = 3


@dataclass(frozen=True, slots=True)
class Left:
    """``words`` are left over, as they were written and in order.

    ``values`` may have been meant as a value of a parameter that is missing: whoever asks is told so.
    """

    words: tuple[str, ...]
    values: str = ""


def left_over(
    question: str,
    descriptor: DatasetDescriptor,
    capability: DatasetCapability,
    arguments: Mapping[str, Any],
    found: Found,
    text: FreeText | None,
) -> Left:
    """What of a question neither ``arguments`` nor the card of the capability accounts for.

    ``found`` and ``text`` are what was read of it. Where they say why a parameter stays open, who asks is told
    what was looked at for it, so that counts as accounted for.
    """
    account = _Account(question, descriptor, capability, arguments, found, text)
    account.settle()
    return account.left()


class _Account:
    def __init__(
        self,
        question: str,
        descriptor: DatasetDescriptor,
        capability: DatasetCapability,
        arguments: Mapping[str, Any],
        found: Found,
        text: FreeText | None,
    ) -> None:
        self._found, self._arguments, self._capability = found, arguments, capability
        self._parameters = capability.parameters
        self._given = [parameter for parameter in capability.parameters if parameter.name in arguments]
        self._open = [item for item in capability.parameters if item.required and item.name not in arguments]
        self._published = Published.of(descriptor, capability)
        self._text = "" if text is None else text.name
        places = [*found.places, *(Place(*at, ()) for at in found.times), *_text_places(question, text)]
        named = [item for item in (*self._given, *self._open) if item.type is not SqlType.BOOL]
        columns = frozenset(word for column in capability.results for word in stems(column.name))
        self._said = Spoken(question, places, named, self._published, columns)
        self._figures = Figures(self._said, capability, arguments, found)
        self._done = [at in self._said.places for at in range(len(self._said.tokens))]

    def settle(self) -> None:
        self._settle_phrases()
        if self._found.is_untimed:
            self._settle_around_times()
        for at, token in enumerate(self._said.tokens):
            if not self._done[at]:
                self._done[at] = self._settle_figure(at) if token.kind in ("number", "unit") else self._is_word(at)
        self._settle_strays()
        for at in asked_twice(self._said, self._published.named):
            self._done[at] = False

    def left(self) -> Left:
        over = [at for at, done in enumerate(self._done) if not done]
        if self._is_open_value(over):
            return Left((), " ".join(self._said.tokens[at].raw for at in over))
        return Left(tuple(self._said.tokens[at].raw or self._said.text(at) for at in over))

    def _settle_phrases(self) -> None:
        """Whole phrases of the card; nouns of the dataset may stand between their words."""
        said = spelled(self._said.tokens)
        for phrase in self._published.phrases:
            for start in range(len(said)):
                for at in _stretch(phrase, said, start, self._published.nouns):
                    self._done[at] = True

    def _settle_around_times(self) -> None:
        """A time that is not read is told, and with it the words that make it another one: *not in*, *or later*."""
        for span in [at for at, place in self._said.places.items() if not place.names]:
            for step in (-1, 1):
                at = span + step
                while 0 <= at < len(self._done) and self._is_about_time(at):
                    at += step
                run = range(min(at, span) + 1, max(at, span))
                # What is denied behind a time is something else: *in 2024 except Basel*.
                if step < 0 or at == len(self._done) or all(self._said.text(inside) not in POLAR for inside in run):
                    for inside in run:
                        self._done[inside] = True

    def _is_about_time(self, at: int) -> bool:
        token = self._said.tokens[at]
        if at in self._said.places:
            return not self._said.places[at].names
        return token.text in STRETCHING or token.kind in ("unit", "date", "id", "sign") or token.raw in UNITS

    def _settle_figure(self, at: int) -> bool:
        is_settled = self._figures.is_settled(at)
        if is_settled and self._said.text(at - 1) in BOUNDS:
            self._done[at - 1] = True
        return is_settled

    def _is_word(self, at: int) -> bool:
        token, said = self._said.tokens[at], self._said.text(at)
        if token.raw in UNITS and is_asked_unit(self._said.tokens, at, self._capability):
            return True
        if token.kind == "relation" and said in BOUNDS:
            return self._figures.is_told(at + 1)  # else the number behind it takes it, or nothing does
        if token.kind == "sign":
            return said in _DECORATION or self._is_related(at)
        if token.kind not in ("word", "relation"):
            return False
        if self._said.is_turned(at):
            return False
        if self._said.is_small(at) and (said in GENERAL or stem(said) in ASKING_STEMS or self._said.is_idle(at)):
            return True
        if said in COUNTS:
            return self._is_count(at)
        if stem(said) in LINK_STEMS and self._leads_to_text(at):
            return True
        if said in RELATIONS:
            return self._is_related(at)
        if said in NAMING and self._said.place_named(at) is not None:
            return True
        return stem(token.raw) in self._published.single or self._said.is_named(at) or self._is_of_value(at)

    def _is_count(self, at: int) -> bool:
        """*The two batches B001 and B002*: how many there are is what is there, right behind the count."""
        place = self._said.place_named(at)
        count = sum(place is not None and other.names == place.names for other in self._said.places.values())
        return COUNTS[self._said.text(at)] == count

    def _leads_to_text(self, at: int) -> bool:
        place = self._said.place_after(at) if self._text else None
        return place is not None and self._text in place.names

    def _is_of_value(self, at: int) -> bool:
        """A word of another name of the value that stands right beside it: *residual host cell DNA*."""
        places = [self._said.places[beside] for beside in (at - 1, at + 1) if beside in self._said.places]
        names = {name for place in places for name in place.names}
        return any(
            stem(self._said.tokens[at].raw) in phrase
            for parameter in self._given
            if parameter.name in names and parameter.values
            for item in items(self._arguments[parameter.name])
            for phrase in names_of(parameter, str(item))
        )

    def _is_related(self, at: int) -> bool:
        said, place = self._said.text(at), self._said.place_after(at)
        if said in POLAR:
            return False
        word, before, after = neighbour(stem(said)), self._said.beside(at, -1), self._said.beside(at, 1)
        pairs = self._published.pairs
        if said in ("each", "every") and after == HERE:
            return False
        if (word, after) in pairs or (place is not None and (word, HERE) in pairs):
            return True
        if place is None and word not in GROUPING and (before, word) in pairs:
            return True
        if said == "and" or (said == "with" and after in self._published.named and not self._is_sought()):
            return True
        if place is None:
            return self._is_before_number(at)
        # *With carrier UA* names an argument; *with peak fronting* chooses by it.
        is_named = after in {part for name in place.names for part in stems(name)}
        return (said != "with" or is_named or self._said.is_joined(place)) and self._is_before(said, place)

    def _is_sought(self) -> bool:
        """*Find runs with …* looks for what follows, and asks no other capability."""
        return not _SEEKING.isdisjoint(token.text for token in self._said.tokens)

    def _is_before(self, said: str, place: Place) -> bool:
        """Whether a word of relation before an argument says no more than that it is one."""
        joined = self._said.is_joined(place)
        parameters = [parameter for parameter in self._given if parameter.name in place.names]
        if said in TIMES:
            wanted = "lower" if said in _FROM else "upper" if said == "before" else "none"
            return any(side(parameter.name) == wanted for parameter in parameters)
        if any(parameter.repeated for parameter in parameters):
            return said in (LISTING if joined else LEADING)
        if said == "by" and self._said.is_passive(place):
            return False
        if way_of(said) and any(role_of(parameter) == way_of(said) for parameter in parameters):
            return True
        if any(parameter.type in PERIOD_TYPES for parameter in parameters) and said not in _ON:
            return False  # *by* and *from* a day say another time
        if joined:
            return said in JOINING and len(place.names) > 1
        if said == "between":
            return len(place.names) > 1 and not _COMPARED.isdisjoint(spelled(self._said.tokens))
        return said in LEADING and (said != "from" or len(place.names) == 1 or self._said.goes_to(place))

    def _is_before_number(self, at: int) -> bool:
        if at + 1 >= len(self._done) or self._said.tokens[at + 1].kind != "number":
            return False
        is_bound = self._said.side_of(at + 1) != "" and self._settle_figure(at + 1)
        return is_bound or self._said.text(at) in ("with", "of", "at", "for")

    def _settle_strays(self) -> None:
        """What looks like an identifier where one is missing: who asks is told that it does not fit."""
        told = self._found.problems
        room = sum(
            item.pattern is not None and item.name in told and item not in self._given for item in self._parameters
        )
        for at, token in enumerate(self._said.tokens):
            if room and not self._done[at] and token.kind in ("id", "number"):
                self._done[at] = True
                if at and self._said.text(at - 1) in JOINING | LEADING:
                    self._done[at - 1] = True
                room -= 1

    def _is_open_value(self, over: Sequence[int]) -> bool:
        """Whether what is left may be a value of a parameter that is missing: a few words together, and no other value."""
        listed = {(parameter.name,) for parameter in self._open if parameter.values}
        if not listed or not 0 < len(over) <= _MAX_NEW_WORDS or over[-1] - over[0] != len(over) - 1:
            return False
        if any(place.names in listed for place in self._said.places.values()):
            return False
        are_words = all(self._said.tokens[at].kind == "word" and self._said.text(at) not in RELATIONS for at in over)
        return are_words and self._said.text(over[0] - 1) in LEADING


def _text_places(question: str, text: FreeText | None) -> list[Place]:
    """Where the text is that a search looks for. What denies or limits is no part of it, unless it is quoted."""
    if text is None:
        return []
    if not is_polar(text):
        return [Place(text.start, text.end, (text.name,))]
    return [
        Place(word.start, word.end, (text.name,))
        for word in words(question)
        if text.start <= word.start < text.end and word.text.casefold() not in POLAR
    ]


def _stretch(phrase: Sequence[str], said: Sequence[str], start: int, nouns: frozenset[str]) -> list[int]:
    """The places of a phrase from ``start`` on, or nothing. Where it is longer than a word, nouns may stand inside."""
    found: list[int] = []
    at = start
    for word in phrase:
        while found and at < len(said) and said[at] != word and said[at] in nouns:
            at += 1
        if at >= len(said) or said[at] != word:
            return []
        found.append(at)
        at += 1
    return found
