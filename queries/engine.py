"""What an engine promises: run a loaded template for one authority, or raise with a fixed text."""

from __future__ import annotations

from typing import Protocol

from contract.authority import Authority
from contract.result import Execution, ResultDocument
from queries.bind import Bound
from queries.template import Template


class Engine(Protocol):
    """Runs templates of one dataset version. Texts of ``NotGranted`` never hold an engine's message."""

    async def run(
        self,
        authority: Authority,
        template: Template,
        bound: Bound,
        *,
        max_rows: int,
        max_bytes: int,
        as_of: str,
        supplied: ResultDocument | None = None,
    ) -> tuple[ResultDocument, Execution]:
        """Run the template, governed by ``authority``; ``max_bytes`` bounds the document.

        ``as_of`` is RFC 3339 UTC. ``supplied`` is the result that the template's supplied
        relation stands for: there exactly where the template declares one (else
        EXECUTION_FAILED), of the declared columns (else RESULT_INVALID), within
        ``MAX_SUPPLIED_ROWS`` and ``MAX_SUPPLIED_BYTES`` (else RESULT_TOO_LARGE).

        Raises ``NotGranted`` with COLUMN_NOT_PERMITTED, GRANT_CONSTRAINT_UNKNOWN,
        UNKNOWN_DATASET_REVISION, EXECUTION_TIMEOUT, EXECUTION_FAILED, RESULT_TOO_LARGE (more
        rows or bytes than allowed: nothing is returned) or RESULT_INVALID. Cancelling the
        coroutine interrupts the query.
        """
        ...

    async def check(self, template: Template) -> None:
        """Bind the template once without arguments, its supplied relation empty. Raises ``TemplateError``."""
        ...

    async def close(self) -> None:
        """Interrupt what runs and release the engine."""
        ...
