"""Something wrong in a datasets folder, for whoever wrote it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class FolderFault:
    """``file`` is relative to the datasets folder, ``place`` what stands there; ``message`` ends with what to do."""

    file: str
    message: str
    line: int | None = None
    place: str = ""

    @property
    def where(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}"

    def __str__(self) -> str:
        return ": ".join(part for part in (self.where, self.place, self.message) if part)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
