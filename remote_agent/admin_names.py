"""What an operator misspelt, and which name is near it."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

from contract.errors import Category, Component, DatasetAgentError

_MAX_NAME: Final = 100
_MOST: Final = 20


def unknown_name(kind: str, name: str, known: Iterable[str]) -> DatasetAgentError:
    """A NOT_FOUND fault that says what is near ``name``, else what there is. The name itself, which may be anything, is not in it."""
    names = sorted(known)
    close = get_close_matches(name[:_MAX_NAME], names, n=1)
    shown = ", ".join(names[:_MOST]) + (" …" if len(names) > _MOST else "")
    told = f"did you mean {close[0]}?" if close else f"known: {shown}" if names else "none is known"
    return DatasetAgentError(
        Component.REMOTE_AGENT,
        Category.NOT_FOUND,
        f"remote_agent.admin.{kind}",
        f"there is no {kind} of this name: {told}",
    )
