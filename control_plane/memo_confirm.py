"""Whether one question means the call that another was read as: proven word by word, or not at all.

Likeness only proposes. A proposal holds where (1) all that the new words tell is accounted for
by the arguments, and every argument by the words; (2) the same holds of the old words; and
(3) both tell the same. In doubt it does not hold, which costs one reading and nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final
from zoneinfo import ZoneInfo

from contract.schema import Parameter, SqlType
from control_plane.argument_bounds import may_be_year
from control_plane.argument_order import is_told_apart
from control_plane.asked_units import unit_of
from control_plane.confirm import NUMERIC
from control_plane.memo_call import DAY_TYPES, Call, label
from control_plane.memo_telling import Told, told
from control_plane.memo_terms import BOUNDS, EXTREMES, NEGATIONS, RESTRICTING, TIMES, side
from control_plane.memo_words import Token, number, span

_UNTOLD: Final = NEGATIONS | EXTREMES | RESTRICTING | {"or", "within"}
_FIGURES: Final = frozenset({"argument", "number", "date"})


def means_the_same(question: str, earlier: str, call: Call) -> bool:
    """Whether ``question`` means ``call``, which ``earlier`` was read as."""
    new, old = told(question, call), told(earlier, call)
    if not all(accounts(words, call) for words in (new, old)):
        return False
    return _agree(new, old, call)


def dates_are_said(question: str, call: Call) -> bool:
    """Whether every day and instant among the arguments stands in the words and so means the same tomorrow."""
    new = told(question, call)
    return all(_is_dated(parameter, new, call) for parameter in call.given if parameter.type in DAY_TYPES)


def accounts(words: Told, call: Call) -> bool:
    """Whether words and arguments account for one another: nothing is said that no argument stands for, and none is made up.

    An argument that is its parameter's default need not be said.
    """
    if not all(_is_accounted(words.tokens, at, call) for at in range(len(words.tokens))):
        return False
    return all(_is_evidenced(parameter, words, call) or _is_default(parameter, call) for parameter in call.given)


def _agree(new: Told, old: Told, call: Call) -> bool:
    if new.cued != old.cued:
        return False
    if new.turned != old.turned:
        return False
    if _placed(new, call) != _placed(old, call):
        return False
    if not new.cued and new.bare and not (_is_sought(new) and _is_sought(old)):
        return False
    every = (*new.tokens, *old.tokens)
    if any(token.kind in ("relation", "relative", "number", "unit", "sign") for token in every):
        return _texts(new.tokens) == _texts(old.tokens)
    if not (_is_together(new) and _is_together(old)):
        return _texts(new.tokens) == _texts(old.tokens)
    words = [Counter(_texts(token for token in item.tokens if token.kind == "word")) for item in (new, old)]
    figures = [_texts(item.figures) for item in (new, old)]
    if _is_a_set(call):
        figures = [sorted(set(item)) for item in figures]
    return words[0] == words[1] and figures[0] == figures[1]


def _placed(words: Told, call: Call) -> list[tuple[str, str]]:
    """The words such as *into* before figures that could be one another's: there they may tell which is which."""
    texts: dict[str, list[Parameter]] = {}
    for parameter in call.given:
        if parameter.type is SqlType.STRING:
            texts.setdefault(f"={label(parameter, call)}", []).append(parameter)
    counts = Counter(kind for kind, _ in words.placing)
    confused = {
        kind for kind, n in counts.items() if n > 1 and (not kind.startswith("=") or is_told_apart(texts.get(kind, [])))
    }
    return [(kind, word) for kind, word in words.placing if kind in confused]


def _is_sought(words: Told) -> bool:
    return words.asks and any(token.kind == "argument" for token in words.tokens)


def _texts(found: Iterable[Token]) -> list[tuple[str, str]]:
    return [(token.kind, token.text) for token in found]


def _is_together(words: Told) -> bool:
    """Whether no word stands between two figures: then none belongs to one of them more than to another."""
    places = [at for at, token in enumerate(words.tokens) if token.kind != "word"]
    return not places or places[-1] - places[0] == len(places) - 1


def _is_a_set(call: Call) -> bool:
    """Whether the one text argument there is holds a set, whose order carries no meaning."""
    given = call.given
    return len(given) == 1 and given[0].repeated and not given[0].ordered


