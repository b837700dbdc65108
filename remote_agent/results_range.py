"""Which bytes of a stored result are asked for (RFC 9110, section 14): all of them, or one range."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_UNIT: Final = re.compile(r"bytes[ \t]*=(.*)", re.IGNORECASE | re.DOTALL)
_RANGE: Final = re.compile(r"[ \t]*(?:([0-9]{1,18})-([0-9]{1,18})?|-([0-9]{1,18}))[ \t]*")


class Unsatisfiable(ValueError):
    """A range that this result does not have, or that is more than one."""


@dataclass(frozen=True, slots=True)
class Span:
    """Bytes ``first`` to ``last``, both included, of ``size``."""

    first: int
    last: int
    size: int
    partial: bool

    @property
    def length(self) -> int:
        return self.last - self.first + 1


def span_of(header: str | None, size: int) -> Span:
    """The bytes that a ``Range`` header asks for of ``size``, at least 1. Raises ``Unsatisfiable``.

    A header of another unit asks for nothing that is known here, so it is for everything.
    """
    unit = _UNIT.fullmatch(header or "")
    if unit is None:
        return Span(0, size - 1, size, partial=False)
    found = _RANGE.fullmatch(unit[1])
    if found is None:
        raise Unsatisfiable("ask for one range of bytes at a time")
    first, last, newest = found.groups()
    if newest is not None:
        start, end = max(0, size - int(newest)), size - 1
        satisfiable = int(newest) > 0
    else:
        start, end = int(first), size - 1 if last is None else min(int(last), size - 1)
        satisfiable = start < size and (last is None or start <= int(last))
    if not satisfiable:
        raise Unsatisfiable("the result does not have this range")
    return Span(start, end, size, partial=True)
