"""Tables of questions and what they are read as: one a line, ``kind | question | reading``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from control_plane.interpret import Heard

Called = tuple[str, str, dict[str, Any]]


def read_table(path: Path) -> list[tuple[str, ...]]:
    return [
        tuple(part.strip() for part in line.split(" | "))
        for line in path.read_text(encoding="utf-8").splitlines()
        if line and not line.startswith("#")
    ]


def told(heard: Heard) -> str:
    """As the tables say it: ``-`` and the words left over, ``?`` and what is missing, or the call."""
    found = heard.proposal
    if found is None:
        return f"- {', '.join(heard.left)}".strip()
    if found.missing:
        return f"? {', '.join(item.name for item in found.missing)}"
    return f"{found.dataset} {found.capability} {json.dumps(dict(found.arguments))}"


def call_of(heard: Heard) -> Called | None:
    """The complete call, if it is one."""
    found = heard.proposal
    return None if found is None or found.missing else (found.dataset, found.capability, dict(found.arguments))
