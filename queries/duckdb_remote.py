"""Queries that run in a process of their own, seen from this one.

A worker knows one database file and the memory limit. Of this process it inherits no
environment, file or socket but the pipe, and over the pipe it gets text and values of the query
at hand. What it answers is Arrow, and is checked like anything from outside.
"""

from __future__ import annotations

import json
import logging
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

import pyarrow as pa

from queries.duckdb_job import Job, Stopped
from queries.duckdb_query import PIECE_BYTES, Query
from queries.duckdb_worker import HEAD
from queries.encode import ResultTooLarge

_log = logging.getLogger(__name__)
_COMMAND: Final = "import sys; sys.path.insert(0, sys.argv[1]); from queries.duckdb_worker import main; main()"
_ROOT: Final = Path(__file__).resolve().parent.parent
_ENVIRONMENT: Final = {
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    # Of the system's allocator only few arenas: each reserves space, which is bounded.
    "MALLOC_ARENA_MAX": "2",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
}
_KEPT_VARIABLES: Final = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")  # without which its libraries may not be found
IDLE_SECONDS: Final = 300.0
"""After which a worker that is not asked anything ends by itself."""
_FRAME_BYTES: Final = 8 * PIECE_BYTES


class WorkerFailed(Exception):
    """A query failed in its worker, or with it. The message is a type's name or an exit code."""


class Worker:
    """One process, which runs one query at a time."""

    def __init__(self, path: Path, memory_limit: str, timeout: float, threads: int, idle: float) -> None:
        environment = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
        self._process = subprocess.Popen(  # noqa: S603  this very interpreter, with a fixed text
            [sys.executable, "-I", "-c", _COMMAND, str(_ROOT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            close_fds=True,
            cwd="/",
            env=environment | _ENVIRONMENT,
            start_new_session=True,
        )
        self._ready = False
        self.answered = False
        """Whether its last query ended with a word of its own."""
        self.killed = False
        self._setup = {
            "path": str(path.resolve()),
            "memory_limit": memory_limit,
            "timeout": timeout,
            "threads": threads,
            "idle": idle,
            "parent": os.getpid(),
        }

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, query: Query) -> pa.Schema | None:
        """Start a query and return the schema of its batches; ``None`` where the worker had ended by itself.

        Raises ``WorkerFailed`` or ``ResultTooLarge``.
        """
        try:
            if not self._ready:
                self._send(json.dumps(self._setup).encode())
                if self._frame()[0] != b"R":
                    raise WorkerFailed("protocol")
                self._ready = True
            self.answered = False
            self._send(pickle.dumps(query, protocol=5))
            kind, payload = self._frame()
        except (BrokenPipeError, EOFError):
            # Idle for long, or in doubt after its last query: it ends with 0, and another one is started.
            if self._ready and self._process.wait() == 0:
                return None
            raise self._dead() from None
        if kind != b"S":
            raise self._failure(kind, payload)
        return pa.ipc.read_schema(pa.py_buffer(payload))

    def batch(self, schema: pa.Schema) -> pa.RecordBatch | None:
        """The next batch, or ``None`` at the end. Raises as ``ask``."""
        try:
            kind, payload = self._frame()
        except EOFError:
            raise self._dead() from None
        if kind == b"E":
            self.answered = True
            return None
        if kind != b"B":
            raise self._failure(kind, payload)
        batch = pa.ipc.read_record_batch(pa.py_buffer(payload), schema)
        batch.validate(full=True)
        return batch

    def kill(self) -> None:
        """End it at once, in the middle of whatever call."""
        self.killed = True
        self._process.kill()

    def close(self) -> None:
        """End it, and leave nothing of it."""
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process.wait()

    def _send(self, payload: bytes) -> None:
        pipe = _open(self._process.stdin)
        view = memoryview(HEAD.pack(b"Q", len(payload)) + payload)
        while view.nbytes:
            view = view[pipe.write(view) or 0 :]

    def _frame(self) -> tuple[bytes, bytearray]:
        head = self._exactly(HEAD.size)
        kind, size = HEAD.unpack(head)
        if size > _FRAME_BYTES:
            raise ResultTooLarge
        return kind, self._exactly(size)

    def _exactly(self, size: int) -> bytearray:
        pipe = _open(self._process.stdout).fileno()
        held = bytearray(size)
        view = memoryview(held)
        while view.nbytes:
            got = os.readv(pipe, [view])
            if not got:
                raise EOFError
            view = view[got:]
        return held

    def _failure(self, kind: bytes, payload: bytearray) -> Exception:
        told = bytes(payload).decode("ascii", "replace")
        if kind != b"F" or not told.isidentifier() or len(told) > 64:
            return WorkerFailed("protocol")
        self.answered = True
        if told == "rows":
            return ResultTooLarge()
        return Stopped() if told == "time" else WorkerFailed(told)

    def _dead(self) -> Exception:
        code = self._process.wait()
        return Stopped() if code == -signal.SIGXCPU else WorkerFailed(f"exit {code}")


class Workers:
    """The workers of one engine: started where one is needed, kept, and replaced when they end.

    How many there are at once is the caller's to bound; every method may be called in any thread.
    """

    def __init__(self, path: Path, memory_limit: str, timeout: float, threads: int, idle: float = IDLE_SECONDS) -> None:
        self._setup = (path, memory_limit, timeout, threads, idle)
        self._idle: list[Worker] = []
        self._all: set[Worker] = set()
        self._lock = threading.Lock()
        self._closed = False

    def __len__(self) -> int:
        return len(self._all)

    def take(self) -> Worker:
        """An idle worker or a new one. Raises ``WorkerFailed`` once closed."""
        with self._lock:
            if self._idle:
                return self._idle.pop()
        worker = Worker(*self._setup)
        with self._lock:
            if not self._closed:
                self._all.add(worker)
                return worker
        # Closed while it was started: nobody else would end it.
        worker.close()
        raise WorkerFailed("the engine is closed")

    def give(self, worker: Worker) -> None:
        """A worker that answered is kept; any other is ended, because nobody knows what it does."""
        with self._lock:
            if worker.answered and not worker.killed and worker in self._all:
                self._idle.append(worker)
                return
            self._all.discard(worker)
        worker.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            ended, self._all, self._idle = self._all, set(), []
        for worker in ended:
            worker.close()


class RemoteRows:
    """The batches of one query in a worker; see ``LocalRows``."""

    schema: pa.Schema

    def __init__(self, workers: Workers, job: Job, query: Query) -> None:
        self._workers = workers
        self._job = job
        self._worker: Worker | None = None
        self._whole = False
        try:
            schema = None
            while schema is None:
                self._drop()
                self._worker = workers.take()
                job.start(self._worker.kill)
                schema = self._told(self._worker.ask(query))
            self.schema = schema
        except BaseException as error:
            self.close()
            if job.stopped and not isinstance(error, Stopped):
                raise Stopped from None
            raise

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        if self._worker is None or self._whole:
            raise StopIteration
        try:
            batch = self._worker.batch(self.schema)
        except WorkerFailed:
            self._job.check()
            raise
        if batch is None:
            self._job.end()
            self._whole = True
            raise StopIteration
        self._job.check()
        return batch

    def close(self) -> None:
        self._job.end()
        self._drop()

    def _drop(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            self._workers.give(worker)

    def _told(self, schema: pa.Schema | None) -> pa.Schema | None:
        self._job.check()
        return schema


def _open(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise EOFError
    return pipe
