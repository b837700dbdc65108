"""What to do about a template that is refused, where the reason says only what is wrong."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from typing import Final

from control_plane.manifest import DatasetManifest

_COLUMN: Final = re.compile(r"table (\S+) has no column (\S+)")
_TABLE: Final = re.compile(r"table (\S+) is not declared by the dataset")
_UNUSED: Final = re.compile(r"parameter (\S+) is declared and not used")


def advice(reason: str, manifest: DatasetManifest) -> str:
    """To be put behind the reason; empty where it says what to do itself."""
    for form, say in _ADVICE:
        if found := form.fullmatch(reason):
            return f"; {say(found, manifest)}"
    return ""


def _column(found: re.Match[str], manifest: DatasetManifest) -> str:
    names = [c.name for table in manifest.tables if table.name == found[1] for c in table.columns]
    return f"{_alike(found[2], names)}declare it under tables, or correct the template"


def _table(found: re.Match[str], manifest: DatasetManifest) -> str:
    return (
        f"{_alike(found[1], [table.name for table in manifest.tables])}declare it under tables, or correct the template"
    )


def _alike(name: str, names: list[str]) -> str:
    alike = difflib.get_close_matches(name, names, n=1)
    return f"is it {alike[0]}? " if alike else ""


def _unused(found: re.Match[str], manifest: DatasetManifest) -> str:
    return f"use @{found[1]}, or take it out of parameters"


_ADVICE: Final[tuple[tuple[re.Pattern[str], Callable[[re.Match[str], DatasetManifest], str]], ...]] = (
    (_COLUMN, _column),
    (_TABLE, _table),
    (_UNUSED, _unused),
)
