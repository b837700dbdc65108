"""Connections that can read their own database file and nothing else."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

import duckdb

from contract.errors import Category, Component, DatasetAgentError

_GRACE: Final = 1.0
_MEMORY: Final = re.compile(r"[0-9]{1,6}(\.[0-9]{1,3})? ?([KMGT]i?B|%)")


_BYTES: Final = re.compile(r"([0-9.]+) (bytes|[KMGT]iB)")
_UNITS: Final = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


def cores() -> int:
    """Those this process may use. A pool of as many threads is the best: more give no throughput."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


def memory_bytes(connection: duckdb.DuckDBPyConnection) -> int:
    """The memory limit in force, in bytes."""
    row = connection.execute("SELECT current_setting('memory_limit')").fetchone()
    found = _BYTES.fullmatch(str(row[0])) if row is not None else None
    if found is None:
        raise _settings_fault("", "the limit in force cannot be read")
    return int(float(found[1]) * _UNITS[found[2]])


def connect(path: Path, memory_limit: str, timeout: float, *, threads: int) -> duckdb.DuckDBPyConnection:
    """A hardened, read-only connection; ``timeout`` is seconds. Raises a configuration fault."""
    if not _MEMORY.fullmatch(memory_limit):
        raise _settings_fault(memory_limit, "its form is not 512MB")
    connection = duckdb.connect(str(path), read_only=True)
    try:
        # A file that this process already serves is one instance, hardened and locked once.
        locked = connection.execute("SELECT current_setting('lock_configuration')").fetchone()
        if locked is None or not locked[0]:
            for statement in _settings(memory_limit, threads, timeout):
                connection.execute(statement)
    except duckdb.Error as error:
        connection.close()
        raise _settings_fault(memory_limit, type(error).__name__) from None
    return connection


def _settings_fault(memory_limit: str, why: str) -> DatasetAgentError:
    return DatasetAgentError(
        Component.QUERIES,
        Category.CONFIGURATION,
        "queries.duckdb.settings",
        f"DuckDB does not accept its settings ({why}); check the memory limit {memory_limit[:20]!r}",
    )


def _settings(memory_limit: str, threads: int, timeout: float) -> tuple[str, ...]:
    """In this order: the temporary folder is set before access is closed, the lock comes last.

    What is said GLOBAL would otherwise hold for this one connection, and for no cursor of it.
    """
    return (
        "SET GLOBAL TimeZone='UTC'",
        "SET GLOBAL python_enable_replacements=false",
        "SET autoinstall_known_extensions=false",
        "SET autoload_known_extensions=false",
        "SET allow_community_extensions=false",
        "SET allow_persistent_secrets=false",
        "SET temp_directory=''",
        f"SET memory_limit='{memory_limit}'",
        f"SET threads={threads}",
        "SET GLOBAL max_expression_depth=250",
        # Division by zero and logarithms of zero then fail, as in GoogleSQL.
        "SET GLOBAL ieee_floating_point_ops=false",
        # A second line behind the engine's own timer.
        f"SET GLOBAL max_execution_time={int((timeout + _GRACE) * 1000)}",
        "SET enable_external_access=false",
        # The two that a cursor sets for itself, so that a query can say how far it is.
        "SET allowed_configs=['enable_progress_bar', 'enable_progress_bar_print']",
        "SET lock_configuration=true",
    )
