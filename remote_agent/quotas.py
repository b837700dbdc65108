"""The limits of callers here: of client agents at the door, of people on the request path, of both where the engine runs.

A client agent over its limit is answered before its request is read: 429, no row of evidence, a
counter. A person is known by a verified grant alone, and is told by an outcome that is recorded.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Protocol

from contract.authority import Authority
from contract.errors import Category, Component, DatasetAgentError
from contract.grant import VerifiedGrant
from contract.verdict import NotGranted, Reason
from quota.limiter import Caller, LimitExceeded
from quota.store import StoreUnavailable
from remote_agent.service import Service


class Client(Protocol):
    """An authenticated client agent, as the door knows it (``remote_agent.caller.Caller``)."""

    @property
    def agent(self) -> str: ...


_AWAY = "the store of the callers' limits does not answer"


def counting(service: Service) -> Callable[[Client], Awaitable[None]]:
    """For ``authentication.Gate``: one request of a client agent. Raises RATE_LIMITED.

    Where nobody can count, the path says so, by an outcome that is recorded: nothing is granted without the
    memory that lies beside the counts.
    """

    async def count(client: Client) -> None:
        try:
            await service.limiter.count(Caller.agent(client.agent, at=service.agent_id), now=service.clock())
        except LimitExceeded as over:
            raise DatasetAgentError(
                Component.REMOTE_AGENT,
                Category.RATE_LIMITED,
                "remote_agent.limit.rate",
                str(over),
                retry_after=over.retry_after_s,
            ) from None
        except StoreUnavailable:
            return

    return count


async def limit(grant: VerifiedGrant, service: Service, now: float) -> None:
    """One call of the person of a grant. Raises RATE_LIMITED, and STATE_UNAVAILABLE."""
    try:
        await service.limiter.count(_person(grant, service), now=now)
    except LimitExceeded as over:
        raise NotGranted(Reason.RATE_LIMITED, str(over), retry_after_s=over.retry_after_s) from None
    except StoreUnavailable:
        raise NotGranted(Reason.STATE_UNAVAILABLE, _AWAY) from None


@asynccontextmanager
async def executing(authority: Authority, service: Service) -> AsyncIterator[None]:
    """A place for one execution, of the person and of the agent that asks. Raises CONCURRENCY_LIMITED, STATE_UNAVAILABLE."""
    grant = authority.grant
    callers = [_person(grant, service), Caller.agent(grant.client, at=service.agent_id)]
    try:
        async with service.limiter.running(callers, clock=service.clock):
            yield
    except LimitExceeded as over:
        raise NotGranted(Reason.CONCURRENCY_LIMITED, str(over), retry_after_s=over.retry_after_s) from None
    except StoreUnavailable:
        raise NotGranted(Reason.STATE_UNAVAILABLE, _AWAY) from None


def _person(grant: VerifiedGrant, service: Service) -> Caller:
    return Caller.person(grant.issuer, grant.tenant, grant.subject, at=service.agent_id)
