"""Discovery under the policies in force: what they refuse to a person takes no slot either.

The index leaves out what the directory says a person may not use. What policies say is asked here,
best first and before anything is cut to the limit, of no more datasets than are needed to fill it.
Only a refusal leaves a capability out: what nobody could decide is shown, and admission says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from contract.principal import Principal
from contract.verdict import Reason
from control_plane.admission import AdmissionRequest, decide
from control_plane.discovery import Candidate, Discovery, DiscoveryIndex
from control_plane.evaluator import Evaluator, InProcessEvaluator

AT_ONCE: Final = 16
"""Questions that a policy server is asked at the same time."""
MAX_LOOKED_AT: Final = 100
"""Datasets that policies are asked about for one question; what is found after that many is not shown."""
_GROWTH: Final = 4
_UNRECORDED: Final = "discovery"
"""Instead of an id: nothing is admitted by these decisions, and none is kept."""
_UNDECIDED: Final = frozenset({Reason.EVALUATOR_UNAVAILABLE, Reason.EVALUATOR_TIMEOUT})
_MAY_NOT: Final = frozenset(
    {
        Reason.INSUFFICIENT_PRIVILEGE,
        Reason.CLASSIFICATION_EXCEEDS_CLEARANCE,
        Reason.EFFECT_NOT_PERMITTED,
        Reason.PROHIBITED_OPERATION,
    }
)
"""Reasons that are about the person. Data that are too old, or a review that is due, take nothing from them."""

Ask = Callable[[Candidate, str], AdmissionRequest]
"""What is decided about one capability of a candidate."""


async def discover_admitted(
    index: DiscoveryIndex,
    question: str,
    principal: Principal,
    evaluator: Evaluator,
    policy_version: str,
    now: float,
    *,
    limit: int,
) -> Discovery:
    """The ``limit`` best entries of which the policies leave something; ``now`` is POSIX seconds.

    ``admissible`` of the funnel counts what the directory permits, less what policies were found to refuse.
    """

    def request(candidate: Candidate, capability: str) -> AdmissionRequest:
        descriptor = candidate.entry.descriptor
        return AdmissionRequest(
            principal, descriptor.dataset, capability, descriptor, policy_version, now, decision_id=_UNRECORDED
        )

    asking = _Asking(evaluator, request)
    most = max(limit, MAX_LOOKED_AT)
    size = limit
    while True:
        found = index.discover(question, principal, limit=size)
        left = await asking.left_of(found.candidates)
        kept = [item for item in left if item.capabilities]
        if len(kept) >= limit or len(left) < size or size >= most:
            break
        size = min(size * _GROWTH, most)
    refused, kept = len(left) - len(kept), kept[:limit]
    funnel = replace(
        found.funnel,
        admissible=found.funnel.admissible - refused,
        capabilities=sum(len(item.capabilities) for item in kept),
        shown=len(kept),
    )
    return Discovery(tuple(kept), funnel)


class _Asking:
    """The decisions of one discovery, each made once; none any more when one could not be made."""

    def __init__(self, evaluator: Evaluator, request: Ask) -> None:
        self._evaluator = evaluator
        self._request = request
        self._gate = asyncio.Semaphore(AT_ONCE)
        self._may: dict[tuple[str, str, str], bool] = {}
        self._undecided = False

    async def left_of(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Each candidate with just the capabilities that the policies do not refuse, in its order."""
        new = [(item, name) for item in candidates for name in item.capabilities if _place(item, name) not in self._may]
        if isinstance(self._evaluator, InProcessEvaluator):
            for item, name in new:  # nothing is waited for, so tasks would only cost
                await self._decide(item, name)
        else:
            await asyncio.gather(*(self._gated(item, name) for item, name in new))
        return [
            replace(item, capabilities=tuple(name for name in item.capabilities if self._may[_place(item, name)]))
            for item in candidates
        ]

    async def _gated(self, candidate: Candidate, capability: str) -> None:
        async with self._gate:
            await self._decide(candidate, capability)

    async def _decide(self, candidate: Candidate, capability: str) -> None:
        if self._undecided:  # a server that is away is waited for once, and once more by admission
            self._may[_place(candidate, capability)] = True
            return
        decision = await decide(self._request(candidate, capability), self._evaluator)
        self._undecided = self._undecided or decision.reason in _UNDECIDED
        self._may[_place(candidate, capability)] = decision.reason not in _MAY_NOT


def _place(candidate: Candidate, capability: str) -> tuple[str, str, str]:
    return candidate.entry.agent_id, candidate.entry.descriptor.dataset, capability
