"""The DuckDB text of a template under a shape: generated, read again by the engine itself, remembered."""

from __future__ import annotations

import duckdb
import sqlglot

from contract.verdict import NotGranted
from queries import duckdb_aggregates, duckdb_calls, duckdb_casts, duckdb_moments, duckdb_nested, duckdb_numbers  # noqa: F401  their rules register themselves
from queries.conditions import ROW
from queries.duckdb_dialect import to_duckdb
from queries.duckdb_expansion import MAX_EXPANDED, expanded
from queries.duckdb_types import duckdb_type
from queries.errors import TemplateError
from queries.govern import DATA_SCHEMA, Shape, rewrite
from queries.outcomes import failed
from queries.template import Template
from queries.texts import Remembered
from queries.typed import declared_type


class Texts:
    """The texts of one engine, the most recently used kept; for use from several threads."""

    def __init__(self) -> None:
        self._remembered = Remembered()

    def __len__(self) -> int:
        return len(self._remembered)

    def text(self, cursor: duckdb.DuckDBPyConnection, template: Template, shape: Shape) -> str:
        """Raises ``NotGranted(EXECUTION_FAILED)`` for a text that is not what it should be."""
        known = self._remembered.get(template, shape)
        if known is not None:
            return known
        text, nulls = to_duckdb(rewrite(template, shape))
        _check(cursor, template, text, nulls)
        self._remembered.keep(template, shape, text)
        return text

    def check(self, cursor: duckdb.DuckDBPyConnection, template: Template) -> None:
        """Bind the template once, with a typed NULL for each parameter. Raises ``TemplateError``."""
        unlimited = Shape((), ())
        text, nulls = to_duckdb(rewrite(template, unlimited))
        # First of all: what the engine copies while it plans cannot be interrupted.
        if expanded(sqlglot.parse_one(nulls, dialect="duckdb")) > MAX_EXPANDED:
            raise TemplateError(
                template.name, None, "functions are nested too deeply; name what is used again in a WITH"
            )
        try:
            _check(cursor, template, text, nulls)
            relation = cursor.sql(nulls)
            found = [(name, str(kind)) for name, kind in zip(relation.columns, relation.types, strict=True)]
        except NotGranted as error:
            raise TemplateError(template.name, None, "the governed text reads more than its base tables") from error
        except duckdb.Error as error:
            reason = str(error).split("\n")[0][:200]
            raise TemplateError(template.name, None, f"DuckDB does not accept the query: {reason}") from None
        # Both are spelled by the engine itself.
        wanted = [(column.name, str(duckdb.sqltype(duckdb_type(declared_type(column))))) for column in template.results]
        if found != wanted:
            raise TemplateError(template.name, None, f"DuckDB would return {found}, declared is {wanted}")
        self._remembered.keep(template, unlimited, text)


def _check(cursor: duckdb.DuckDBPyConnection, template: Template, text: str, nulls: str) -> None:
    """A second reading of generated text by the engine itself: one SELECT, of the governed tables."""
    statements = cursor.extract_statements(text)
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise failed()
    wanted = {f"{DATA_SCHEMA}.{name} AS {ROW}" for name in template.tables_read}
    # A common table expression nobody uses is not read, so fewer tables are right too.
    if not set(cursor.get_table_names(nulls, qualified=True)) <= wanted:
        raise failed()
