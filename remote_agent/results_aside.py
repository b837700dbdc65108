"""The rows of a call whose sender does not wait for them: kept where large results wait, for whoever comes later."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

from contract.authority import Authority
from contract.result import ResultDocument, StoredResult
from contract.verdict import NotGranted
from remote_agent.cancelling import past_cancelling
from remote_agent.outcome import BoundCall, Found
from remote_agent.owners import Owner
from remote_agent.results_stored import ResultShape, stored_result
from remote_agent.service import Service
from remote_agent.spool import Spool, Terms, Writing
from remote_agent.spool_file import Sealed

log = logging.getLogger(__name__)


async def set_aside(authority: Authority, call: BoundCall, found: Found, service: Service) -> Found:
    """The same bytes, to be fetched under a fresh leaf for the task. As they are where nothing can be kept."""
    document = found.document
    if not isinstance(document, ResultDocument) or not service.spool.enabled:
        return found
    try:
        return replace(found, document=await past_cancelling(_written(authority, call, document, service)))
    except NotGranted as full:
        # Nobody waits for the rows, so the call does not fail for want of them: asked again, it is a cache hit.
        log.warning("a result is not kept for later: %s", full.reason.value)
        return found


async def _written(authority: Authority, call: BoundCall, document: ResultDocument, service: Service) -> StoredResult:
    """Nobody can fetch it before the answer that tells of it is released."""
    _, capability, _ = call.parts()
    terms = Terms(authority, capability.template.digest, call.approved)
    writing, sealed = await asyncio.to_thread(_write, service.spool, call.task_id, terms.owner, document.body)
    shape = ResultShape(document.media_type, document.row_count, document.truncated, document.as_of)
    stored = stored_result(service, sealed, shape)
    writing.keep(sealed, stored, terms)
    return stored


def _write(spool: Spool, result_id: str, owner: Owner, body: bytes) -> tuple[Writing, Sealed]:
    writing = spool.begin(result_id, owner)
    try:
        writing.write(body)
        return writing, writing.finish()
    except BaseException:
        writing.discard()
        raise
