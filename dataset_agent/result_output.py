"""The rows of an answer as a file: whole, verified, and readable by its owner only; or nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from rich.progress import BarColumn, DownloadColumn, TextColumn, TransferSpeedColumn
from rich.progress import Progress as Bar

from contract.result import StoredResult
from dataset_agent.console import err
from delegation.results import Progress
from delegation.results_file import check_form, whole_file
from root_agent.answer_view import columns_of
from root_agent.asking import Answer
from root_agent.results import fetch_result
from root_agent.service import Service

_AT_LEAST: Final = 2**20  # below that a bar would only flicker


async def write_result(answer: Answer, service: Service, path: Path) -> None:
    """Fetch the result of a granted answer into ``path``. Raises ``NotGranted`` and ``OSError``."""
    stored = answer.document
    with whole_file(path) as file, _downloading(stored.size if isinstance(stored, StoredResult) else 0) as progress:
        columns = columns_of(answer)
        await fetch_result(
            answer, service, file, progress=progress, check=lambda fetched: check_form(file, fetched, columns)
        )


@contextmanager
def _downloading(size: int) -> Iterator[Progress | None]:
    """A bar of bytes, where standard error is a terminal and there are many."""
    if not err.is_terminal or size < _AT_LEAST:
        yield None
        return
    columns = (TextColumn("fetching"), BarColumn(), DownloadColumn(binary_units=True), TransferSpeedColumn())
    with Bar(*columns, console=err, transient=True) as shown:
        work = shown.add_task("", total=size)
        yield lambda received, total: shown.update(work, completed=received, total=total)
