"""Where rows go beside the terminal, and in which form: the options of ``ask`` and ``call``."""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from contract.call import ARROW_MEDIA_TYPE, RESULT_MEDIA_TYPE
from contract.errors import Category, Component, DatasetAgentError


class Format(StrEnum):
    """How rows are written."""

    JSON = "json"
    ARROW = "arrow"

    @property
    def media_type(self) -> str:
        return ARROW_MEDIA_TYPE if self is Format.ARROW else RESULT_MEDIA_TYPE


Output = Annotated[
    Path | None, typer.Option(help="Write the rows to a file, however many they are; it is there whole or not at all.")
]
FormatOption = Annotated[
    Format, typer.Option("--format", help="The form of the rows in --output; arrow is an Arrow IPC stream.")
]
Save = Annotated[Path | None, typer.Option(help="Save rows and provenance for `provenance verify`.")]


@dataclass(frozen=True, slots=True)
class Place:
    """Where rows and proof go, beside the terminal."""

    output: Path | None
    form: Format
    save: Path | None

    def check(self) -> None:
        """Before anything is asked: rows that cannot be kept are not fetched. Raises INVALID_INPUT."""
        if self.output is not None:
            _check("output", self.output)
        elif self.form is Format.ARROW:
            raise _invalid("format.output", "rows in Arrow go to a file: name it with --output")
        if self.save is not None:
            _check("save", self.save)
        if self.save is not None and self.save == self.output:
            raise _invalid("save.place", "--save and --output are two files")


def _check(option: str, path: Path) -> None:
    if path.is_dir() or not os.access(path.parent, os.W_OK):
        raise _invalid(f"{option}.place", f"--{option} {path} cannot be written: name a file in a folder that exists")


def _invalid(code: str, message: str) -> DatasetAgentError:
    return DatasetAgentError(Component.COMMAND, Category.INVALID_INPUT, f"command.{code}", message)
