"""The BigQuery text of a template under a shape: generated, parsed again, remembered."""

from __future__ import annotations

from collections.abc import Mapping

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError, UnsupportedError

from contract.schema import Mode, SqlType
from queries.bigquery_dialect import to_bigquery
from queries.conditions import ROW
from queries.govern import Shape, rewrite
from queries.outcomes import failed
from queries.resolve import base_table
from queries.template import Template
from queries.texts import Remembered


class BigQueryTexts:
    """The texts of one engine, the most recently used kept; for use from several threads."""

    def __init__(self) -> None:
        self._remembered = Remembered()

    def __len__(self) -> int:
        return len(self._remembered)

    def text(self, template: Template, shape: Shape) -> str:
        """Raises ``NotGranted(EXECUTION_FAILED)`` for a text that is not what it should be."""
        known = self._remembered.get(template, shape)
        if known is not None:
            return known
        sources = {table.name: table.bigquery for table in template.tables if table.bigquery is not None}
        tree = rewrite(template, shape, written=True, guarded=True)
        _complete_order(tree, template)
        try:
            text = to_bigquery(tree, sources, absent_of(template))
        except UnsupportedError:
            raise failed() from None
        check_text(template, text, sources)
        self._remembered.keep(template, shape, text)
        return text


def _complete_order(tree: exp.Query, template: Template) -> None:
    """Order ties of the outermost query by its nested columns too, as text: they have no order themselves."""
    order = tree.args.get("order")
    for column in template.results:
        if order is not None and (column.mode is Mode.REPEATED or column.type is SqlType.STRUCT):
            value = exp.Column(this=exp.to_identifier(column.name, quoted=True))
            text = exp.Anonymous(this="TO_JSON_STRING", expressions=[value])
            order.append("expressions", exp.Ordered(this=text, nulls_first=True))


def absent_of(template: Template) -> frozenset[str]:
    """The parameters that may be a NULL ARRAY or STRUCT."""
    nested = [p for p in template.parameters if p.repeated or p.type is SqlType.STRUCT]
    return frozenset(parameter.name for parameter in nested if parameter.nullable)


def check_text(template: Template, text: str, sources: Mapping[str, str]) -> None:
    """A second reading of generated text: one query, of exactly the governed tables.

    Each reading of a base table in the template is one reading of its own table in the text,
    under the alias of governing; everything else is a common table expression of the text.
    Raises ``NotGranted(EXECUTION_FAILED)``.
    """
    try:
        statements = sqlglot.parse(text, read="bigquery")
    except SqlglotError:
        raise failed() from None
    if len(statements) != 1 or not isinstance(statements[0], exp.Query):
        raise failed()
    tree = statements[0]
    common = {cte.alias for cte in tree.find_all(exp.CTE)}
    read = []
    for node in tree.find_all(exp.Table):
        if not isinstance(node.this, exp.Identifier) or node.args.get("joins") or node.args.get("sample"):
            raise failed()
        name = ".".join(part.name for part in node.parts)
        if len(node.parts) == 1 and name in common:
            continue
        if node.alias != ROW:
            raise failed()
        read.append(name)
    bases = (base_table(node) for node in template.written().find_all(exp.Table))
    if sorted(read) != sorted(sources[name] for name in bases if name is not None):
        raise failed()
