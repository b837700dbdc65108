"""How a masked column is shown: as NULL, as a keyed hash, or shortened, always of the column's own type."""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

from sqlglot import exp

from contract.schema import Column, SqlType
from contract.scope import Mask
from queries.moments import set_part
from queries.typed import Type, cast, declared_type, set_source, set_type

MASK_KEY: Final = "__k"
MASK_HASH: Final = "mask_hash"
MASK_TRUNCATE: Final = "mask_truncate"
_HASHED: Final = (SqlType.STRING, SqlType.INT64)


def dataset_mask_key(secret: bytes, dataset: str) -> str:
    """The hash masks' key of one dataset, 64 hex digits: what is known of one dataset's tells nothing of another's.

    ``secret`` has at least 16 bytes, else ``ValueError``. An engine binds the key; it is never
    part of a text, a result, a log line or a cache key.
    """
    if len(secret) < 16:
        raise ValueError("a mask key has at least 16 bytes")
    return hmac.digest(secret, b"dataset-agent/mask/dataset/" + dataset.encode(), hashlib.sha256).hex()


def masked(column: Column, mask: Mask, value: exp.Expr) -> exp.Expr:
    """``value``, a typed reading of ``column``, as ``mask`` shows it.

    ``hash`` keeps the type and the equality of STRING and INT64. ``truncate`` shows at most
    half of a text and no more than four characters, and the year of a date, datetime or
    timestamp. Where a mask has no form for the type nothing is shown, which is stronger: NULL,
    also for a STRUCT, and an empty ARRAY.
    """
    kind = declared_type(column)
    if kind.nested:
        return _nothing(kind)
    if mask is Mask.HASH and column.type in _HASHED:
        key = exp.Parameter(this=exp.Var(this=MASK_KEY))
        set_type(key, Type(SqlType.STRING))
        return _marked(MASK_HASH, column.type, key, value)
    if mask is Mask.TRUNCATE and column.type is SqlType.STRING:
        return _marked(MASK_TRUNCATE, column.type, value)
    if mask is Mask.TRUNCATE and column.type in (SqlType.DATE, SqlType.DATETIME, SqlType.TIMESTAMP):
        return _year(column.type, value)
    return cast(exp.Null(), None, column.type)


def _year(kind: SqlType, value: exp.Expr) -> exp.Expr:
    """The first moment of the year, in UTC for a timestamp."""
    if kind is SqlType.DATETIME:
        day = cast(value, SqlType.DATETIME, SqlType.DATE)
        return cast(_year(SqlType.DATE, day), SqlType.DATE, SqlType.DATETIME)
    trunc = exp.DateTrunc if kind is SqlType.DATE else exp.TimestampTrunc
    return set_part(trunc(this=value, unit=exp.Var(this="YEAR")), "YEAR", kind)


def _nothing(kind: Type) -> exp.Expr:
    """A NULL STRUCT, or an ARRAY without elements."""
    value: exp.Expr = exp.Array(expressions=[]) if kind.array else exp.Null()
    out = exp.Cast(this=value, to=exp.DataType.build(str(kind), dialect="bigquery"))
    set_type(out, kind)
    set_source(out, None)
    return out


def _marked(name: str, kind: SqlType, *arguments: exp.Expr) -> exp.Anonymous:
    node = exp.Anonymous(this=name, expressions=list(arguments))
    set_type(node, Type(kind))
    set_source(node, kind)
    return node
