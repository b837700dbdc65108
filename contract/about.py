"""Which request a log line is about, as far as it is known where the line is written."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Final, Protocol


class HasIds(Protocol):
    """What is under way. Ids only: request, trace, task."""

    def ids(self) -> Mapping[str, str]: ...


about: Final[ContextVar[HasIds | None]] = ContextVar("log_lines_are_about", default=None)
