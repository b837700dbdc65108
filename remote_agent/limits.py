"""What a result may have at most as its capability is served now, however it was come by."""

from __future__ import annotations

from contract.result import Limits, Result, ResultDocument, instant
from contract.verdict import NotGranted, Reason
from control_plane.admission_rules import FRESHNESS
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


def young_enough(call: BoundCall, result: Result, now: float) -> None:
    """That rows are no older than the capability allows, of whatever instant the descriptor is that was decided about.

    They may rest on older ones of another agent, or be made before what is served was of that instant. ``now`` is
    when it was decided (POSIX seconds). Raises FRESHNESS_UNSATISFIABLE.
    """
    required = call.place()[1].descriptor.freshness_requirement_s
    if required is not None and now - instant(result.as_of).timestamp() > required:
        told = "the rows, or what they rest on, are older than the capability allows"
        raise NotGranted(Reason.FRESHNESS_UNSATISFIABLE, told, policy_id=FRESHNESS.policy_id)
