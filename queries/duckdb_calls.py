"""Calls and functions of text for DuckDB: a form's key names its macro."""

from __future__ import annotations

from sqlglot import exp

from contract.schema import SqlType
from queries.call_types import form_of, is_call, is_safe, reading_of
from queries.duckdb_dialect import call, local, rule, typed
from queries.duckdb_formats import printed
from queries.duckdb_moments import at
from queries.masks import MASK_HASH, MASK_TRUNCATE
from queries.moments import zone_of
from queries.typed import source_type, sql_type

S = SqlType


@rule(exp.Anonymous)
def _call(node: exp.Expr) -> exp.Expr:
    if not is_call(node):
        return _mask(node)
    key, arguments = form_of(node), node.expressions
    match key:
        case "date" | "datetime" | "time":
            return _civil(node, key)
        case "timestamp":
            return _timestamp(node)
        case "string":
            return _string(node)
        case "format_date" | "format_datetime" | "format_time" | "format_timestamp":
            return printed(arguments[0].name, arguments[1], source_type(node), zone_of(node))
        case "parse_date" | "parse_datetime" | "parse_time" | "parse_timestamp":
            return _parse(node, key)
        case "lpad" | "rpad" if len(arguments) == 2:
            arguments = [*arguments, exp.Literal.string(" ")]
    return _macro(node, key, *arguments)


def _macro(node: exp.Expr, key: str, *arguments: exp.Expr | str | int) -> exp.Expr:
    return call(f"gsql_{'safe_' if is_safe(node) else ''}{key}", *arguments)


def _mask(node: exp.Expr) -> exp.Expr:
    if node.name == MASK_HASH:
        return call("gsql_mask_text" if source_type(node) is S.STRING else "gsql_mask_int", *node.expressions)
    if node.name == MASK_TRUNCATE:
        return call("gsql_mask_short", *node.expressions)
    return node


@rule(exp.SafeFunc)
def _safe(node: exp.Expr) -> exp.Expr:
    held: exp.Expr = node.this
    return held


def _civil(node: exp.Expr, key: str) -> exp.Expr:
    source, arguments = source_type(node), node.expressions
    if source is S.INT64:
        return _macro(node, f"{key}_parts", *arguments)
    if len(arguments) == 2:
        return exp.Paren(this=exp.Add(this=arguments[0], expression=arguments[1]))
    value = local(arguments[0], zone_of(node)) if source is S.TIMESTAMP else arguments[0]
    return typed(value, sql_type(node))


def _timestamp(node: exp.Expr) -> exp.Expr:
    value: exp.Expr = node.expressions[0]
    source, zone = source_type(node), zone_of(node)
    if source is S.TIMESTAMP:
        return value
    if source is S.STRING:
        return _macro(node, "timestamp_of_civil_text", value, zone)
    return call("gsql_safe_moment" if is_safe(node) else "gsql_moment", at(typed(value, S.DATETIME), zone))


def _string(node: exp.Expr) -> exp.Expr:
    source, value = source_type(node) or S.TIMESTAMP, node.expressions[0]
    zone = (zone_of(node),) if source is S.TIMESTAMP else ()
    return call(f"gsql_text_of_{source.value.lower()}", value, *zone)


def _parse(node: exp.Expr, key: str) -> exp.Expr:
    held = reading_of(node)
    order = "|".join("" if group is None else f"\\{group}" for group in held.groups)
    zone = (zone_of(node),) if key == "parse_timestamp" else ()
    return _macro(node, key, node.expressions[1], held.pattern, order, *zone)


@rule(exp.Upper, exp.Lower)
def _cased(node: exp.Expr) -> exp.Expr:
    return call(f"gsql_{node.key}", node.this)


@rule(exp.Concat)
def _concat(node: exp.Expr) -> exp.Expr:
    out = node.expressions[0]
    for item in node.expressions[1:]:
        out = exp.DPipe(this=out, expression=item)
    return exp.Paren(this=out)


@rule(exp.Length)
def _length(node: exp.Expr) -> exp.Expr:
    return call("octet_length" if source_type(node) is S.BYTES else "length", node.this)


@rule(exp.ByteLength)
def _byte_length(node: exp.Expr) -> exp.Expr:
    return call("octet_length" if source_type(node) is S.BYTES else "strlen", node.this)


@rule(exp.StartsWith)
def _starts_with(node: exp.Expr) -> exp.Expr:
    return call("starts_with", node.this, node.expression)


@rule(exp.EndsWith)
def _ends_with(node: exp.Expr) -> exp.Expr:
    return call("ends_with", node.this, node.expression)


@rule(exp.StrPosition)
def _position(node: exp.Expr) -> exp.Expr:
    return call("strpos", node.this, node.args["substr"])


@rule(exp.Replace)
def _replace(node: exp.Expr) -> exp.Expr:
    return call("gsql_replace", node.this, node.expression, node.args["replacement"])


@rule(exp.Trim)
def _trim(node: exp.Expr) -> exp.Expr:
    side = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(node.text("position"), "trim")
    characters = node.args.get("expression")
    return call(f"gsql_{side}", node.this) if characters is None else call(side, node.this, characters)


@rule(exp.Substring)
def _substring(node: exp.Expr) -> exp.Expr:
    start, length = node.args["start"], node.args.get("length")
    kind = "_bytes" if sql_type(node) is S.BYTES else ""
    if length is None:
        return call(f"gsql_substr{kind}", node.this, start)
    return _macro(node, f"substr_n{kind}", node.this, start, length)


@rule(exp.ByteString)
def _bytes(node: exp.Expr) -> exp.Expr:
    pairs = "".join(f"\\x{ord(char):02X}" for char in node.name)
    return typed(exp.Literal.string(pairs), S.BYTES)
