"""What the rows of a new dataset are like, so that its templates ask what can be answered."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import duckdb

from contract.schema import Mode, SqlType, Table
from dataset_agent.scaffold_source import SourceTable
from queries.duckdb_sources import quote
from queries.govern import DATA_SCHEMA
from queries.source_columns import SourceColumn
from queries.source_faults import imported

MOST_VALUES: Final = 40
_LONGEST_VALUE: Final = 60
_PERSONAL: Final = re.compile(
    r"(^|_)(e?mail|phone|mobile|fax|ssn|passport|iban|birth\w*|dob|address|street|(first|last|full|maiden|family)_?name"
    r"|surname|salary|password|token|secret)(_|$)"
)


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """``values`` are all there are, where they are few and short; ``distinct`` and ``nulls`` ``None`` where unknown."""

    distinct: int | None = None
    nulls: int | None = None
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TableFacts:
    rows: int | None
    columns: Mapping[str, ColumnFacts]

    def of(self, column: SourceColumn) -> ColumnFacts:
        return self.columns.get(column.name, ColumnFacts())


UNKNOWN: Final = TableFacts(None, {})


def is_personal(column: SourceColumn) -> bool:
    """Whether its name sounds like something of a person, which nobody should see by default."""
    return _PERSONAL.search(column.name) is not None


def look_at(folder: Path, source: SourceTable, table: Table) -> TableFacts:
    """Reads the table as it will be served. Raises ``DataError`` where it does not fit its declaration."""
    with imported(folder, table) as connection:
        relation = f'"{DATA_SCHEMA}".{quote(table.name)}'
        flat = [column for column in source.columns if column.mode is not Mode.REPEATED and not column.fields]
        counts = _counts(connection, relation, flat)
        held = dict(zip((column.name for column in flat), zip(counts[1::2], counts[2::2], strict=True), strict=True))
        return TableFacts(
            counts[0],
            {
                name: ColumnFacts(distinct, counts[0] - filled, _values(connection, relation, flat, name, distinct))
                for name, (distinct, filled) in held.items()
            },
        )


def _counts(connection: duckdb.DuckDBPyConnection, relation: str, columns: Sequence[SourceColumn]) -> list[int]:
    wanted = "".join(f", count(DISTINCT {quote(c.name)}), count({quote(c.name)})" for c in columns)
    (found,) = connection.execute(f"SELECT count(*){wanted} FROM {relation}").fetchall()  # noqa: S608
    return [int(number) for number in found]


def _values(
    connection: duckdb.DuckDBPyConnection, relation: str, columns: Sequence[SourceColumn], name: str, distinct: int
) -> tuple[str, ...]:
    column = next(item for item in columns if item.name == name)
    if column.type is not SqlType.STRING or not 1 <= distinct <= MOST_VALUES or is_personal(column):
        return ()
    shown = quote(name)
    found = connection.execute(
        f"SELECT DISTINCT {shown} FROM {relation} WHERE {shown} IS NOT NULL ORDER BY {shown}"  # noqa: S608
    ).fetchall()
    values = tuple(str(value) for (value,) in found)
    plain = all(0 < len(value) <= _LONGEST_VALUE and value.isprintable() and value == value.strip() for value in values)
    return values if plain else ()
