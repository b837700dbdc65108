"""Whether a result that waits may still be had: judged when it is fetched, and while it is handed over.

What a call rests on is judged before its rows leave; a result that is fetched leaves piece by piece.
"""

from __future__ import annotations

from typing import Final

from contract.authority import Authority
from contract.call import Call
from contract.grant import VerifiedGrant
from contract.verdict import NotGranted, Reason
from remote_agent.believing import Basis, check_believed
from remote_agent.deciding import admit, person
from remote_agent.outcome import BoundCall
from remote_agent.service import Service, World
from remote_agent.spool import Held

_SAME: Final = (
    *("dataset", "dataset_version", "revision", "schema_version", "capability"),
    *("sensitivity", "rows", "columns", "masks"),
)


def standing(held: Held, grant: VerifiedGrant, agent_id: str, world: World) -> BoundCall:
    """The call that made the result, inside the fresh grant's scope, as this agent serves it now."""
    made = held.terms.authority
    scope = grant.scope_at(made.dataset, agent_id)
    if scope is None or made.capability not in scope.actions:
        raise NotGranted(Reason.GRANT_WIDENED, "the result would widen the grant")
    served = world.datasets.get(made.dataset)
    capability = served.capabilities.get(made.capability) if served else None
    # Its arguments are not needed any more, and not kept.
    call = Call(made.dataset, made.capability, {}, b"")
    return BoundCall(call, scope, person(grant, world), served, capability, None, review=held.terms.approved)


def check_terms(held: Held, authority: Authority, world: World) -> None:
    """That grant and policy give exactly what they gave when the result was made."""
    made = held.terms.authority
    served = world.datasets[authority.dataset].capabilities[authority.capability]
    if served.template.digest != held.terms.template_digest or any(
        getattr(made, name) != getattr(authority, name) for name in _SAME
    ):
        raise NotGranted(
            Reason.GRANT_WIDENED, "the result was made under another authorization than holds now: send the call again"
        )


async def still_standing(held: Held, grant: VerifiedGrant, basis: Basis, service: Service) -> Basis:
    """What is in force now, by which the grant is believed and gives exactly this result, as it was and did by ``basis``.

    Nothing is judged where that is the same. Raises ``NotGranted`` with the reason that holds now.
    """
    while not basis.stands(service):
        present, world = Basis.of(basis.request, service), service.world
        await check_believed(basis, grant, service)
        _, authority = await admit(grant, standing(held, grant, service.agent_id, world), world, service.clock())
        check_terms(held, authority, world)
        basis = present
    return basis
