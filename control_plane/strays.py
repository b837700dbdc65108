"""Words that look like an identifier where one is missing: all of them are told, with the form that is taken."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from contract.schema import Parameter
from control_plane.stretches import Stretch, Stretches

_SHOWN_PATTERN: Final = 60
_MAX_STRAYS: Final = 4
_STRAY: Final = re.compile(r"(?<![\w.-])(?=[A-Za-z_-]*\d)[A-Za-z0-9][A-Za-z0-9_-]{0,23}(?![\w-])")
_WORD: Final = re.compile(r"[A-Za-z0-9_-]+")


def strays_of(question: str, hits: Iterable[Stretch]) -> tuple[str, ...]:
    """The words of the question that look like identifiers and were taken for no parameter, in order and each once."""
    taken = Stretches(hits)
    found = dict.fromkeys(
        match.group()
        for match in _STRAY.finditer(question)
        if not any(True for _ in taken.over(match.start(), match.end()))
    )
    return tuple(found)[:_MAX_STRAYS]


def unfit(parameter: Parameter, strays: Sequence[str]) -> str:
    """That the words do not match, and an example that the parameter's description gives of what does."""
    *first, last = strays
    listed = f"{', '.join(first)} and {last} do" if first else f"{last} does"
    example = _example(parameter)
    return f"{listed} not match {shown_pattern(parameter)}" + (f", as {example} does" if example else "")


def shown_pattern(parameter: Parameter) -> str:
    """A parameter's pattern as its descriptor writes it, where it is short enough to be read."""
    pattern = parameter.pattern or ""
    return pattern if len(pattern) <= _SHOWN_PATTERN and pattern.isprintable() else "the declared pattern"


def _example(parameter: Parameter) -> str:
    """The first word of the description that matches; one without a digit may be any word of a sentence."""
    said = (word for word in _WORD.findall(parameter.description) if any(char.isdigit() for char in word))
    return next((word for word in said if re.fullmatch(parameter.pattern or "", word)), "")
