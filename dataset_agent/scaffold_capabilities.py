"""The first capabilities of a new dataset: its rows a page at a time, and a summary of them in groups."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from contract.schema import Mode, SqlType
from dataset_agent.scaffold_facts import TableFacts, is_personal
from dataset_agent.scaffold_source import SourceTable
from queries.source_columns import SourceColumn

S = SqlType
_MOST_SHOWN: Final = 40
_MOST_FILTERS: Final = 4
_MOST_MEASURES: Final = 4
_PAGE: Final = 100
_LARGEST_PAGE: Final = 1_000
_MOST_SKIPPED: Final = 10_000_000
_MOST_GROUPS: Final = 1_000
_SUMMING: Final = ("summarise", "summarize", "summary", "count", "how many", "number of", "per", "mean", "average")
_NUMBERS: Final = (S.INT64, S.FLOAT64, S.NUMERIC)
_MOMENTS: Final = (S.TIMESTAMP, S.DATETIME, S.DATE)
_ORDERED: Final = (*_NUMBERS, *_MOMENTS, S.STRING, S.BOOL, S.TIME)
_NO_MEASURE: Final = re.compile(
    r"(^|_)(id|key|no|nr|num|number|code|zip|year|month|week|day|hour|minute|second|lat|latitude|lon|lng|longitude|tz|flight)$"
)
_MEASURE: Final = re.compile(
    r"(^|_)(delay|amount|price|cost|total|value|score|duration|distance|count|qty|quantity|rate|pct|percent|temp|level|"
    r"weight|size|speed|age|air_time|sum|mean|avg)(_|$)"
)


@dataclass(frozen=True, slots=True)
class ScaffoldCapability:
    """A capability of a table, as it is written: ``parameters`` and ``results`` in the descriptor's own members."""

    name: str
    table: str
    description: str
    effect: str
    sql: str
    max_rows: int
    parameters: tuple[dict[str, Any], ...] = ()
    results: tuple[dict[str, Any], ...] = ()
    keywords: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()


@dataclass(slots=True)
class _Filters:
    """Conditions that hold where a parameter is given, and those parameters."""

    parameters: list[dict[str, Any]] = field(default_factory=list)
    conditions: list[str] = field(default_factory=list)

    def where(self) -> list[str]:
        return [
            f"{'WHERE' if number == 0 else '  AND'} {condition}" for number, condition in enumerate(self.conditions)
        ]


def capabilities_of(source: SourceTable, facts: TableFacts) -> list[ScaffoldCapability]:
    """One or two for a table: a summary only where there is something to group by or to average."""
    shown = [c for c in source.columns if not is_personal(c)][:_MOST_SHOWN]
    alias = _alias(source)
    filters, groups = _filters(shown, facts, alias), _groups(shown, facts)
    made = [_list(source, shown, filters, _order(shown, facts, alias), alias)]
    measures = _measures(shown, facts)
    if groups or measures:
        made.append(_summary(source, filters, groups[:1], measures, alias))
    return made


def _alias(source: SourceTable) -> str:
    """A name for the table in its templates that is none of its columns' names, nor its own."""
    taken = {source.name, *(column.name for column in source.columns)}
    return next(name for name in ("t", *(f"t{number}" for number in range(len(taken) + 1))) if name not in taken)


def _flat(column: SourceColumn) -> bool:
    return column.mode is not Mode.REPEATED and column.type in _ORDERED


def _groups(shown: Sequence[SourceColumn], facts: TableFacts) -> list[SourceColumn]:
    """Columns of few texts that come again, those with the most first; where nothing is known of the rows, any text."""
    texts = [column for column in shown if column.type is S.STRING and column.mode is not Mode.REPEATED]
    if facts.rows is None:
        return texts[:_MOST_FILTERS]
    few = [c for c in texts if len(facts.of(c).values) > 1 and 3 * len(facts.of(c).values) <= 2 * facts.rows]
    return sorted(few, key=lambda column: -len(facts.of(column).values))[:_MOST_FILTERS]


def _filters(shown: Sequence[SourceColumn], facts: TableFacts, alias: str) -> _Filters:
    found = _Filters()
    for column in _groups(shown, facts):
        parameter: dict[str, Any] = {
            "name": column.name,
            "type": "STRING",
            "nullable": True,
            "description": f"Only rows with this {_words(column.name)}.",
        }
        if values := facts.of(column).values:
            parameter["values"] = list(values)
        found.parameters.append(parameter)
        found.conditions.append(f"(@{column.name} IS NULL OR {alias}.{column.name} = @{column.name})")
    moment = _moment(shown)
    if moment is not None and moment.type is not None:
        words, utc = _words(moment.name), " (UTC)" if moment.type is S.TIMESTAMP else ""
        # Days, because that is what questions say.
        for name, sign, bound, said in (
            (f"{moment.name}_from", ">=", "@{}", "or later"),
            (f"{moment.name}_until", "<", "DATE_ADD(@{}, INTERVAL 1 DAY)", "or before"),
        ):
            day = bound.format(name)
            if moment.type is not S.DATE:
                day = f"{moment.type.value}({day})"
            text = f"Only rows with a {words} on this day{utc} {said}."
            found.parameters.append({"name": name, "type": "DATE", "nullable": True, "description": text})
            found.conditions.append(f"(@{name} IS NULL OR {alias}.{moment.name} {sign} {day})")
    return found


def _moment(shown: Sequence[SourceColumn]) -> SourceColumn | None:
    return next((column for column in shown if column.type in _MOMENTS and _flat(column)), None)


