"""What every command shares: exit codes, JSON or a table, and one line for every fault.

Programs read standard output (JSON with ``--json``); people and logs read standard error.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from contract.errors import Category, DatasetAgentError
from contract.verdict import NotGranted, Verdict

EXIT_OK: Final = 0
EXIT_FAULT: Final = 1
EXIT_USAGE: Final = 2
EXIT_REFUSED: Final = 3
EXIT_INDETERMINATE: Final = 4

EXIT_OF: Final = {
    Verdict.GRANTED: EXIT_OK,
    Verdict.REFUSED: EXIT_REFUSED,
    Verdict.INDETERMINATE: EXIT_INDETERMINATE,
}
_USAGE: Final = frozenset({Category.INVALID_INPUT, Category.NOT_FOUND})

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object for programs.")]


def print_json(value: Mapping[str, Any] | Sequence[Any]) -> None:
    """One JSON document on standard output."""
    typer.echo(json.dumps(value, ensure_ascii=False, indent=2))


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A table for people; cells are shown as they are, never as markup."""
    shown = Table(title=escape(title), title_justify="left", header_style="bold")
    for column in columns:
        shown.add_column(column, overflow="fold")
    for row in rows:
        shown.add_row(*("" if cell is None else escape(str(cell)) for cell in row))
    out.print(shown)


def say(line: str) -> None:
    """One plain line for people."""
    out.print(escape(line))


def fail(message: str, code: int = EXIT_FAULT) -> typer.Exit:
    """Print one line to standard error; raise what is returned."""
    err.print(f"[bold red]error:[/] {escape(message)}")
    return typer.Exit(code)


def exit_code(fault: BaseException) -> int:
    """The exit code of section "Exit codes" in docs/command.md for a fault or an outcome."""
    if isinstance(fault, NotGranted):
        return EXIT_OF[fault.decision("").verdict]
    if isinstance(fault, DatasetAgentError) and fault.category in _USAGE:
        return EXIT_USAGE
    return EXIT_FAULT
