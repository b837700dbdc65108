"""Whole results, made by the steps that the product takes: an engine's stream, written as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from contract.authority import Authority
from contract.call import RESULT_MEDIA_TYPE
from contract.result import Execution, ResultDocument
from contract.schema import ResultColumn
from contract.verdict import NotGranted, Reason
from queries.bind import Bound
from queries.encode import check_schema
from queries.engine import Engine
from queries.result_writer import result_writer
from queries.template import Template


async def run(
    engine: Engine,
    authority: Authority,
    template: Template,
    bound: Bound,
    *,
    max_rows: int,
    max_bytes: int,
    as_of: str,
    supplied: ResultDocument | None = None,
) -> tuple[ResultDocument, Execution]:
    """The document of a run, and the run. ``max_bytes`` bounds the batches and the document: more is RESULT_TOO_LARGE."""
    writer = result_writer(RESULT_MEDIA_TYPE, template.results, as_of)
    body, count = [writer.start()], 0
    async with engine.stream(
        authority, template, bound, max_rows=max_rows, max_bytes=max_bytes, supplied=supplied
    ) as rows:
        async for batch in rows:
            body += writer.add(batch)
            count += batch.num_rows
            if sum(map(len, body)) > max_bytes:
                raise NotGranted(Reason.RESULT_TOO_LARGE, "the result has more rows or bytes than allowed")
    body.append(writer.finish(row_count=count, truncated=False))
    if sum(map(len, body)) > max_bytes:
        raise NotGranted(Reason.RESULT_TOO_LARGE, "the result has more rows or bytes than allowed")
    return ResultDocument(b"".join(body), count, False, as_of), rows.execution


def document_of(results: Sequence[ResultColumn], batches: Iterable[pa.RecordBatch], as_of: str) -> ResultDocument:
    """The document of batches as some engine made them. Raises ``ResultInvalid``."""
    writer = result_writer(RESULT_MEDIA_TYPE, results, as_of)
    body, count = [writer.start()], 0
    for batch in batches:
        check_schema(results, batch.schema)
        body += writer.add(batch)
        count += batch.num_rows
    body.append(writer.finish(row_count=count, truncated=False))
    return ResultDocument(b"".join(body), count, False, as_of)
