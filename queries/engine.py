"""What an engine promises: run a loaded template for one authority, or raise with a fixed text."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from contract.authority import Authority
from contract.result import Execution, ResultDocument
from contract.verdict import NotGranted, Reason
from queries.bind import Bound
from queries.template import Template


class Stream(Protocol):
    """The rows of one running query, in the query's order, as Arrow batches that are read once."""

    @property
    def schema(self) -> pa.Schema:
        """``arrow_schema(template.results)``: the schema of every batch, also where there is none."""
        ...

    @property
    def execution(self) -> Execution:
        """The run that ended, by its last batch or by being left. Raises ``RuntimeError`` before that."""
        ...

    def __aiter__(self) -> AsyncIterator[pa.RecordBatch]:
        """Batches that are not empty, each a few MiB at most where rows are small.

        The next one is made while the reader has the last, and none beyond it: memory does not
        grow with the rows. Raises ``NotGranted`` as ``Engine.stream`` does; what was yielded
        before is then no result.
        """
        ...


@dataclass(frozen=True, slots=True)
class Load:
    """What an engine has to do just now: queries that run, or wait for their turn, and the processes it has for some."""

    queries: int
    workers: int = 0


class Engine(Protocol):
    """Runs templates of one dataset version. Texts of ``NotGranted`` never hold an engine's message."""

    @property
    def load(self) -> Load:
        """For its operator."""
        ...

    def stream(
        self,
        authority: Authority,
        template: Template,
        bound: Bound,
        *,
        max_rows: int,
        max_bytes: int,
        supplied: ResultDocument | None = None,
    ) -> AbstractAsyncContextManager[Stream]:
        """Run the template, governed by ``authority``.

            async with engine.stream(authority, template, bound, max_rows=n, max_bytes=m) as rows:
                async for batch in rows:
                    ...
            rows.execution

        ``supplied`` is the result that the template's supplied relation stands for: there exactly
        where the template declares one (else EXECUTION_FAILED), of the declared columns (else
        RESULT_INVALID), within ``MAX_SUPPLIED_ROWS`` and ``MAX_SUPPLIED_BYTES`` (else
        RESULT_TOO_LARGE).

        Every batch was checked: columns, types, REQUIRED, elements of arrays, finite FLOAT64,
        years. Within the bounds everything is yielded; one row or
        byte (of the batches in Arrow's memory form) more raises RESULT_TOO_LARGE. Who wants
        the first rows only bounds none, reads those and leaves. The time limit runs from entering to the
        last batch, a slow reader's time included. Leaving the block, by an exception, a
        ``break`` or a cancellation, stops the query before the block is left.

        Raises ``NotGranted`` with COLUMN_NOT_PERMITTED, GRANT_CONSTRAINT_UNKNOWN,
        UNKNOWN_DATASET_REVISION, EXECUTION_TIMEOUT, EXECUTION_FAILED, RESULT_TOO_LARGE or
        RESULT_INVALID.
        """
        ...

    async def check(self, template: Template) -> None:
        """Bind the template once without arguments, its supplied relation empty. Raises ``TemplateError``."""
        ...

    async def close(self) -> None:
        """Interrupt what runs and release the engine."""
        ...


def check_version(authority: Authority, dataset: str, version: str, revision: str | None) -> None:
    """Raise ``NotGranted(UNKNOWN_DATASET_REVISION)`` unless an authority is for what an engine holds."""
    same = authority.dataset == dataset and authority.dataset_version == version
    if not same or (revision is not None and authority.revision != revision):
        raise NotGranted(Reason.UNKNOWN_DATASET_REVISION, "the engine holds another revision of the dataset")
