"""CAST and SAFE_CAST for DuckDB."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from contract.schema import SqlType
from queries.duckdb_dialect import call, cast, local, rule, typed
from queries.duckdb_types import duckdb_type
from queries.typed import is_written, source_type, sql_type, type_of

S = SqlType
# Conversions that a macro makes: what fails in GoogleSQL is an error of its, or NULL of its safe twin.
_MACROS: Final = {
    (S.STRING, S.INT64): "int64_of_text",
    (S.STRING, S.FLOAT64): "float64_of_text",
    (S.STRING, S.NUMERIC): "numeric_of_text",
    (S.STRING, S.BOOL): "bool_of_text",
    (S.STRING, S.DATE): "date_of_text",
    (S.STRING, S.DATETIME): "datetime_of_text",
    (S.STRING, S.TIME): "time_of_text",
    (S.BYTES, S.STRING): "text_of_bytes",
    (S.FLOAT64, S.INT64): "int64_of_float64",
    (S.FLOAT64, S.NUMERIC): "numeric_of_float64",
    (S.NUMERIC, S.INT64): "int64_of_numeric",
}
# Conversions that do not fail.
_TOTAL: Final = {
    (S.STRING, S.BYTES): "encode",
    (S.FLOAT64, S.STRING): "gsql_text_of_float64",
    (S.NUMERIC, S.STRING): "gsql_text_of_numeric",
    (S.NUMERIC, S.FLOAT64): "gsql_float64_of_numeric",
    (S.DATE, S.STRING): "gsql_text_of_date",
    (S.DATETIME, S.STRING): "gsql_text_of_datetime",
    (S.TIME, S.STRING): "gsql_text_of_time",
}


@rule(exp.Cast, exp.TryCast)
def _cast(node: exp.Expr) -> exp.Expr:
    kind = type_of(node)
    if kind.nested:
        return cast(node.this, duckdb_type(kind))
    target, source, value = sql_type(node), source_type(node), node.this
    safe = "safe_" if isinstance(node, exp.TryCast) else ""
    if source in (None, target) or is_written(node):
        return typed(value, target)
    if (source, target) in _MACROS:
        return call(f"gsql_{safe}{_MACROS[source, target]}", value)
    if (source, target) in _TOTAL:
        return call(_TOTAL[source, target], value)
    if (source, target) == (S.STRING, S.TIMESTAMP):
        return call(f"gsql_{safe}timestamp_of_text", value, "UTC")
    if (source, target) == (S.TIMESTAMP, S.STRING):
        return call("gsql_text_of_timestamp", value, "UTC")
    if target is S.TIMESTAMP:
        return local(typed(value, S.DATETIME), "UTC")
    if source is S.TIMESTAMP:
        return typed(local(value, "UTC"), target)
    return typed(value, target)
