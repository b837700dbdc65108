"""How often one person may ask this root agent. Executions are bounded where they are: at the dataset agents."""

from __future__ import annotations

from contract.errors import Category, Component, DatasetAgentError
from contract.verdict import NotGranted
from quota.limiter import Caller, LimitExceeded
from quota.store import StoreUnavailable
from root_agent.identity import RequestContext
from root_agent.service import Service


async def limit(person: RequestContext, service: Service) -> None:
    """One asking of a verified person. Raises ``DatasetAgentError`` RATE_LIMITED, and UNAVAILABLE."""
    caller = Caller.person(person.issuer, "", person.subject, at=service.root_id)
    try:
        await service.limiter.count(caller, now=service.clock())
    except LimitExceeded as over:
        raise _fault(Category.RATE_LIMITED, "rate", str(over), over.retry_after_s) from None
    except StoreUnavailable:
        told = "the store of the callers' limits does not answer: try again later"
        raise _fault(Category.UNAVAILABLE, "unavailable", told, 1.0) from None


def too_many(stop: NotGranted) -> DatasetAgentError:
    """The answer to a person of whom as many askings are under way as leave room for others."""
    return _fault(Category.RATE_LIMITED, "under_way", stop.message, stop.retry_after_s or 1.0)


def _fault(category: Category, code: str, message: str, retry_after: float) -> DatasetAgentError:
    return DatasetAgentError(
        Component.ROOT_AGENT, category, f"root_agent.limit.{code}", message, retry_after=retry_after
    )
