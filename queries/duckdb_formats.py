"""FORMAT_ functions for DuckDB: what its strftime prints alike in one call, the other elements beside it."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from contract.schema import SqlType
from queries.duckdb_dialect import call, cast
from queries.formats import PRINTED, elements

S = SqlType
_SAME: Final = frozenset("mdjybBaAHIMSpGVuwUW")
_SPELLED: Final = {
    "F": "%Y-%m-%d", "T": "%H:%M:%S", "X": "%H:%M:%S", "R": "%H:%M", "D": "%m/%d/%y", "x": "%m/%d/%y", "h": "%b",
    "E4Y": "%Y", "E0S": "%S", "E3S": "%S.%g", "E6S": "%S.%f", "n": "\n", "t": "\t", "%": "%%",
}  # fmt: skip


def printed(pattern: str, value: exp.Expr, kind: SqlType | None, zone: str) -> exp.Expr:
    """``value`` printed as ``pattern`` says, joined from its pieces."""
    civil = exp.column("c", table="v")
    pieces: list[exp.Expr] = []
    run = ""
    for element, special in elements(pattern, PRINTED[kind or S.DATE], "FORMAT"):
        if not special:
            run += element
        elif element in _SAME or element in _SPELLED:
            run += _SPELLED.get(element, f"%{element}")
        else:
            if run:
                pieces.append(call("strftime", civil.copy(), run))
            pieces.append(_piece(element, civil, exp.column("t", table="v"), zone))
            run = ""
    if run:
        pieces.append(call("strftime", civil.copy(), run))
    out = pieces[0]
    for piece in pieces[1:]:
        out = exp.DPipe(this=out, expression=piece)
    if len(pieces) == 1 and run:
        return call("strftime", _civil(value, kind, zone), run)
    # Each piece names the value, which is computed once.
    parts = {"c": _civil(value.copy(), kind, zone), "t": value}
    fields = [exp.PropertyEQ(this=exp.to_identifier(name), expression=part) for name, part in parts.items()]
    body = exp.Lambda(this=out, expressions=[exp.to_identifier("v")])
    made = call("list_transform", exp.Array(expressions=[exp.Struct(expressions=fields)]), body)
    return call("list_extract", made, 1)


def _civil(value: exp.Expr, kind: SqlType | None, zone: str) -> exp.Expr:
    if kind is S.TIMESTAMP:
        return call("gsql_local", value, zone)
    if kind is S.TIME:
        return exp.Paren(this=exp.Add(this=cast(exp.Literal.string("1970-01-01"), "DATE"), expression=value))
    return value


def _run(run: str, civil: exp.Expr) -> exp.Expr:
    return call("strftime", civil.copy(), run)


def _piece(element: str, civil: exp.Expr, value: exp.Expr, zone: str) -> exp.Expr:
    year = call("year", civil.copy())
    match element:
        case "Y":
            return cast(year, "VARCHAR")
        case "C":
            return call("lpad", cast(exp.IntDiv(this=year, expression=exp.Literal.number(100)), "VARCHAR"), 2, "0")
        case "g":
            rest = exp.Mod(this=call("isoyear", civil.copy()), expression=exp.Literal.number(100))
            return call("lpad", cast(rest, "VARCHAR"), 2, "0")
        case "e":
            return call("lpad", cast(call("day", civil.copy()), "VARCHAR"), 2, " ")
        case "Q":
            return cast(call("quarter", civil.copy()), "VARCHAR")
        case "E*S":
            fraction = call("gsql_short_fraction", call("gsql_micros_of", civil.copy()))
            return exp.Paren(this=exp.DPipe(this=call("strftime", civil.copy(), "%S"), expression=fraction))
        case "s":
            return cast(call("gsql_floor_div", call("epoch_us", value.copy()), 1_000_000), "VARCHAR")
    minutes = call("gsql_minutes_at", value.copy(), zone)
    return call("gsql_offset_text", minutes, ":" if element == "Ez" else "", exp.false())
