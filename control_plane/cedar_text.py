"""Where in a Cedar file something stands: its parser names policies by number and gives no lines."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_PIECE: Final = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|;|[^";/]+|.', re.DOTALL)
_QUOTED: Final = re.compile(r"`([^`]+)`|type: (\S+)")
_LAST_NAME: Final = re.compile(r'(?:^|[.:])"?([A-Za-z_]\w*)"?$')


@dataclass(frozen=True, slots=True)
class Statement:
    """One policy as written, without the blanks and comments before it. ``line`` counts from 1."""

    text: str
    line: int


def statements(text: str) -> tuple[Statement, ...]:
    """The statements of a file in order, each with its ``;``; the last may lack it."""
    found: list[Statement] = []
    pieces: list[str] = []
    line = start = 1
    for match in _PIECE.finditer(text):
        piece = match.group()
        is_nothing = not piece.strip() or piece.startswith("//")
        if pieces or not is_nothing:
            if not pieces:
                start = line + piece[: len(piece) - len(piece.lstrip())].count("\n")
                piece = piece.lstrip()
            pieces.append(piece)
        line += match.group().count("\n")
        if piece == ";":
            found.append(Statement("".join(pieces), start))
            pieces = []
    if pieces:
        found.append(Statement("".join(pieces), start))
    return tuple(found)


def line_of(message: str, text: str, *, first: int = 1) -> int | None:
    """The line of the one place where ``text`` says what a message quotes in backticks, else ``None``.

    ``first`` is the number of the text's first line. Of ``attributes.region`` the last name is looked for.
    """
    for match in _QUOTED.finditer(message):
        quoted = match[1] or match[2]
        name = _LAST_NAME.search(quoted)
        for wanted in dict.fromkeys((quoted, name[1] if name else quoted)):
            places = [hit.start() for hit in re.finditer(rf"(?<!\w){re.escape(wanted)}(?!\w)", text)]
            if len(places) == 1:
                return first + text.count("\n", 0, places[0])
    return None
