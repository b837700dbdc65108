"""The process that runs the queries whose functions no limit inside an engine can bound.

    python -I -c "…; main()" FOLDER

It reads requests from its standard input and writes frames to its standard output: a byte that
says what follows, eight bytes of length, and that many bytes.

    R            it is ready                     S  the schema, as Arrow IPC
    B            a batch, as Arrow IPC           E  the end of the batches
    F            a failure: ``memory``, ``rows``, ``time`` or the name of a type, never a message

It has one database, read-only, and no settings, secrets, sockets or files of its parent. The
operating system bounds its memory and its processor time; its parent ends it when a query's
time is over, and starts another.
"""

from __future__ import annotations

import ctypes
import json
import os
import pickle
import resource
import select
import signal
import struct
import sys
from pathlib import Path
from typing import Any, BinaryIO, Final

import duckdb

from queries.duckdb_connection import connect, memory_bytes
from queries.duckdb_query import Query, execute, pieces

HEAD: Final = struct.Struct(">cQ")
_SLACK: Final = 32 * 2**20
_SHARE: Final = 0.5  # of the memory limit, for what the engine does not count itself
_LIMITS: Final = {resource.RLIMIT_CORE: 0, resource.RLIMIT_FSIZE: 0, resource.RLIMIT_NOFILE: 64}
_ORDINARY: Final = (
    duckdb.InvalidInputException,
    duckdb.OutOfRangeException,
    duckdb.ConversionException,
    duckdb.InterruptException,
)


def main() -> None:
    """Serve until the parent closes the pipe, or a query leaves the process in doubt."""
    requests, answers = _pipes()
    setup = json.loads(_read(requests))
    _die_with(setup["parent"])
    connection = connect(Path(setup["path"]), setup["memory_limit"], setup["timeout"], threads=setup["threads"])
    base = _confine(memory_bytes(connection))
    _write(answers, b"R")
    while select.select([requests], [], [], setup["idle"])[0]:
        raw = _read(requests)
        if not raw:
            return
        _bound_cpu(setup["timeout"] * setup["threads"])
        # Its parent made it: nobody else holds the other end of the pipe.
        query: Query = pickle.loads(raw)  # noqa: S301
        if not _answer(connection, query, answers) or _has_grown(base, memory_bytes(connection)):
            return


def _answer(connection: duckdb.DuckDBPyConnection, query: Query, answers: BinaryIO) -> bool:
    """Whether this process may run another query."""
    try:
        with connection.cursor() as cursor:
            reader = execute(cursor, query)
            _write(answers, b"S", reader.schema.serialize())
            rows = 0
            for batch in reader:
                rows += batch.num_rows
                if rows > query.max_rows:
                    cursor.interrupt()
                    _write(answers, b"F", b"rows")
                    return True
                for piece in pieces(batch):
                    _write(answers, b"B", piece.serialize())
        _write(answers, b"E")
    except BrokenPipeError:
        return False
    except Exception as error:
        _write(answers, b"F", _kind(error))
        return isinstance(error, _ORDINARY)
    return True


def _kind(error: Exception) -> bytes:
    if isinstance(error, (MemoryError, duckdb.OutOfMemoryException)):
        return b"memory"
    # A reader reports an interrupt as a fault of its stream.
    if isinstance(error, duckdb.InterruptException) or (isinstance(error, OSError) and "INTERRUPT" in str(error)):
        return b"time"
    return type(error).__name__.encode()


def _pipes() -> tuple[BinaryIO, BinaryIO]:
    """Standard input and output under other numbers, so that nothing else reads or writes them."""
    held = os.dup(0), os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nowhere, number)
    os.close(nowhere)
    return os.fdopen(held[0], "rb", buffering=0), os.fdopen(held[1], "wb", buffering=0)


def _read(requests: BinaryIO) -> bytes:
    """One request, or nothing where the parent is gone."""
    head = _exactly(requests, HEAD.size)
    return _exactly(requests, HEAD.unpack(head)[1]) if head else b""


def _exactly(file: BinaryIO, size: int) -> bytes:
    parts = []
    while size:
        part = file.read(size)
        if not part:
            return b""
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _write(answers: BinaryIO, kind: bytes, payload: Any = b"") -> None:
    view = memoryview(payload)
    answers.write(HEAD.pack(kind, view.nbytes))
    while view.nbytes:
        view = view[answers.write(view) or 0 :]


def _die_with(parent: int) -> None:
    """Where the system can, end with the parent even in the middle of a call."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        if os.getppid() != parent:
            raise SystemExit


def _confine(memory: int) -> int:
    """Bound this process at what it has now and what a query may need. Returns the bytes it has now.

    The engine counts its own memory and stops at the limit; values of scalar functions and
    Arrow buffers are not counted, and get a share beyond it.
    """
    for which, most in _LIMITS.items():
        resource.setrlimit(which, (most, most))
    data, space = _used("VmData"), _used("VmSize")
    more = int(memory * (1 + _SHARE)) + _SLACK
    if data:
        resource.setrlimit(resource.RLIMIT_DATA, (data + more, data + more))
        # Reserved space is no memory, so this bound is wide: it is for what the other does not count.
        resource.setrlimit(resource.RLIMIT_AS, (space + 4 * more, space + 4 * more))
    return data


def _has_grown(base: int, memory: int) -> bool:
    """Whether an allocator keeps so much that the next query could not have its share."""
    return bool(base) and _used("VmData") - base > memory * _SHARE / 2


def _bound_cpu(seconds: float) -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = int(used.ru_utime + used.ru_stime + seconds) + 2
    resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.RLIM_INFINITY))


def _used(name: str) -> int:
    """Bytes, as Linux tells them; 0 elsewhere."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return 0
    line = next((line for line in status.splitlines() if line.startswith(f"{name}:")), "0 0")
    return int(line.split()[1]) * 1024
