"""A fault as texts of the tree and what stands in their place."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Edit:
    """``old`` in the file ``path``, and what stands there with the fault."""

    path: str
    old: str
    new: str

    def planted(self, source: str) -> str:
        """Raises ``ValueError`` where the text is not there exactly once."""
        if source.count(self.old) != 1:
            raise ValueError(f"{self.path} holds {source.count(self.old)} times: {self.old.strip().splitlines()[0]}")
        return source.replace(self.old, self.new)


@dataclass(frozen=True, slots=True)
class Fault:
    """``name`` is the kit's, ``target`` the assertion that must catch it; ``walls`` says in words what is taken out."""

    name: str
    target: str
    walls: str
    edits: tuple[Edit, ...]

    def planted(self, root: Path) -> dict[str, str]:
        """The files of the tree as they are with the fault, by path. Raises ``ValueError`` as ``Edit.planted``."""
        texts: dict[str, str] = {}
        for edit in self.edits:
            text = texts.get(edit.path) or (root / edit.path).read_text(encoding="utf-8")
            texts[edit.path] = edit.planted(text)
        return texts
