"""Base data and supplied rows hold no NaN and no infinity, so one in a result is an overflow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


def check_finite(batch: pa.RecordBatch) -> None:
    """Raise ``ArithmeticError`` where a FLOAT64 anywhere in ``batch`` is not finite: GoogleSQL fails there."""
    for column in batch.columns:
        for leaf in _leaves(column):
            if pa.types.is_float64(leaf.type) and not pc.all(pc.is_finite(leaf), min_count=0).as_py():
                raise ArithmeticError("a FLOAT64 overflows")


def _leaves(array: Any) -> Iterator[Any]:
    """The arrays of values of an array, whatever lists and structs it is made of."""
    if pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
        yield from _leaves(array.flatten())
    elif pa.types.is_struct(array.type):
        for part in array.flatten():
            yield from _leaves(part)
    else:
        yield array
