"""A fault as a text that is replaced."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Text:
    """``old`` occurs exactly once in the file."""

    path: str
    name: str
    old: str
    new: str
