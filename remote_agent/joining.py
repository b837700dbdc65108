"""A subscriber with a grant gets the rows of a running call: of the one execution, under an authority of its own.

    verify -> bind -> admit -> spend -> join -> recheck -> record -> seal -> release

It is the path of a call with another middle: nothing is found or run, the call that runs already
is waited for. Its rows were made under an authority; a subscriber whose own is not the same in
every respect that shapes rows gets none of them. Nothing here knows A2A, ADK or HTTP.
"""

from __future__ import annotations

from dataclasses import replace

from contract.authority import Authority
from contract.verdict import NotGranted, Reason
from remote_agent.accounting import accountable, describe, record, seal
from remote_agent.answer import bind, release, spend, verify
from remote_agent.believing import Basis
from remote_agent.deciding import admit, recheck
from remote_agent.limits import young_enough
from remote_agent.outcome import Answer, BoundCall, Request
from remote_agent.review import check_approver
from remote_agent.service import Service
from remote_agent.standing import same_rows
from remote_agent.trail import Trail
from remote_agent.underway import Underway


async def join(request: Request, joined: Underway, service: Service, underway: Underway) -> Answer:
    """Answer one subscription to the call ``joined``, whose bytes the request holds. Outcomes are values.

    ``underway`` learns that the subscription itself was accepted.
    """
    world, now = service.world, service.clock()
    basis = replace(Basis.of(request, service), world=None)  # its rows may be of another
    trail = Trail(request=request)

    async def path() -> Answer:
        trail.grant = underway.grant = grant = await verify(request, service, now)
        trail.call = call = with_review_of(joined, bind(request, grant, service.agent_id, world))
        trail.decision, authority = await admit(grant, call, world, now)
        check_same(authority, joined)
        await check_approver(call, service)
        await spend(authority, service, now)
        underway.accept(authority, call)
        ran = await joined.result()
        young_enough(call, ran.found.document, now)
        trail.supplied, trail.found = ran.supplied, ran.found
        await recheck(authority, ran.call, basis, service, ran.supplied)
        told = ran.found.told(service.clock())
        statement = describe(authority, ran.call, ran.supplied, told, request, service)
        receipt = await record(trail, service)
        envelope = await seal(statement, receipt, service)
        return release(authority, ran.call, told, receipt, envelope, service)

    with joined.used(lambda: service.spool.drop_unreleased(request.task_id)):
        try:
            return await accountable(path, trail, service)
        finally:
            underway.end(trail.decision)


def with_review_of(joined: Underway, call: BoundCall) -> BoundCall:
    """A subscriber waits for what was approved, and runs nothing: that approval settles their review, too.

    It was given to the person of the task, and ``check_same`` lets in nobody else.
    """
    return call if joined.call is None else replace(call, review=joined.call.review)


def check_same(authority: Authority, joined: Underway) -> None:
    """That rows made under the joined call's authority are exactly those of this one. Raises GRANT_WIDENED."""
    if not same_rows(joined.authority, authority):
        raise NotGranted(Reason.GRANT_WIDENED, "the grant is not for exactly what the task is run under")
