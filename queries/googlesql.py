"""How GoogleSQL is read: sqlglot's BigQuery, but a function of ``CALLS`` stays a call by the name it was written with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.bigquery import BigQuery
from sqlglot.parsers.bigquery import BigQueryParser

from queries.calls import CALL_NAMES


def _call(name: str) -> Callable[[list[Any]], exp.Expr]:
    def build(arguments: list[Any]) -> exp.Expr:
        return exp.Anonymous(this=name, expressions=arguments)

    return build


class GoogleSql(BigQuery):
    """A dialect to read templates with; they are written with sqlglot's BigQuery."""

    class Parser(BigQueryParser):
        FUNCTIONS: ClassVar[dict[str, Callable[..., Any]]] = {
            **BigQueryParser.FUNCTIONS,
            **{name: _call(name) for name in CALL_NAMES},
        }
        FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {
            name: parser for name, parser in BigQueryParser.FUNCTION_PARSERS.items() if name not in CALL_NAMES
        }
