"""What ZetaSQL answers and what the product does, and the verdict over both."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from queries.errors import TemplateError
from tests.oracle.corpus import EDGES, Item, one_row, reference_arguments
from tests.oracle.product import Outcome, Product
from tests.oracle.reference import Reference, ReferenceError

SAME, REFUSED, FAILED, DIFFERENT = "same", "refused", "failed", "different"
# ZetaSQL computes an operand that fails and whose value does not matter, such as one beside a NULL.
SPARED = "spared"
_RETURNED = re.compile(r"is declared .+, the query returns (.+)")
_TYPES = {"INT64", "STRING", "FLOAT64", "NUMERIC", "BOOL", "DATE", "DATETIME", "TIME", "TIMESTAMP", "BYTES"}


@dataclass
class Case:
    """One answer of ZetaSQL: types and rows, or ``rows is None`` for an error.

    Where some rows of a query fail and others do not, ``by_row`` holds each row's own answer.
    """

    item: Item
    names: list[str]
    types: list[str]
    rows: list[list[Any]] | None
    by_row: list[list[list[Any]] | None] | None = None


@dataclass
class Tally:
    """Verdicts of one part of the corpus, and what is to be said of those that are not ``same``."""

    verdicts: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def add(self, case: Case, verdict: str, why: str) -> None:
        self.verdicts[case.item.name] = verdict
        if verdict in (SPARED, FAILED, DIFFERENT):
            self.notes.append(f"{verdict}: {case.item.name}\n    {why}")

    def counts(self) -> dict[str, int]:
        held = Counter(self.verdicts.values())
        return {verdict: held[verdict] for verdict in _SEVERITY}


def ask(reference: Reference, item: Item, *, rows_alone: bool = False) -> Case | None:
    """ZetaSQL's answer; ``None`` where its type is one that no template has. ``rows_alone`` allows ``by_row``."""
    try:
        answer = reference.query(item.sql, reference_arguments(item))
    except ReferenceError:
        by_row = _each_row(reference, item) if rows_alone else None
        if by_row is None:
            names, kinds = _shape(reference, item)
            return Case(item, names, kinds, None)
        types, answers = by_row
        return Case(item, ["k", "x"], types, None, answers)
    if not all(_has_type(kind) for kind in answer.types):
        return None
    return Case(item, list(answer.names), list(answer.types), answer.rows)


def _shape(reference: Reference, item: Item) -> tuple[list[str], list[str]]:
    """Names and types of what fails when it is run; one column of an unknown type where it is no query at all."""
    try:
        answer = reference.query(f"SELECT * FROM ({item.sql}) LIMIT 0", reference_arguments(item))
    except ReferenceError:
        return ["x"], []
    return list(answer.names), list(answer.types)


def _each_row(reference: Reference, item: Item) -> tuple[list[str], list[list[list[Any]] | None]] | None:
    alone, answers, types = one_row(item), [], None
    for k in EDGES:
        try:
            answer = reference.query(alone.sql, {"row": ("INT64", k)})
        except ReferenceError:
            answers.append(None)
        else:
            types = list(answer.types)
            answers.append(answer.rows)
    return None if types is None else (types, answers)


def _has_type(kind: str) -> bool:
    bare = kind.replace("ARRAY<", " ").replace("STRUCT<", " ").replace(">", " ").replace(",", " ").split()
    return all(word in _TYPES or word.islower() or word.startswith("_") for word in bare)


async def judge(product: Product, case: Case) -> tuple[str, str]:
    """The verdict over the product's outcome, and why."""
    if case.by_row is not None:
        return await _judge_rows(product, case, case.by_row)
    outcome = await _run(product, case, case.types or ["INT64"])
    returned = _RETURNED.search(outcome.why)
    if not case.types and returned is not None and _has_type(returned[1]):
        # What fails in ZetaSQL may have no type there; the product's own does.
        outcome = await _run(product, case, [returned[1]])
    if outcome.kind == "refused":
        # The types are those of ZetaSQL, so another one is a difference.
        wrong_type = bool(case.types) and "is declared" in outcome.why
        return (DIFFERENT if wrong_type else REFUSED), outcome.why
    if case.rows is None:
        return (SAME, "") if outcome.kind == "error" else (SPARED, f"ZetaSQL fails, this is {outcome.rows}")
    return _verdict(case.rows, outcome)


async def _judge_rows(product: Product, case: Case, answers: Sequence[list[list[Any]] | None]) -> tuple[str, str]:
    alone = one_row(case.item)
    try:
        template = product.load(alone.sql, dict(zip(case.names, case.types, strict=True)), alone.declared())
    except TemplateError as error:
        return (DIFFERENT if "is declared" in error.reason else REFUSED), error.reason
    worst = (SAME, "")
    for k, rows in zip(EDGES, answers, strict=True):
        outcome = await product.answer(template, {"row": k})
        if rows is None:
            verdict = (SAME, "") if outcome.kind == "error" else (SPARED, f"ZetaSQL fails, not {outcome.rows}")
        else:
            verdict = _verdict(rows, outcome)
        if _SEVERITY.index(verdict[0]) > _SEVERITY.index(worst[0]):
            worst = (verdict[0], f"row {k}: {verdict[1]}")
    return worst


_SEVERITY = [SAME, REFUSED, SPARED, FAILED, DIFFERENT]


def _verdict(rows: list[list[Any]], outcome: Outcome) -> tuple[str, str]:
    if outcome.kind == "error":
        return FAILED, f"ZetaSQL has {rows}, this fails"
    if exactly(rows) == exactly(outcome.rows):
        return SAME, ""
    pairs = zip(rows, outcome.rows or [], strict=False)
    first = next(((one, other) for one, other in pairs if exactly(one) != exactly(other)), (rows, outcome.rows))
    return DIFFERENT, f"ZetaSQL has {first[0]}, this has {first[1]}"


def exactly(value: Any) -> Any:
    """A value that equals only what has its type too: 1 is not 1.0, nor True."""
    if isinstance(value, list):
        return [exactly(one) for one in value]
    if isinstance(value, dict):
        return [(name, exactly(one)) for name, one in value.items()]
    return (type(value).__name__, value)


async def _run(product: Product, case: Case, types: list[str]) -> Outcome:
    if len(set(case.names)) != len(case.names) or not all(case.names):
        return Outcome("refused", why="each column has a name of its own")
    columns = dict(zip(case.names, types, strict=False))
    return await product.run(case.item.sql, columns, case.item.declared(), dict(case.item.arguments))
