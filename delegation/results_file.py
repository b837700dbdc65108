"""A fetched result as a file: whole, or not there; readable by its owner only."""

from __future__ import annotations

import io
import mmap
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa

from contract.call import ARROW_MEDIA_TYPE
from contract.result import StoredResult
from contract.schema import ResultColumn
from contract.verdict import NotGranted, Reason
from delegation.results_arrow import check_frames
from queries.arrow_form import arrow_schema


@contextmanager
def whole_file(path: Path) -> Iterator[io.BufferedRandom]:
    """A file to be written that takes its name when the block ends well, and is gone when it does not.

    Raises ``OSError``.
    """
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600), "w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except BaseException:
        with suppress(OSError):
            unfinished.unlink()
        raise


def check_form(file: io.BufferedRandom, stored: StoredResult, columns: Sequence[ResultColumn]) -> None:
    """That an Arrow stream has the columns of the card and as many rows as was signed, and nothing else; blocks.

    Metadata beside the columns is something else: readers make types of it. No row is copied, and
    nothing is inflated. Of JSON its ends were compared while it came. Cells of neither are looked
    at: they are what a pinned agent signed, and whoever reads them reads the data of that agent.
    Raises ``NotGranted(REMOTE_PROVENANCE_INVALID)``.
    """
    if stored.media_type != ARROW_MEDIA_TYPE:
        return
    file.flush()
    rows = 0
    try:
        check_frames(file, os.fstat(file.fileno()).st_size)
        whole = pa.py_buffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        with pa.ipc.open_stream(whole) as stream:
            same = stream.schema.equals(arrow_schema(columns), check_metadata=True)
            for batch in stream if same else ():
                batch.validate()
                rows += batch.num_rows
    except (pa.ArrowException, OSError, ValueError, OverflowError):
        same = False
    if not same or rows != stored.row_count:
        raise NotGranted(
            Reason.REMOTE_PROVENANCE_INVALID,
            "the result is not used: it is no Arrow stream of the card's columns and rows",
        )
