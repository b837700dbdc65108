"""Governed GoogleSQL as text for BigQuery: its own tables, the masks written out, nothing else changed.

It starts from the query as its author wrote it, so a construct means there what BigQuery
says it means. What sqlglot would spell in another way than it was written has a rule here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from sqlglot import ErrorLevel, exp
from sqlglot.dialects.bigquery import BigQuery
from sqlglot.generators.bigquery import BigQueryGenerator

from contract.schema import SqlType
from queries.govern import DATA_SCHEMA
from queries.masks import MASK_HASH, MASK_TRUNCATE
from queries.typed import source_type

Rule = Callable[[exp.Expr], exp.Expr]
ABSENT: Final = "__n_"
"""What the name of a parameter starts with that says of an ARRAY or STRUCT parameter that it is NULL."""


class _Text(BigQuery):
    """sqlglot's BigQuery, but what it would spell otherwise or leave out stays as it is written.

    BigQuery does not take every place of NULLs in every ORDER BY. That is for it to say when
    the template is tried: left out, the query would mean something else.
    """

    class Generator(BigQueryGenerator):
        def ordered_sql(self, expression: exp.Ordered) -> str:
            descending, first = bool(expression.args.get("desc")), bool(expression.args.get("nulls_first"))
            text = f"{self.sql(expression, 'this')}{' DESC' if descending else ''}"
            # NULLs are small: first unless they are turned round.
            return text if first is not descending else f"{text} NULLS {'FIRST' if first else 'LAST'}"

        def attimezone_sql(self, expression: exp.AtTimeZone) -> str:
            if isinstance(expression.parent, exp.Extract):
                return f"{self.sql(expression, 'this')} AT TIME ZONE {self.sql(expression, 'zone')}"
            return super().attimezone_sql(expression)


def to_bigquery(tree: exp.Query, tables: Mapping[str, str], absent: frozenset[str]) -> str:
    """GoogleSQL of a governed query. Uses up ``tree``. Raises ``UnsupportedError`` for what has no spelling.

    ``tables`` has ``project.dataset.table`` for each declared name. Of the parameters
    ``absent``, which are ARRAYs and STRUCTs that may be NULL, another one says whether they are:
    the API has no form for such a NULL.
    """
    for node in list(tree.walk(bfs=False)):
        changed = _changed(node, tables, absent)
        if changed is not node:
            node.replace(changed)
    return tree.sql(dialect=_Text, copy=False, unsupported_level=ErrorLevel.RAISE)


def physical(source: str, alias: str) -> exp.Table:
    """``project.dataset.table`` as a node, the whole in back-ticks; a project may have dots itself.

    In parts of their own GoogleSQL would read a path of an alias or column that has the project's name.
    """
    project, dataset, table = source.rsplit(".", 2)
    node = exp.Table(
        this=exp.to_identifier(table, quoted=True),
        db=exp.to_identifier(dataset, quoted=True),
        catalog=exp.to_identifier(project, quoted=True),
        alias=exp.TableAlias(this=exp.to_identifier(alias, quoted=True)),
    )
    node.meta["quoted_table"] = True
    return node


def _changed(node: exp.Expr, tables: Mapping[str, str], absent: frozenset[str]) -> exp.Expr:
    if isinstance(node, exp.Table) and node.db == DATA_SCHEMA:
        return physical(tables[node.name], node.alias)
    if isinstance(node, exp.Parameter) and node.name in absent:
        return _or_null(node)
    found = _RULES.get(type(node))
    return node if found is None else found(node)


def _or_null(node: exp.Parameter) -> exp.Expr:
    flag = exp.Parameter(this=exp.Var(this=f"{ABSENT}{node.name}"))
    return exp.If(this=flag, true=exp.Null(), false=node.copy())


def _mask(node: exp.Expr) -> exp.Expr:
    if node.name == MASK_HASH:
        return _hashed(source_type(node), *node.expressions)
    if node.name == MASK_TRUNCATE:
        (value,) = node.expressions
        half = _call("DIV", _call("LENGTH", value.copy()), exp.Literal.number(2))
        shown = _call("LEAST", exp.Literal.number(4), half)
        return _call("SUBSTR", value.copy(), exp.Literal.number(1), shown)
    return node


def _hashed(kind: SqlType | None, key: exp.Expr, value: exp.Expr) -> exp.Expr:
    text = value.copy() if kind is SqlType.STRING else exp.cast(value.copy(), exp.DType.TEXT)
    digest = _call("TO_HEX", _call("SHA256", _call("CONCAT", key.copy(), text)))
    if kind is SqlType.STRING:
        return _call("SUBSTR", digest, exp.Literal.number(1), exp.Literal.number(32))
    number = _call("SUBSTR", digest, exp.Literal.number(1), exp.Literal.number(15))
    return exp.cast(_call("CONCAT", exp.Literal.string("0x"), number), exp.DType.BIGINT)


def _log10(node: exp.Expr) -> exp.Expr:
    """``LOG(x, 10)`` is not ``LOG10(x)`` in the last digits."""
    return _call("LOG10", node.expression.copy())


def _position(node: exp.Expr) -> exp.Expr:
    if node.args.get("position") is not None or node.args.get("occurrence") is not None:
        return node
    return _call("STRPOS", node.this.copy(), node.args["substr"].copy())


def _interval(node: exp.Expr) -> exp.Expr:
    """An amount is a number; the parser keeps it as text."""
    for arg in ("expression", "this"):
        amount = node.args.get(arg)
        if isinstance(amount, exp.Literal) and amount.is_string and amount.name.lstrip("-").isdigit():
            amount.set("is_string", False)
    return node


def _call(name: str, *arguments: exp.Expr) -> exp.Anonymous:
    return exp.Anonymous(this=name, expressions=list(arguments))


_AMOUNTS: Final = (
    exp.DateAdd, exp.DateSub, exp.TimestampAdd, exp.TimestampSub, exp.DatetimeAdd, exp.DatetimeSub, exp.TimeAdd,
    exp.TimeSub, exp.Interval,
)  # fmt: skip
_RULES: Final[dict[type[exp.Expr], Rule]] = {
    exp.Anonymous: _mask,
    exp.Log: _log10,
    exp.StrPosition: _position,
    **dict.fromkeys(_AMOUNTS, _interval),
}
