"""What every command shares: exit codes, JSON, tables that fit the terminal, one line for a fault.

Programs read standard output (JSON with ``--json``); people and logs read standard error.
Nothing that came from data or from a sender reaches a terminal as a control character, as markup
or as an emoji: text is shown letter by letter, since an auditor compares it.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Final

import typer
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len, set_cell_size
from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from contract.errors import Category, DatasetAgentError, WrongSetting
from contract.verdict import VERDICTS, NotGranted, Verdict
from telemetry.logs import told_as_json

EXIT_OK: Final = 0
EXIT_FAULT: Final = 1
EXIT_USAGE: Final = 2
EXIT_REFUSED: Final = 3
EXIT_INDETERMINATE: Final = 4
EXIT_WAITS: Final = 5
EXIT_INTERRUPTED: Final = 130

EXIT_OF: Final = {
    Verdict.GRANTED: EXIT_OK,
    Verdict.REFUSED: EXIT_REFUSED,
    Verdict.INDETERMINATE: EXIT_INDETERMINATE,
}
_USAGE: Final = frozenset({Category.INVALID_INPUT, Category.NOT_FOUND})
_GAP: Final = 2
_NARROWEST: Final = 20
_FOLDED: Final = 30
_LONGEST_LINE: Final = 1_000
_COMMAND: Final = "dataset-agent "

out = Console(highlight=False, soft_wrap=True, markup=False, emoji=False)
err = Console(stderr=True, highlight=False, soft_wrap=True, markup=False, emoji=False)

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document for programs.")]


def print_json(value: Mapping[str, Any] | Sequence[Any]) -> None:
    """One JSON document on standard output; what ``plain`` would spell out is a ``\\u`` sequence in it."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    typer.echo("".join(char if _is_plain(char) else json.dumps(char)[1:-1] for char in text))


def plain(value: object) -> str:
    """A value as text without control, format or surrogate characters, or separators, but line feeds."""
    return "".join(char if _is_plain(char) else char.encode("unicode_escape").decode() for char in str(value))


def _is_plain(char: str) -> bool:
    """Whether a terminal shows it and nothing else: U+202E turns a line around, U+009B begins a sequence."""
    category = unicodedata.category(char)
    return char == "\n" or (category[0] != "C" and category not in ("Zl", "Zp"))


def one_line(message: object) -> str:
    """A message as one plain line, cut where it is endless; its indentation is kept."""
    text = str(message)
    indent = " " * (len(text) - len(text.lstrip(" ")))
    line = indent + plain(" ".join(text.split()))
    return line if len(line) <= _LONGEST_LINE else line[:_LONGEST_LINE] + " …"


def say(line: object) -> None:
    """One plain line for people, on standard output."""
    _tell(out, Text(one_line(line)))


def note(line: object) -> None:
    """One plain line beside the result, on standard error; a log line where those are JSON."""
    if not told_as_json("INFO", line):
        _tell(err, Text(one_line(line)))


def _tell(console: Console, line: Text) -> None:
    """One line; at a terminal that is too narrow for it, wrapped at words.

    Not where it holds a command, or a word that is wider than the terminal: those are copied from it.
    """
    indent = cell_len(line.plain) - cell_len(line.plain.lstrip(" "))
    room = console.width - indent - _GAP
    copied = _COMMAND in line.plain or max(map(cell_len, line.plain.split()), default=0) > room
    if copied or not console.is_terminal or cell_len(line.plain) <= console.width:
        console.print(line)
        return
    for number, part in enumerate(line[indent:].wrap(console, room)):
        part.rstrip()
        console.print(Text(" " * (indent + (_GAP if number else 0))) + part)


def paragraph(text: str | Text, *, first: str = "", indent: int) -> None:
    """Text on standard output, wrapped at words to the width of the terminal; ``first`` stands in its indent."""
    words = text if isinstance(text, Text) else Text(one_line(text))
    for number, line in enumerate(words.wrap(out, max(_NARROWEST, out.width - indent))):
        line.rstrip()
        out.print(Text.assemble(plain(first).ljust(indent) if number == 0 else " " * indent, line))


def fail(message: object, code: int = EXIT_FAULT) -> typer.Exit:
    """Print one line to standard error; raise what is returned."""
    if told_as_json("ERROR", message):
        return typer.Exit(code)
    _tell(err, Text.assemble(("error:", "bold red"), " ", one_line(message)))
    return typer.Exit(code)


@contextmanager
def progress(doing: str) -> Iterator[Callable[[int], None] | None]:
    """A spinner beside long work, where standard error is a terminal; nothing elsewhere.

    There, what is yielded takes a percentage, and makes a bar of it as soon as there is one.
    """
    if not err.is_terminal:
        yield None
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), _Bar(), TimeElapsedColumn())
    with Progress(*columns, console=err, transient=True) as shown:
        work = shown.add_task(doing, total=None)
        yield lambda percent: shown.update(work, total=100, completed=percent)


class _Bar(ProgressColumn):
    """A bar and a percentage once one is known; nothing before."""

    def __init__(self) -> None:
        super().__init__()
        self._bar = BarColumn(bar_width=_NARROWEST)

    def render(self, task: Task) -> RenderableType:
        if task.total is None:
            return Text("")
        shown = Table.grid(padding=(0, 1))
        shown.add_row(self._bar.render(task), Text(f"{task.percentage:.0f} %"))
        return shown


