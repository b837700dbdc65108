"""The rows that a proof is about, where they are kept: inside the saved answer, or in a file of their own."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from contract.call import ARROW_MEDIA_TYPE
from contract.canonical import InvalidJson, parse_json
from contract.errors import Category, Component, DatasetAgentError
from contract.result import Content
from contract.schema import ResultColumn
from dataset_agent.answer_display import result_table
from dataset_agent.console import note, table
from delegation.result_form import read_result
from evidence.artifact import MAX_ARTIFACT_BYTES, Artifact
from evidence.predicate import Statement

_SHOWN_ROWS: Final = 25
_AT_ONCE: Final = 2**20


@dataclass(frozen=True, slots=True)
class HeldRows:
    """Bytes of a result, in memory or in a file that is read when they are looked at; *unverified*."""

    content: Content
    body: bytes | None = field(default=None, repr=False)
    path: Path | None = None

    def as_json(self) -> Any:
        """The result document; ``None`` where the bytes are something else, or too many to print."""
        try:
            return parse_json(self._whole(), limit=MAX_ARTIFACT_BYTES)
        except InvalidJson:
            return None

    def show(self, statement: Statement) -> None:
        """The rows, which were verified, as a table; of a file of Arrow the first ones."""
        if statement.predicate.result.media_type == ARROW_MEDIA_TYPE and self.path is not None:
            self._show_arrow(self.path)
            return
        result, count = self.as_json(), statement.predicate.authorization.rows_returned
        try:  # signed bytes need not have the form of a result
            columns = [ResultColumn.model_validate(column) for column in result["schema"]]
            document = read_result(self._whole(), columns, max_rows=count)
        except (TypeError, KeyError, ValueError):
            note(f"the rows are not shown: these bytes ({statement.predicate.result.media_type}) are no table of rows")
            return
        result_table(document, "", limit=count if self.path is None else _SHOWN_ROWS)

    def _whole(self) -> bytes:
        if self.body is not None:
            return self.body
        return b"" if self.path is None or self.content.size > MAX_ARTIFACT_BYTES else self.path.read_bytes()

    def _show_arrow(self, path: Path) -> None:
        try:
            with path.open("rb") as file, pa.ipc.open_stream(file) as stream:
                names = stream.schema.names
                first = next(iter(stream), None)
        except (pa.ArrowException, OSError, ValueError):
            note("the rows are not shown: these bytes are no Arrow stream")
            return
        cells = [] if first is None else first.slice(0, _SHOWN_ROWS).to_pylist()
        table("", names, [["NULL" if row[name] is None else row[name] for name in names] for row in cells])
        note(f"at most {_SHOWN_ROWS} rows are shown")


def held_rows(artifact: Artifact, result: Path | None) -> HeldRows:
    """What an answer's proof is to be compared with. Raises ``DatasetAgentError`` where the rows are nowhere."""
    if result is not None:
        return HeldRows(_content_of(result), path=result)
    if artifact.body is None:
        raise DatasetAgentError(
            Component.COMMAND,
            Category.INVALID_INPUT,
            "command.provenance.rows",
            "the rows of this answer are in a file of their own: name it with --result",
        )
    return HeldRows(Content.of(artifact.body), body=artifact.body)


def _content_of(path: Path) -> Content:
    """The digest and size of a file, read piece by piece. Raises NOT_FOUND."""
    digest, size = hashlib.sha256(), 0
    try:
        if not path.is_file():  # a pipe may never answer, and is gone once it was read
            raise FileNotFoundError(path)
        with path.open("rb") as file:
            while piece := file.read(_AT_ONCE):
                digest.update(piece)
                size += len(piece)
    except OSError as error:
        raise DatasetAgentError(
            Component.COMMAND,
            Category.NOT_FOUND,
            "command.provenance.result",
            f"the rows in {path} cannot be read: name the file they were written to",
        ) from error
    return Content(digest.hexdigest(), size)