def _is_accounted(found: Sequence[Token], at: int, call: Call) -> bool:
    token = found[at]
    before = found[at - 1] if at else None
    after = found[at + 1] if at + 1 < len(found) else None
    if token.kind == "argument":
        return _is_argument(token, call)
    if token.kind == "number":
        if _may_be_time(token, before, after):
            return False
        return any(_bounds(parameter, before) for parameter in _of_number(token, call))
    if token.kind == "unit":
        of = [] if before is None or before.kind != "number" else _of_number(before, call)
        return any(parameter.unit is not None and unit_of(parameter.unit) == token.text for parameter in of)
    if token.kind == "date":
        return any(_is_day_of(token, parameter, call, before) for parameter in call.given)
    if token.kind == "relative":
        return any(parameter.type in DAY_TYPES for parameter in call.given)
    if token.kind == "relation":
        return _is_related(token, after)
    return token.kind == "word"


def _may_be_time(token: Token, before: Token | None, after: Token | None) -> bool:
    has_unit = after is not None and after.kind == "unit"
    return before is not None and may_be_year(token.text, before.raw, has_unit=has_unit)


def _is_related(token: Token, after: Token | None) -> bool:
    """Directions count with what they direct; a denial or an extreme that is no argument is none of ours."""
    if token.text in BOUNDS:
        return after is not None and after.kind == "number"
    if token.text in TIMES:
        return after is not None and after.kind in ("date", "relative")
    if token.text == "with":
        return after is not None and after.kind in _FIGURES
    return token.text not in _UNTOLD


def _is_argument(token: Token, call: Call) -> bool:
    name, _, text = token.text.partition("=")
    return any(
        name == (parameter.name if parameter.type is SqlType.BOOL else label(parameter, call))
        and text.casefold() in {str(item).casefold() for item in call.values(parameter)}
        for parameter in call.given
    )


def _is_evidenced(parameter: Parameter, words: Told, call: Call) -> bool:
    values = call.values(parameter)
    if not values:
        return False
    if parameter.type in NUMERIC:
        numbers = {token.text for token in words.tokens if token.kind == "number"}
        return all(_spelt(item) in numbers for item in values)
    if parameter.type in DAY_TYPES:
        return _is_dated(parameter, words, call) or any(token.kind == "relative" for token in words.tokens)
    # Of any other type no token is made, so no argument of it is ever said.
    name = parameter.name if parameter.type is SqlType.BOOL else label(parameter, call)
    said = {token.text.casefold() for token in words.tokens if token.kind == "argument"}
    return all(f"{name}={item}".casefold() in said for item in values)


def _is_dated(parameter: Parameter, words: Told, call: Call) -> bool:
    return any(
        token.kind == "date" and _is_day_of(token, parameter, call, words.tokens[at - 1] if at else None)
        for at, token in enumerate(words.tokens)
    )


def _is_day_of(token: Token, parameter: Parameter, call: Call, before: Token | None) -> bool:
    """A day is the argument; a span of days is from its first to its last, or to the day after it."""
    values = [_day(item, call.zone) for item in call.values(parameter)] if parameter.type in DAY_TYPES else []
    start, end = span(token.text)
    bound = side(parameter.name)
    cue = TIMES.get(before.text) if before is not None and before.kind == "relation" else None
    if cue is not None and bound and cue != bound:
        return False
    if cue is None and bound == "upper":
        return end in values or start in values
    return start in values or (cue == "lower" and end in values)


def _bounds(parameter: Parameter, before: Token | None) -> bool:
    """Whether the word before a number directs it as the parameter's name says."""
    wanted = BOUNDS.get(before.text) if before is not None and before.kind == "relation" else None
    return wanted is None or side(parameter.name) == wanted


def _of_number(token: Token, call: Call) -> list[Parameter]:
    return [
        parameter
        for parameter in call.given
        if parameter.type in NUMERIC and token.text in {_spelt(item) for item in call.values(parameter)}
    ]


def _is_default(parameter: Parameter, call: Call) -> bool:
    value = call.arguments[parameter.name]
    return parameter.default is not None and type(value) is type(parameter.default) and value == parameter.default


def _spelt(value: Any) -> str:
    return number(format(Decimal(str(value)), "f"))


def _day(value: Any, zone: ZoneInfo) -> date | None:
    """The day of a DATE, and of an instant that is a midnight in ``zone``."""
    try:
        moment = datetime.fromisoformat(str(value))
    except ValueError:
        return None
    moment = moment if moment.tzinfo is None else moment.astimezone(zone)
    return moment.date() if (moment.hour, moment.minute, moment.second, moment.microsecond) == (0, 0, 0, 0) else None
