"""``python -m conformance.served PLACE serve …``: the command as it is, its engine and its MCP door counted from outside.

Whatever makes an engine of this process run is one line of the file ``PLACE``, written before the engine
starts, so that what failed half way counts too; with the door by which the call came. Nothing of the
product knows of it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final

from contract.authority import Authority
from dataset_agent.cli import main
from queries.duckdb_engine import DuckDbEngine
from remote_agent.mcp_door import McpDoor

DOOR: Final = ContextVar("DOOR", default="a2a")


def count_executions(told: Callable[[str, str], None]) -> None:
    """Call ``told`` with dataset and capability whenever a DuckDB engine of this process executes anything."""
    inner = DuckDbEngine.stream

    def counted(engine: DuckDbEngine, authority: Authority, *args: Any, **kwargs: Any) -> Any:
        told(authority.dataset, authority.capability)
        return inner(engine, authority, *args, **kwargs)

    DuckDbEngine.stream = counted  # type: ignore[method-assign, assignment]


def tell_the_door() -> None:
    """What a call at the MCP door makes run is told to be by that door."""
    inner = McpDoor._call

    async def called(*args: Any) -> Any:
        token = DOOR.set("mcp")
        try:
            return await inner(*args)
        finally:
            DOOR.reset(token)

    McpDoor._call = called  # type: ignore[method-assign, assignment]


class Lines:
    """A file that lines are added to, each whole, by whoever has it open."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def add(self, **told: str) -> None:
        os.write(self._file, json.dumps(told).encode() + b"\n")


def run(arguments: list[str]) -> None:
    lines = Lines(Path(arguments[0]))
    count_executions(lambda dataset, capability: lines.add(door=DOOR.get(), dataset=dataset, capability=capability))
    tell_the_door()
    sys.argv = ["dataset-agent", *arguments[1:]]
    main()


if __name__ == "__main__":
    run(sys.argv[1:])
