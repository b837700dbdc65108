"""Engines over the small shop, and templates that run in a worker, for the tests of the DuckDB engine."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from contract.schema import Table
from queries.bind import bind
from queries.duckdb_engine import DuckDbEngine
from queries.duckdb_remote import Worker
from queries.duckdb_stream import RowStream
from queries.template import Template
from tests.authority_builder import make_authority
from tests.queries.documents import run as run_whole
from tests.queries.world import DATASET, MASK_KEY, TABLES, template

AS_OF = "2026-08-31T22:00:00Z"
PAIRS = "lines AS a, lines AS b, lines AS c, lines AS d"
ENDLESS = f"SELECT COUNT(*) AS n FROM {PAIRS} WHERE MOD(a.qty + b.qty * 2 + c.qty * 3 + d.qty * 5, 7) = 1"
# A text of all rows may have any length, so what makes one runs in a worker.
IN_WORKER = "(SELECT LENGTH(STRING_AGG(note, '' ORDER BY id)) FROM orders)"


def opened(folder: Path, tables: Sequence[Table] = TABLES, **more: Any) -> DuckDbEngine:
    return DuckDbEngine.open(DATASET, "1.0.0", folder, tables, scratch=folder / "scratch", mask_key=MASK_KEY, **more)


def in_worker(sql: str, declared: str, *parameters: Any) -> Template:
    """The template with a condition that is always met and that no other engine but a worker's may compute."""
    loaded = template(sql.replace("@@worker", f"{IN_WORKER} >= 0"), declared, *parameters)
    assert loaded.growth.factor == float("inf")
    return loaded


async def run(
    engine: DuckDbEngine, loaded: Template, arguments: dict[str, Any] | None = None, **more: Any
) -> list[Any]:
    limits = {"max_rows": more.pop("max_rows", 10_000), "max_bytes": more.pop("max_bytes", 10**7)}
    authority = make_authority(dataset=DATASET, capability="c", **more)
    document, _ = await run_whole(engine, authority, loaded, bind(loaded, arguments or {}), as_of=AS_OF, **limits)
    rows_of: list[Any] = json.loads(document.body)["rows"]
    return rows_of


def stream(engine: DuckDbEngine, loaded: Template, **more: Any) -> AbstractAsyncContextManager[RowStream]:
    limits = {"max_rows": more.pop("max_rows", 10**8), "max_bytes": more.pop("max_bytes", 10**10)}
    authority = make_authority(dataset=DATASET, capability="c", **more)
    return engine.stream(authority, loaded, bind(loaded, {}), **limits)


def workers(engine: DuckDbEngine) -> set[Worker]:
    return set(engine._workers._all)


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
