"""What a result may have at most as its capability is served now, however it was come by."""

from __future__ import annotations

from contract.result import Limits, Result, ResultDocument
from remote_agent.outcome import BoundCall
from remote_agent.service import Service
from remote_agent.spool import too_large


def inline_limits(call: BoundCall, service: Service) -> Limits:
    """Of a result that is sent with its answer: the rows are the publisher's, the bytes this agent's."""
    return Limits(call.place()[1].descriptor.max_rows, service.max_result_bytes)


def limits_of(call: BoundCall, result: Result, service: Service) -> Limits:
    """Of this result, sent or to be fetched: what its statement says that it was held to."""
    inline = inline_limits(call, service)
    return inline if isinstance(result, ResultDocument) else Limits(inline.max_rows, service.spool.max_result_bytes)


def judged(call: BoundCall, result: Result, service: Service) -> Limits:
    """The limits that ``result`` is within. Raises RESULT_TOO_LARGE beyond them, whoever made it and when."""
    limits = limits_of(call, result, service)
    if not limits.hold(result):
        raise too_large()
    return limits
