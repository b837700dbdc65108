"""The regular expressions a parameter may declare: a grammar that is matched in bounded time by construction.

``re`` has no timeout and holds the interpreter's lock, and a pattern may come from another
agent's card. So this says what is accepted, not what is dangerous: without groups and with one
variable count per alternative, a text of n characters has at most n + 1 readings.
"""

from __future__ import annotations

import re
import warnings
from typing import Final

MAX_PATTERN_CHARS: Final = 200
MAX_ALTERNATIVES: Final = 32
MAX_COUNT: Final = 256
MAX_VARIABLE_COUNT: Final = 4_096
ACCEPTED: Final = (
    "a pattern is characters, classes [...], \\d, \\w and . with fixed counts {n}, "
    "at most one of ? * + {m,n} in each alternative, alternatives split by |, and no groups or anchors"
)

_ESCAPE: Final = r"\\[dw!-/:-@\[-`{-~]"
_ITEM: Final = re.compile(
    rf"(?:{_ESCAPE}|\[\^?(?:{_ESCAPE}|[^\[\]\\])+\]|[^\\\[\](){{}}*+?|^$])"
    r"(?:\{(?P<fixed>[0-9]{1,4})\}|\{(?P<least>[0-9]{1,4}),(?P<most>[0-9]{1,4})\}|(?P<open>[?*+]))?"
)


def check_pattern(pattern: str) -> None:
    """Raises ``ValueError``, with what is accepted, where ``pattern`` is outside the grammar."""
    if len(pattern) > MAX_PATTERN_CHARS:
        raise ValueError(f"it is longer than {MAX_PATTERN_CHARS} characters")
    place, alternatives, variable = 0, 1, 0
    begun = False
    while place < len(pattern):
        if pattern[place] == "|" and begun:
            place, alternatives, variable, begun = place + 1, alternatives + 1, 0, False
            continue
        item = _ITEM.match(pattern, place)
        if item is None:
            raise ValueError(f"not accepted at character {place + 1}: {ACCEPTED}")
        variable += _is_variable(item)
        place, begun = item.end(), True
        if variable > 1:
            raise ValueError(f"a second variable count before character {place + 1}: {ACCEPTED}")
    if not begun:
        raise ValueError(f"an alternative is empty: {ACCEPTED}")
    if alternatives > MAX_ALTERNATIVES:
        raise ValueError(f"it has more than {MAX_ALTERNATIVES} alternatives")
    _compile(pattern)


def _is_variable(item: re.Match[str]) -> bool:
    """Whether the item's count varies. Raises ``ValueError`` for a count that is too large."""
    if item["fixed"] is not None and int(item["fixed"]) > MAX_COUNT:
        raise ValueError(f"a fixed count is larger than {MAX_COUNT}")
    if item["most"] is not None and int(item["most"]) > MAX_VARIABLE_COUNT:
        raise ValueError(f"a variable count is larger than {MAX_VARIABLE_COUNT}")
    return item["least"] is not None or item["open"] is not None


def _compile(pattern: str) -> None:
    """What only ``re`` finds: a range or a count that runs backwards, a class that may change its meaning."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", FutureWarning)
            re.compile(pattern)
    except (re.error, FutureWarning) as error:
        raise ValueError(f"not a regular expression: {error}") from error