def _order(shown: Sequence[SourceColumn], facts: TableFacts, alias: str) -> list[str]:
    """Terms that put every row in its place: a key where there is one, else all columns that have an order."""
    flat = [column for column in shown if _flat(column)]
    moment = _moment(shown)
    first = [f"{alias}.{moment.name} DESC"] if moment is not None else []
    key = next((c for c in flat if facts.rows and facts.of(c).distinct == facts.rows and not facts.of(c).nulls), None)
    if key is not None:
        return [*first, *([f"{alias}.{key.name}"] if key is not moment else [])]
    return [*first, *(f"{alias}.{column.name}" for column in flat if column is not moment)] or ["1"]


def _list(
    source: SourceTable, shown: Sequence[SourceColumn], filters: _Filters, order: Sequence[str], alias: str
) -> ScaffoldCapability:
    words = _words(source.name)
    paging = [
        {
            "name": "page_size",
            "type": "INT64",
            "default": _PAGE,
            "minimum": 1,
            "maximum": _LARGEST_PAGE,
            "description": "The most rows of a page.",
        },
        {
            "name": "skip",
            "type": "INT64",
            "default": 0,
            "minimum": 0,
            "maximum": _MOST_SKIPPED,
            "description": "How many rows to leave out before the page.",
        },
    ]
    columns = ",\n  ".join(f"{alias}.{column.name} AS {column.name}" for column in shown)
    lines = [
        f"-- Rows of {source.name}, a page at a time. A filter holds where its parameter is given.",
        f"SELECT\n  {columns}",
        f"FROM {source.name} AS {alias}",
        *filters.where(),
        # Every row has one place, so that pages neither overlap nor leave a gap.
        f"ORDER BY {', '.join(order)}",
        "LIMIT @page_size OFFSET @skip",
    ]
    return ScaffoldCapability(
        name=f"list_{source.name}",
        table=source.name,
        description=f"list rows of {words}",
        effect="read",
        sql="\n".join(lines) + "\n",
        max_rows=_LARGEST_PAGE,
        parameters=(*filters.parameters, *paging),
        results=tuple(_result(column) for column in shown),
        keywords=("list", "show", "find", "rows", words, *_asked(filters)),
        examples=(f"List {words}", *_example(f"Show {words} with", filters)),
    )


def _summary(
    source: SourceTable,
    filters: _Filters,
    groups: Sequence[SourceColumn],
    measures: Sequence[SourceColumn],
    alias: str,
) -> ScaffoldCapability:
    words = _words(source.name)
    outputs = [f"{alias}.{column.name} AS {column.name}" for column in groups] + ["COUNT(*) AS row_count"]
    results = [_result(column) for column in groups]
    results.append({"name": "row_count", "type": "INT64"})
    for column in measures:
        outputs.append(f"ROUND(AVG(CAST({alias}.{column.name} AS FLOAT64)), 2) AS mean_{column.name}")
        results.append({"name": f"mean_{column.name}", "type": "FLOAT64"})
    grouped = ", ".join(f"{alias}.{column.name}" for column in groups)
    told = f" by {_words(groups[0].name)}" if groups else ""
    lines = [
        f"-- How many rows of {source.name} there are{told}, and their means. NULLs are left out of a mean.",
        "SELECT\n  " + ",\n  ".join(outputs),
        f"FROM {source.name} AS {alias}",
        *filters.where(),
        *([f"GROUP BY {grouped}", f"ORDER BY {grouped}", f"LIMIT {_MOST_GROUPS}"] if groups else []),
    ]
    measured = [_words(column.name) for column in measures]
    return ScaffoldCapability(
        name=f"summarise_{source.name}",
        table=source.name,
        description=f"count {words}{told}" + (f" with the mean {', '.join(measured)}" if measured else ""),
        effect="compute",
        sql="\n".join(lines) + "\n",
        max_rows=_MOST_GROUPS if groups else 1,
        parameters=tuple(filters.parameters),
        results=tuple(results),
        keywords=(*_SUMMING, words, *measured, *_asked(filters)),
        examples=(
            f"Summarise {words}{told}",
            *([f"What is the average {measured[0]} of {words}{told}"] if measured else []),
            *_example(f"Count {words} with", filters),
        ),
    )


def _measures(shown: Sequence[SourceColumn], facts: TableFacts) -> list[SourceColumn]:
    """Numbers whose mean says something, as far as their names tell."""
    numbers = [c for c in shown if c.type in _NUMBERS and _flat(c) and not _NO_MEASURE.search(c.name)]
    numbers = [c for c in numbers if not c.name.endswith("_time") or _MEASURE.search(c.name)]
    if facts.rows:
        numbers = [c for c in numbers if c.type is not S.INT64 or facts.of(c).distinct != facts.rows]
    return sorted(numbers, key=lambda column: _MEASURE.search(column.name) is None)[:_MOST_MEASURES]


def _result(column: SourceColumn) -> dict[str, Any]:
    return {"name": column.name, **type_members(column)}


def type_members(column: SourceColumn) -> dict[str, Any]:
    """The members that declare a column's type."""
    told: dict[str, Any] = {"type": column.type.value if column.type is not None else "STRING"}
    if column.mode is Mode.REPEATED:
        told["mode"] = "REPEATED"
    if column.fields:
        told["fields"] = [item.model_dump(mode="json", exclude_defaults=True) for item in column.fields]
    return told


def _asked(filters: _Filters) -> list[str]:
    return [_words(str(parameter["name"])) for parameter in filters.parameters if parameter["type"] == "STRING"]


def _example(opening: str, filters: _Filters) -> list[str]:
    first = next((parameter for parameter in filters.parameters if parameter.get("values")), None)
    return [] if first is None else [f"{opening} {_words(str(first['name']))} {first['values'][0]}"]


def _words(name: str) -> str:
    return name.replace("_", " ").strip()
