"""What is wrong with a file, for whoever wrote it: each cause once, in words of files and not of models."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError

from control_plane.yaml_reader import Document

MAX_FAULTS: Final = 3
MAX_TOLD_CHARS: Final = 900
_MAX_NAME: Final = 40

_WORDS: Final = {
    "missing": "is missing",
    "extra_forbidden": "is unknown here",
    "string_type": "must be text; put it in quotes",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "bool_type": "must be true or false",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "frozen_set_type": "must be a list",
    "dict_type": "must have members, each with a name",
    "model_type": "must have members, each with a name",
    "model_attributes_type": "must have members, each with a name",
    "too_short": "must name at least one",
}


@dataclass(frozen=True, slots=True)
class ModelFault:
    """One cause: ``line`` in the file, where it is known, and the ``place`` in its document, such as ``tables[0].file``."""

    line: int | None
    place: str
    message: str

    def __str__(self) -> str:
        line = f"line {self.line}" if self.line else ""
        return _bounded(": ".join(part for part in (line, self.place, self.message) if part))


def faults_in(error: ValidationError, document: Document | None = None) -> str:
    """The first ``MAX_FAULTS`` causes of a pydantic error on one line, each with its place."""
    return in_one_line(all_faults(error, document))


def all_faults(error: ValidationError, document: Document | None = None) -> tuple[ModelFault, ...]:
    """Every cause of a pydantic error."""
    document = document or Document(None, None)
    causes = _causes(error.errors(include_url=False, include_context=False, include_input=False))
    return tuple(ModelFault(*document.where(loc), message) for loc, message in causes)


def in_one_line(faults: Sequence[ModelFault]) -> str:
    """The first ``MAX_FAULTS``, and how many more there are."""
    more = f"; and {len(faults) - MAX_FAULTS} more" if len(faults) > MAX_FAULTS else ""
    return _bounded("; ".join(str(fault) for fault in faults[:MAX_FAULTS])) + more


def _bounded(text: str) -> str:
    """What a file holds may be anything: one line that can be printed."""
    text = " ".join(text.split())[:MAX_TOLD_CHARS]
    return "".join(char if char.isprintable() else "?" for char in text)


def _causes(problems: Sequence[Mapping[str, Any]]) -> Iterator[tuple[tuple[int | str, ...], str]]:
    """Place and message of each cause, in their order.

    A name that is misspelt is one: not that it is unknown, and again that the name it stands
    for is missing.
    """
    missing: dict[tuple[int | str, ...], set[str]] = {}
    for problem in problems:
        if problem["type"] == "missing":
            missing.setdefault(problem["loc"][:-1], set()).add(str(problem["loc"][-1]))
    meant = {}
    for problem in problems:
        loc = problem["loc"]
        if problem["type"] == "extra_forbidden" and (right := _meant(str(loc[-1]), missing.get(loc[:-1]))) is not None:
            missing[loc[:-1]].remove(right)
            meant[loc] = right
    for problem in problems:
        loc, kind = problem["loc"], problem["type"]
        if kind == "too_short" and _has_fault_within(loc, problems):
            continue  # what is wrong is left out of the list, which is then found too short
        if loc in meant:
            yield loc, f"is unknown here; write {meant[loc]}"
        elif kind != "missing" or str(loc[-1]) in missing[loc[:-1]]:
            yield loc, _WORDS.get(kind) or _bare(str(problem["msg"]))


def _has_fault_within(loc: tuple[int | str, ...], problems: Sequence[Mapping[str, Any]]) -> bool:
    return any(len(one["loc"]) > len(loc) and one["loc"][: len(loc)] == loc for one in problems)


def _bare(message: str) -> str:
    return message.removeprefix("Value error, ").replace("Input should be ", "must be ", 1)


def _meant(unknown: str, missing: set[str] | None) -> str | None:
    """Of the missing names beside an unknown one the one that it looks like."""
    alike = difflib.get_close_matches(unknown[:_MAX_NAME], sorted(missing), n=1) if missing else []
    return alike[0] if alike else None