def table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    lead: Sequence[str] = (),
    right: Collection[str] = (),
    of: int | None = None,
) -> None:
    """A table for people that fits the width of the terminal (80 columns where there is none).

    Where one line per row is too wide, only the columns of ``lead`` stay columns, and the others
    stand below each row by their names (a single one without it); without ``lead`` one column of text is folded where that
    is enough, else the table is turned: one line per field. ``right`` names the columns of
    numbers, ``of`` is how many rows there are where these are the first of more. ``None`` is an
    empty cell.
    """
    texts = [["" if cell is None else plain(cell) for cell in row] for row in rows]
    if title:
        say(title)
    widths = _widths([columns, *texts])
    room = out.width - _wide(widths)
    if room >= 0:
        _print(columns, texts, right)
    elif lead:
        _led(columns, texts, lead, right)
    elif max(widths) + room >= _FOLDED:
        _print(columns, texts, right)
    else:
        _turned(columns, texts, of or len(texts))


def _led(columns: Sequence[str], rows: Sequence[Sequence[str]], lead: Sequence[str], right: Collection[str]) -> None:
    """A line of leading columns for each row, and below it what the other columns hold, each by its name.

    Leading columns that a narrow terminal has no room for stand among the others.
    """
    while len(lead) > 1 and _wide(_widths([lead, *_cells(columns, rows, lead)])) > out.width:
        lead = lead[:-1]
    leading = _cells(columns, rows, lead)
    widths = _widths([lead, *leading])

    def line(cells: Sequence[str]) -> str:
        fitted = (
            " " * (width - cell_len(cell)) + cell if name in right else set_cell_size(cell, width)
            for name, cell, width in zip(lead, cells, widths, strict=True)
        )
        return (" " * _GAP).join(fitted)

    out.print(Text(line(lead), style="bold"))
    out.print("─" * _wide(widths))
    for row, cells in zip(rows, leading, strict=True):
        out.print(line(cells))
        others = [(name, cell) for name, cell in zip(columns, row, strict=True) if name not in lead and cell]
        parts = [
            one_line(cell) if len(columns) == len(lead) + 1 else f"{name} {one_line(cell)}" for name, cell in others
        ]
        for told in _packed(parts, out.width - 2 * _GAP):
            paragraph(told, indent=2 * _GAP)


def _packed(parts: Sequence[str], width: int) -> list[str]:
    """As many parts in each line as have room: a name and its value are not parted."""
    lines: list[str] = []
    for part in parts:
        longer = f"{lines[-1]}, {part}" if lines else ""
        if lines and cell_len(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(part)
    return lines


def _widths(lines: Sequence[Sequence[str]]) -> list[int]:
    """The width of each column: of its longest line in any cell."""
    return [max(cell_len(line) for cell in column for line in cell.split("\n")) for column in zip(*lines, strict=True)]


def _cells(columns: Sequence[str], rows: Sequence[Sequence[str]], names: Sequence[str]) -> list[list[str]]:
    """What some columns hold, each cell in one line."""
    places = [columns.index(name) for name in names]
    return [[one_line(row[place]) for place in places] for row in rows]


def _wide(widths: Sequence[int]) -> int:
    """The width of columns side by side."""
    return sum(widths) + _GAP * (len(widths) - 1)


def _turned(columns: Sequence[str], rows: Sequence[Sequence[str]], of: int) -> None:
    """One line per field, and as many rows side by side as there is room for."""
    first = 1
    for group in _side_by_side(columns, rows):
        if len(group) < len(rows):
            say(f"row {first} of {of}" if len(group) == 1 else f"rows {first} to {first + len(group) - 1} of {of}")
        heads = ["", *(f"row {number}" for number in range(first, first + len(group)))]
        _print(
            heads if len(group) > 1 else ["field", "value"], [list(line) for line in zip(columns, *group, strict=True)]
        )
        first += len(group)


def _side_by_side(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[list[Sequence[str]]]:
    """Rows in groups: all in one where each still has ``_NARROWEST``, else as many as are read without folding much."""
    names = max(cell_len(name) for name in columns)
    widths = [sorted(_widths([[f"row {number}", *row]])) for number, row in enumerate(rows, 1)]
    if rows and (out.width - names) // len(rows) - _GAP >= min(max(width[-1] for width in widths), _NARROWEST):
        return [list(rows)]
    groups: list[list[Sequence[str]]] = []
    room = 0
    for row, width in zip(rows, widths, strict=True):
        # a few long texts are folded, and not most of what a row holds
        wanted = min(width[-1], max(_FOLDED, width[len(width) * 4 // 5])) + _GAP
        if not groups or wanted > room:
            groups.append([])
            room = out.width - names
        groups[-1].append(row)
        room -= wanted
    return groups


def _print(columns: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[str] = ()) -> None:
    shown = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for name in columns:
        shown.add_column(Text(name), overflow="fold", justify="right" if name in right else "left")
    for row in rows:
        shown.add_row(*(Text(cell) for cell in row))
    out.print(shown, soft_wrap=False)


def exit_code(fault: BaseException) -> int:
    """The exit code of section "Exit codes" in docs/command.md for a fault or an outcome."""
    if isinstance(fault, NotGranted):
        return EXIT_OF[VERDICTS[fault.reason]]
    if isinstance(fault, WrongSetting) or (isinstance(fault, DatasetAgentError) and fault.category in _USAGE):
        return EXIT_USAGE
    return EXIT_FAULT
