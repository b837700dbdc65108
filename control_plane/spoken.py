"""The words of a question beside what was read of it as arguments, and what stands next to what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from contract.schema import Parameter
from control_plane.argument_hits import Place
from control_plane.free_text import LINK_STEMS
from control_plane.limits import is_participle
from control_plane.memo_telling import with_comparisons, with_negations
from control_plane.memo_terms import ARTICLES, ASKING_WHO, BEING, BOUNDS, COUNTS, DOING
from control_plane.memo_words import Token, tokens
from control_plane.published import HERE, Published, masked, merged, neighbour
from control_plane.reader_terms import ASKED_AMOUNT, IDLE, JOINING, LEADING, NAMING, PASSED, RELATIONS
from control_plane.words import stem, stems

_IDLE_AFTER: Final = {
    "to": frozenset({"want", "like", "need", "wish"}),
    "like": frozenset({"would", "d", "i"}),
    "do": frozenset({"", "how", "what", "which"}),
}
_HAVING: Final = frozenset({"have", "has", "had"})
_SHORT_NAME: Final = 3


class Spoken:
    """A question as tokens, with one that reads ``HERE`` for each of ``places``, which are of arguments."""

    def __init__(
        self,
        question: str,
        places: Sequence[Place],
        named: Sequence[Parameter],
        published: Published,
        columns: frozenset[str] = frozenset(),
    ) -> None:
        """``named`` are the parameters whose names may be said: those that have a value or need one.

        ``columns`` are the words (stems) of the names of what comes out.
        """
        ordered = merged(places)
        self.tokens: list[Token] = with_comparisons(with_negations(list(tokens(masked(question, ordered)))))
        at = [number for number, token in enumerate(self.tokens) if token.text == HERE]
        self.places: dict[int, Place] = dict(zip(at, ordered, strict=True))
        self._names = frozenset(part for parameter in named for part in stems(parameter.name))
        self._published = published
        self._columns = columns
        self._is_upper = question.isupper()

    def text(self, at: int) -> str:
        return self.tokens[at].text if 0 <= at < len(self.tokens) else ""

    def is_small(self, at: int) -> bool:
        """A capital makes a name of any word (*US*, *column A*), but where a question or a sentence begins with it."""
        raw = self.tokens[at].raw
        is_title = raw[:1].isupper() and (raw[1:].islower() if len(raw) > 1 else at == 0)
        return raw.islower() or self._is_upper or is_title or raw == "I" or (raw.isupper() and len(raw) > _SHORT_NAME)

    def is_idle(self, at: int) -> bool:
        """Whether a word tells nothing where it stands."""
        said, before = self.text(at), self.text(at - 1)
        if said in ASKED_AMOUNT:
            return before == "how" and self.text(at + 1) in BEING
        if said in _IDLE_AFTER:
            return before in _IDLE_AFTER[said]
        if said == "a" and at > 1:
            # An article, and no name: *protein a*, *column a*.
            return before in IDLE | RELATIONS or stem(before) in LINK_STEMS
        return said in IDLE

    def is_turned(self, at: int) -> bool:
        """Whether a word that tells nothing elsewhere makes an argument the one who does it: *who does E1 manage*.

        So do *E1 is the manager* and *the manager of* at the end.
        """
        said = self.text(at)
        if said in DOING:
            asked = {self.text(before) for before in range(at)}
            return bool(asked & ASKING_WHO) and self.place_named(at) is not None and not self._is_of_result(at)
        if said in ARTICLES and (self._is_subject(at - 1) or (self.text(at - 1) in BEING and self._is_subject(at - 2))):
            return True
        return said in ASKING_WHO | {"of"} and 0 < at == len(self.tokens) - 1

    def _is_subject(self, at: int) -> bool:
        """Whether an argument stands there by itself, and behind no word such as *for* or *and*."""
        if at not in self.places:
            return False
        before = next((one for one in range(at - 1, -1, -1) if not self.is_named(one)), -1)
        return self.text(before) not in LEADING | JOINING

    def _is_of_result(self, at: int) -> bool:
        """Whether what is done is what comes out: *what yield does B003 have*, *what did B003 yield*."""
        done = next((number + 1 for number in range(at, len(self.tokens)) if number in self.places), 0)
        return self.text(done) in _HAVING or (done < len(self.tokens) and stem(self.tokens[done].raw) in self._columns)

    def is_passive(self, place: Place) -> bool:
        """Whether an argument does what is said before it: *managed by E1*."""
        at = next(number for number, other in self.places.items() if other is place)
        return at > 1 and is_participle(self.tokens[at - 2].raw)

    def is_named(self, at: int) -> bool:
        """Whether it is a word of the name of a parameter that has its value, or is asked for."""
        return stem(self.tokens[at].raw) in self._names

    def place_after(self, at: int) -> Place | None:
        """The argument that comes next, with nothing between but words that tell nothing or name its parameter."""
        for ahead in range(at + 1, len(self.tokens)):
            if ahead in self.places:
                return self.places[ahead]
            token = self.tokens[ahead]
            is_noun = stem(token.raw) in self._published.nouns
            if not (token.text in IDLE | NAMING or is_noun or self.is_named(ahead)):
                return None
        return None

    def place_named(self, at: int) -> Place | None:
        """The argument that stands right behind, with at most words of its parameter's name between: *two batches B001*."""
        for ahead in range(at + 1, len(self.tokens)):
            if ahead in self.places:
                return self.places[ahead]
            if not (self.text(ahead) in NAMING or self.is_named(ahead)):
                return None
        return None

    def beside(self, at: int, step: int) -> str:
        """The next word that tells something, as ``Published.pairs`` has it, or ``""``."""
        at += step
        while 0 <= at < len(self.tokens):
            if at in self.places:
                return HERE
            if self.text(at) not in PASSED | COUNTS.keys():
                return neighbour(stem(self.tokens[at].raw))
            at += step
        return ""

    def is_joined(self, place: Place) -> bool:
        """Whether an argument of the same parameters stands before."""
        return any(other.names == place.names and other.start < place.start for other in self.places.values())

    def goes_to(self, first: Place) -> bool:
        """Whether *from* has its *to*: *from Basel to Cork*."""
        at = [at for at, place in self.places.items() if place.names == first.names]
        return len(at) == 2 and self.text(at[1] - 1) == "to"

    def side_of(self, at: int) -> str:
        """Which bound the word before a number makes it: ``lower``, ``upper``, or none (``""``)."""
        before, earlier = self.text(at - 1), {token.text for token in self.tokens[: max(0, at - 1)]}
        if before in BOUNDS:
            # *Between 1 and below 4* is no range that is read.
            return "neither" if self.text(at - 2) == "and" and "between" in earlier else BOUNDS[before]
        if (before == "and" and "between" in earlier) or (before == "to" and "from" in earlier):
            return "upper"
        return "lower" if before in ("between", "from") else ""
