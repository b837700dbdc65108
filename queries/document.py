"""What stands around the rows of a result document. Everybody who writes one writes it from here."""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from contract.schema import ResultColumn, schema_member


def head(results: Sequence[ResultColumn]) -> bytes:
    """Everything before the first row."""
    return b'{"schema":' + orjson.dumps([schema_member(column) for column in results]) + b',"rows":['


def tail(row_count: int, truncated: bool, as_of: str) -> bytes:
    """Everything behind the last row; ``as_of`` is RFC 3339 UTC."""
    told = b"true" if truncated else b"false"
    return b'],"row_count":%d,"truncated":%s,"as_of":%s}' % (row_count, told, orjson.dumps(as_of))
