"""A call of a template on this engine: where it runs, and the text and values that are executed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import duckdb

from contract.result import ResultDocument
from contract.schema import SqlType
from contract.verdict import NotGranted, Reason
from queries.duckdb_query import VECTOR, Query, TypedValue, batch_rows
from queries.duckdb_text import Texts
from queries.duckdb_types import duckdb_type
from queries.govern import Shape
from queries.masks import MASK_KEY
from queries.supplied import MAX_SUPPLIED_BYTES, SUPPLIED, bound_fields, bound_rows, is_finite
from queries.template import Template
from queries.typed import Type

_SHARE: Final = 4  # of the memory limit, a quarter may be what the engine does not count


@dataclass(frozen=True, slots=True)
class Call:
    """``values`` are bound as they are; ``in_worker`` where limits inside an engine would not hold."""

    template: Template
    shape: Shape
    values: Mapping[str, Any]
    supplied: ResultDocument | None
    max_rows: int
    value_bytes: float
    in_worker: bool


class Calls:
    """Makes calls of one engine.

    ``sizes`` are the bytes of the longest value of each ``table.column`` that has no fixed
    size, ``memory`` the engine's limit in bytes.
    """

    def __init__(self, mask_key: str, sizes: Mapping[str, int], memory: int, threads: int) -> None:
        self._mask_key = mask_key
        self._sizes = sizes
        # Each thread computes a vector of values at a time, and so does the one that waits.
        self._largest = memory / _SHARE / (VECTOR * (threads + 1))
        self.texts = Texts()

    def call(
        self,
        template: Template,
        shape: Shape,
        values: Mapping[str, Any],
        supplied: ResultDocument | None,
        max_rows: int,
    ) -> Call:
        longest = max((self._sizes.get(column, 0) for column in template.columns_read), default=0)
        if supplied is not None:
            longest = max(longest, min(len(supplied.body), MAX_SUPPLIED_BYTES))
        value_bytes = template.growth.bytes(longest)
        return Call(template, shape, values, supplied, max_rows, value_bytes, value_bytes > self._largest)

    def query(self, cursor: duckdb.DuckDBPyConnection, call: Call) -> Query:
        """What is executed. Raises ``NotGranted``."""
        text = self.texts.text(cursor, call.template, call.shape)
        values = dict(call.values)
        if f"${MASK_KEY}" in text:
            values[MASK_KEY] = self._mask_key
        values.update(_supplied(call.template, call.supplied))
        rows = batch_rows(call.value_bytes, len(call.template.results))
        return Query(text, values, rows, call.max_rows)


def _supplied(template: Template, supplied: ResultDocument | None) -> dict[str, Any]:
    """The supplied rows as one typed parameter. Raises ``NotGranted``."""
    rows = bound_rows(template, supplied)
    if rows is None:
        return {}
    fields = bound_fields(template)
    for place, (_, kind) in enumerate(fields):
        if not all(is_finite(kind, row[place]) for row in rows):
            # NaN compares and sorts unlike in GoogleSQL, and infinities make NaN.
            raise NotGranted(Reason.RESULT_INVALID, "a supplied row holds a FLOAT64 that is not finite")
    held = Type(SqlType.STRUCT, array=True, fields=fields)
    return {SUPPLIED: TypedValue(rows, duckdb_type(held))}
