"""Values of every type as meanings, their near misses, and the many ways to write one in JSON."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from fractions import Fraction
from itertools import groupby
from random import Random
from typing import Any

LETTERS = "abcxyz019 _-.:{}*éñåŐ한日𝒳"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DAY_US = 86_400_000_000
YEARS_US = 40 * 365 * DAY_US
ANY, ONE = "any text", "any character"


@dataclass(frozen=True, slots=True)
class Kind:
    """``draw`` makes a meaning, ``alter`` another one close to it, ``write`` one of the ways to write it."""

    draw: Callable[[Random], Hashable]
    alter: Callable[[Random, Any], Hashable]
    write: Callable[[Random, Any], Any]


# --- text ------------------------------------------------------------------------------------------


def text(rng: Random) -> str:
    return "".join(rng.choice(LETTERS) for _ in range(rng.randrange(1, 9)))


def other_text(rng: Random, value: str) -> str:
    place = rng.randrange(len(value))
    changed = value[:place] + rng.choice(LETTERS) + value[place + 1 :]
    return rng.choice(
        [changed, value + " ", value + value[-1], value[::-1], value[:place] + value[place + 1 :], value.swapcase()]
    )


def written_text(rng: Random, value: str) -> str:
    """Composed, decomposed, or each character as it comes."""
    return "".join(unicodedata.normalize(rng.choice(["NFC", "NFD"]), char) for char in value)


def cased(fold: Callable[[str], str]) -> Kind:
    """Text whose case carries no meaning."""

    def draw(rng: Random) -> str:
        return fold(text(rng))

    def alter(rng: Random, value: str) -> str:
        return fold(other_text(rng, value))

    def write(rng: Random, value: str) -> str:
        return written_text(rng, "".join(rng.choice([char.upper(), char.lower()]) for char in value))

    return Kind(draw, alter, write)


def pattern(rng: Random) -> tuple[str, ...]:
    """Literal characters and wildcards."""
    return _settled([rng.choice([ANY, ONE, "%", "_", "\\", *"abcé"]) for _ in range(rng.randrange(1, 7))])


def _settled(tokens: list[str]) -> tuple[str, ...]:
    """A run of wildcards means how many characters there are at least, and whether there may be more."""
    settled: list[str] = []
    for wild, run in groupby(tokens, lambda token: token in (ANY, ONE)):
        held = list(run)
        settled += [ONE] * held.count(ONE) + [ANY] * (ANY in held) if wild else held
    return tuple(settled)


def other_pattern(rng: Random, value: tuple[str, ...]) -> tuple[str, ...]:
    tokens, place = list(value), rng.randrange(len(value))
    tokens[place] = rng.choice([ANY, ONE, "%", "_", "a", "b"])
    return _settled(tokens)


def written_pattern(rng: Random, value: tuple[str, ...]) -> str:
    """The wildcards of a run in any order, those for any text more than once."""
    parts = {ANY: "%", ONE: "_", "%": "\\%", "_": "\\_", "\\": "\\\\"}
    tokens: list[str] = []
    for wild, run in groupby(value, lambda token: token in (ANY, ONE)):
        held = list(run)
        if wild and ANY in held:
            held += [ANY] * rng.randrange(3)
            rng.shuffle(held)
        tokens += held
    return written_text(rng, "".join(parts.get(token, token) for token in tokens))


# --- numbers ---------------------------------------------------------------------------------------


def whole(rng: Random) -> int:
    return rng.choice(
        [0, 1, -1, 2023, 95, rng.randrange(-1_000, 1_000), 2**53 + rng.randrange(-3, 4), rng.randrange(-(2**62), 2**62)]
    )


def other_whole(rng: Random, value: int) -> int:
    return rng.choice([value + 1, value - 1, -value, value // 10])


def written_whole(rng: Random, value: int) -> int | str:
    return rng.choice([value, str(value)]) if abs(value) >= 2**53 else value


def real(rng: Random) -> float:
    return rng.choice([0.0, 1.0, 0.1, 95.0, 1e-9, rng.uniform(-100, 100), float(rng.randrange(10_000))])


def other_real(rng: Random, value: float) -> float:
    return rng.choice([math.nextafter(value, math.inf), -value, value * 10, value + 1]) + 0.0


def written_real(rng: Random, value: float) -> float | int:
    ways: list[float | int] = [value]
    if value == 0:
        ways.append(-0.0)
    if value.is_integer() and abs(value) < 2**53:
        ways.append(int(value))
    return rng.choice(ways)


def decimal(rng: Random) -> Fraction:
    """At most nine digits after the point."""
    scale = 10 ** rng.choice([0, 1, 2, 9])
    return Fraction(rng.randrange(-(10**6), 10**6), scale)


def other_decimal(rng: Random, value: Fraction) -> Fraction:
    return rng.choice([value + Fraction(1, 10**9), value + 1, -value, value + Fraction(1, 10)])


def written_decimal(rng: Random, value: Fraction) -> str | float:
    """With zeros before it and after it, or as a number where one has its digits."""
    nano = abs(value) * 10**9
    whole_part, rest = divmod(nano.numerator, 10**9)
    fraction = f"{rest:09d}".rstrip("0")
    fraction += "0" * rng.randrange(0, 10 - len(fraction))
    sign = "-" if value < 0 or (value == 0 and rng.random() < 0.5) else ""
    written = f"{sign}{'0' * rng.randrange(3)}{whole_part}{'.' + fraction if fraction else ''}"
    number = int(value) if value.denominator == 1 else float(value)
    return rng.choice([written, number]) if Fraction(repr(number)) == value else written


# --- time ------------------------------------------------------------------------------------------


def day(rng: Random) -> int:
    """Days since 1970."""
    return rng.randrange(0, 22_000)


def other_day(rng: Random, value: int) -> int:
    return max(0, value + rng.choice([1, -1, 7, 30, 365, 366]))


def written_day(rng: Random, value: int) -> str:
    return (date(1970, 1, 1) + timedelta(days=value)).isoformat()


def moment(rng: Random) -> int:
    """Microseconds since 1970."""
    return rng.choice([rng.randrange(YEARS_US), rng.randrange(YEARS_US // 1_000_000) * 1_000_000])


def other_moment(rng: Random, value: int) -> int:
    return abs(value + rng.choice([1, -1, 1_000_000, 3_600_000_000, -3_600_000_000, DAY_US, 365 * DAY_US]))


def written_moment(rng: Random, value: int) -> str:
    """At some offset from UTC; every way says where it is."""
    offset = timezone(timedelta(minutes=rng.choice([0, 60, -60, 330, -210, 840, -720])))
    written = _written_clock(rng, (EPOCH + timedelta(microseconds=value)).astimezone(offset).replace(tzinfo=None))
    minutes = int((offset.utcoffset(None)).total_seconds()) // 60
    if minutes == 0 and rng.random() < 0.7:
        return written + rng.choice("Zz")
    return f"{written}{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d}"


def written_local(rng: Random, value: int) -> str:
    return _written_clock(rng, (EPOCH + timedelta(microseconds=value)).replace(tzinfo=None))


def _written_clock(rng: Random, when: datetime) -> str:
    return when.strftime("%Y-%m-%d") + rng.choice("Tt ") + _seconds(rng, when)


def _seconds(rng: Random, when: datetime) -> str:
    fraction = f"{when.microsecond:06d}".rstrip("0")
    fraction += "0" * rng.randrange(0, 7 - len(fraction))
    return when.strftime("%H:%M:%S") + (f".{fraction}" if fraction else "")


def written_time(rng: Random, value: int) -> str:
    return _seconds(rng, EPOCH + timedelta(microseconds=value))


def other_time(rng: Random, value: int) -> int:
    return (value + rng.choice([1, -1, 1_000_000, 3_600_000_000])) % DAY_US


# --- many ------------------------------------------------------------------------------------------


def set_of(kind: Kind) -> Kind:
    """Neither order nor repetition carries meaning."""

    def draw(rng: Random) -> frozenset[Hashable]:
        return frozenset(kind.draw(rng) for _ in range(rng.randrange(0, 5)))

    def alter(rng: Random, value: frozenset[Hashable]) -> frozenset[Hashable]:
        if value and rng.random() < 0.5:
            return value - {rng.choice(sorted(value, key=repr))}
        return value | {kind.draw(rng)}

    def write(rng: Random, value: frozenset[Hashable]) -> list[Any]:
        items = sorted(value, key=repr)
        items += rng.choices(items, k=rng.randrange(3)) if items else []
        rng.shuffle(items)
        return [kind.write(rng, item) for item in items]

    return Kind(draw, alter, write)


def list_of(kind: Kind) -> Kind:
    """Order and repetition carry meaning."""

    def draw(rng: Random) -> tuple[Hashable, ...]:
        return tuple(kind.draw(rng) for _ in range(rng.randrange(1, 5)))

    def alter(rng: Random, value: tuple[Hashable, ...]) -> tuple[Hashable, ...]:
        return rng.choice([value[::-1], value + value[:1], value[1:], (*value[1:], kind.draw(rng))])

    def write(rng: Random, value: tuple[Hashable, ...]) -> list[Any]:
        return [kind.write(rng, item) for item in value]

    return Kind(draw, alter, write)


def record(**members: Kind) -> Kind:
    """The order of members carries no meaning."""

    def draw(rng: Random) -> tuple[Hashable, ...]:
        return tuple(None if rng.random() < 0.1 else kind.draw(rng) for kind in members.values())

    def alter(rng: Random, value: tuple[Hashable, ...]) -> tuple[Hashable, ...]:
        place = rng.randrange(len(value))
        kind, held = list(members.values())[place], value[place]
        changed = kind.draw(rng) if held is None else rng.choice([None, kind.alter(rng, held)])
        return (*value[:place], changed, *value[place + 1 :])

    def write(rng: Random, value: tuple[Hashable, ...]) -> dict[str, Any]:
        pairs = [
            (name, None if held is None else kind.write(rng, held))
            for (name, kind), held in zip(members.items(), value, strict=True)
        ]
        rng.shuffle(pairs)
        return dict(pairs)

    return Kind(draw, alter, write)


STRING = Kind(text, other_text, written_text)
UPPER, LOWER = cased(str.upper), cased(str.lower)
PATTERN = Kind(pattern, other_pattern, written_pattern)
INT64 = Kind(whole, other_whole, written_whole)
FLOAT64 = Kind(real, other_real, written_real)
NUMERIC = Kind(decimal, other_decimal, written_decimal)
BOOL = Kind(lambda rng: rng.random() < 0.5, lambda rng, value: not value, lambda rng, value: value)
DATE = Kind(day, other_day, written_day)
TIMESTAMP = Kind(moment, other_moment, written_moment)
DATETIME = Kind(moment, other_moment, written_local)
TIME = Kind(lambda rng: moment(rng) % DAY_US, other_time, written_time)
