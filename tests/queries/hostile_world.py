"""A dataset with secrets planted around it, and what one row of the hostile corpus did there.

The marker lies in a file beside the data, in the environment, in a variable of this process, in
an undeclared table, schema and column of the database file itself, and in rows that the caller
may not see. It may be in nothing that comes out.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import duckdb

from contract.schema import Column, Table
from contract.verdict import NotGranted
from queries.bind import bind
from queries.duckdb_engine import DuckDbEngine
from queries.duckdb_file import database_file
from queries.errors import TemplateError
from queries.template import Template, load_template
from tests.authority_builder import make_authority
from tests.queries.documents import run as run_whole
from tests.queries.duckdb_world import AS_OF, in_worker, opened, run, workers
from tests.queries.hostile_row import Hostile
from tests.queries.world import CUSTOMERS, DATASET, LINES, ORDERS, results, rows, table, write

MARKER: Final = "m4rk3r"
FACTOR: Final = 2
"""What a process may have above what it had, in memory limits."""
_MIB: Final = 2**20
_CODE: Final = Column.model_validate({"name": "hidden_code", "type": "STRING"})
_PHYSICAL: Final = ORDERS.model_copy(update={"columns": (*ORDERS.columns, _CODE)})
_SECRETS: Final = table("secrets", "word:STRING")
BIG: Final = table("big", "id:INT64", "word:STRING")
PHYSICAL: Final = (_PHYSICAL, LINES, CUSTOMERS, BIG, _SECRETS)
DECLARED: Final[tuple[Table, ...]] = (ORDERS, LINES, CUSTOMERS, BIG)
# A row of every region but one; who asks sees only those.
_ROWS: Final = {"orders.region": {"one_of": ["EU", "US"]}}


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a row ended, everything that came out of it, and what it took: bytes above what was there, seconds."""

    end: str
    said: str
    memory: int
    seconds: float


def plant(folder: Path, big_rows: int) -> Path:
    """The dataset's files with the marker in every place that is not the caller's."""
    data = rows()
    for row in data["orders"]:
        row["hidden_code"] = MARKER
    hidden = {**data["orders"][0], "id": 0, "region": "HIDDEN", "note": f"{MARKER} in a hidden row"}
    data["orders"] += [{**hidden, "id": -number} for number in range(5)]
    data["secrets"] = [{"word": MARKER}]
    data["big"] = [{"id": number, "word": f"{'x' * 100}{number}"} for number in range(big_rows)]
    write(folder, data, PHYSICAL)
    for name in ("secret.csv", "data/secret.csv", "scratch/secret.csv", "secret.json"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(f'word\n"{MARKER}"\n')
    path = database_file(DATASET, "1.0.0", "", folder, PHYSICAL, folder / "scratch")
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE SCHEMA other")
        for name in ("other.secrets", "other.orders", "main.secrets"):
            connection.execute(f"CREATE TABLE {name} AS SELECT '{MARKER}' AS word, '{MARKER}' AS note")
    return folder


@contextmanager
def planted_engine(folder: Path, *, memory_limit: str, timeout: float) -> Iterator[DuckDbEngine]:
    """The engine over ``plant(folder)``; the working directory and the environment hold the marker too."""
    before = Path.cwd()
    os.environ["HOSTILE_SECRET"] = MARKER
    os.chdir(folder)
    try:
        yield opened(folder, PHYSICAL, memory_limit=memory_limit, timeout=timeout)
    finally:
        os.chdir(before)
        del os.environ["HOSTILE_SECRET"]


def ends_as_it_must(row: Hostile, outcome: Outcome) -> bool:
    return outcome.end in {"load": ("load",), "arguments": ("arguments",), "run": ("run", "answer")}[row.end]


def load(row: Hostile) -> Template:
    return load_template(
        row.sql,
        name="templates/hostile.sql",
        dataset=DATASET,
        tables=DECLARED,
        parameters=row.parameters,
        results=results(row.declared),
        ceiling=ORDERS.columns[0].sensitivity,
    )


async def attempt(engine: DuckDbEngine, row: Hostile) -> Outcome:
    """Do with a row what the product does: load, bind once, bind the arguments, run and stream."""
    leaked_frame = duckdb.sql(f"SELECT '{MARKER}' AS word").to_arrow_table()
    said = _Log()
    started, end = time.monotonic(), "load"
    with said, Peak(engine) as peak:
        try:
            loaded = load(row)
            await engine.check(loaded)
            end = "arguments"
            bound = bind(loaded, dict(row.arguments))
            end = "run"
            started = time.monotonic()
            said.add(await _answer(engine, loaded, bound))
            end = "answer"
        except (TemplateError, NotGranted) as error:
            said.add_error(error)
        seconds = time.monotonic() - started
    del leaked_frame
    return Outcome(end, said.text(), peak.bytes, seconds)


async def _answer(engine: DuckDbEngine, loaded: Template, bound: Any) -> str:
    authority = make_authority(dataset=DATASET, capability="c", rows=_rows_for(loaded))
    document, execution = await run_whole(
        engine, authority, loaded, bound, max_rows=100_000, max_bytes=4 * _MIB, as_of=AS_OF
    )
    return document.body.decode() + repr(execution)


def _rows_for(loaded: Template) -> dict[str, Any]:
    return _ROWS if "orders" in loaded.tables_read else {}


class _Log(logging.Handler):
    """All that was said: answers, errors with their causes, and every log record."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self._said: list[str] = []

    def __enter__(self) -> _Log:
        logging.getLogger("queries").addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger("queries").removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self._said.append(record.getMessage())

    def add(self, text: str) -> None:
        self._said.append(text)

    def add_error(self, error: BaseException | None) -> None:
        while error is not None:
            self._said.append(f"{type(error).__name__}: {error} {error.args}")
            error = error.__cause__

    def text(self) -> str:
        return "\n".join(self._said)


class Peak:
    """The most memory that this process and the engine's workers had while it was entered, above what they had.

    Linux keeps a high-water mark of each process, which its owner may put back. A worker's is
    read again and again, because it may be gone at the end.
    """

    def __init__(self, engine: DuckDbEngine) -> None:
        self._engine = engine
        self._done = threading.Event()
        self._highest: dict[int, int] = {}
        self._base: dict[int, int] = {}
        self.bytes = 0

    def __enter__(self) -> Peak:
        Path("/proc/self/clear_refs").write_text("5")
        self._base[os.getpid()] = _status(os.getpid(), "VmRSS")
        for worker in workers(self._engine):
            self._base[worker.pid] = _status(worker.pid, "VmRSS")
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self._look(os.getpid())
        self.bytes = max(high - self._base.get(pid, WORKER_BASE) for pid, high in self._highest.items())

    def _watch(self) -> None:
        while not self._done.wait(0.002):
            for worker in workers(self._engine):
                self._look(worker.pid)

    def _look(self, pid: int) -> None:
        self._highest[pid] = max(self._highest.get(pid, 0), _status(pid, "VmHWM"))


WORKER_BASE: Final = 90 * _MIB
"""What a worker has before its first query."""


def _status(pid: int, name: str) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    line = next((line for line in lines if line.startswith(f"{name}:")), "x 0")
    return int(line.split()[1]) * 1024


async def warm(engine: DuckDbEngine) -> None:
    """Start what starts once, so that no row is measured with it."""
    await run(engine, in_worker("SELECT COUNT(*) AS n FROM orders WHERE @@worker", "n:INT64"))
    await asyncio.sleep(0)
