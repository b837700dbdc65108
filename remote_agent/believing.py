"""Whether a grant is believed: judged when it comes, and anew where the trust file was replaced while it was answered.

Who is believed is all that is judged anew: a grant's life governs its start, and was judged then.
"""

from __future__ import annotations

from dataclasses import dataclass

from contract.grant import VerifiedGrant
from contract.verdict import NotGranted, Reason
from grants.trust import Trust
from grants.verify import verify
from remote_agent.outcome import Request
from remote_agent.service import Service, World


@dataclass(frozen=True, slots=True)
class Basis:
    """A request, and what it is judged by: the trust file, the world, and the policies that its evaluator states.

    ``world`` is ``None`` where what is answered was made in another one, or may have been.
    """

    request: Request
    trust: Trust
    world: World | None
    policies: str

    @classmethod
    def of(cls, request: Request, service: Service) -> Basis:
        """What is in force now."""
        world = service.world
        return cls(request, service.trust, world, world.evaluator.version())

    def stands(self, service: Service) -> bool:
        """Whether it is in force still, all of it."""
        world = service.world
        return service.trust is self.trust and world is self.world and world.evaluator.version() == self.policies


async def believe(request: Request, service: Service, at: float) -> VerifiedGrant:
    """The grant in the header, for this receiver, this client and this operation, as it is valid ``at`` (POSIX seconds).

    By the trust file that is in force, and what its issuers publish. Raises ``NotGranted`` as ``grants.verify``,
    and GRANT_KEY_UNTRUSTED where the file has the client agent, who was let in by one before, no more.
    """
    trust, header = service.trust, request.grant_header()
    client = trust.agent(request.client)
    if client is None or not client.asks:
        raise NotGranted(Reason.GRANT_KEY_UNTRUSTED, "the agent that sent the grant is not trusted any more")
    return verify(
        header,
        trust=await service.published_keys.complete(trust, header, now=service.clock()),
        audience=service.agent_id,
        client=request.client,
        operation=request.operation,
        now=at,
    )


async def check_believed(basis: Basis, grant: VerifiedGrant, service: Service) -> None:
    """That who signed, holds and sent a grant that was believed is believed by what is in force when this returns.

    Raises ``NotGranted`` as ``believe``.
    """
    trust = basis.trust
    while service.trust is not trust:
        trust = service.trust
        # At the last instant at which each token of the chain is valid, whatever time it is: none ends before its leaf.
        await believe(basis.request, service, grant.leaf_expires_at - 1.0)
