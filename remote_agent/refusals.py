"""The only table of outward codes: how each reason that is not GRANTED leaves this agent.

A2A knows task states, people know hints, programs know whether to try again. A refusal is
an outcome: it is a rejected task, never a protocol error.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from contract.verdict import VERDICTS, Reason, Verdict


@dataclass(frozen=True, slots=True)
class Outward:
    """``state``: the A2A task state; ``retryable``: with a fresh leaf; ``hint``: what to do."""

    state: str
    retryable: bool
    hint: str

    def told(self, retry_after_s: float | None) -> dict[str, Any]:
        """The metadata of a stop; ``retry_after_s`` in whole seconds, where it is known."""
        told: dict[str, Any] = {"retryable": self.retryable, "hint": self.hint}
        return told if retry_after_s is None else told | {"retry_after_s": max(1, math.ceil(retry_after_s))}


_REJECTED: Final = "TASK_STATE_REJECTED"
_CANCELED: Final = "TASK_STATE_CANCELED"

_RETRY: Final = {
    Reason.GRANT_EXPIRED: "derive a fresh leaf, and a fresh root token if that expired, and send again",
    Reason.GRANT_REPLAYED: "a grant works once: derive a fresh leaf and send again",
    Reason.GRANT_NOT_YET_VALID: "check the clocks of both sides, then send again",
    Reason.UNKNOWN_DATASET_REVISION: "fetch the agent card again, admit again and send a grant for the current revision",
    Reason.EVALUATOR_UNAVAILABLE: "the policy evaluator cannot be reached: try again later",
    Reason.EVALUATOR_TIMEOUT: "the policy evaluator was too slow: try again later",
    Reason.STATE_UNAVAILABLE: "the state store cannot be reached: try again later",
    Reason.REPLAY_MEMORY_LOST: "the replay memory was lost: mint a new root token and send again",
    Reason.KEYS_UNAVAILABLE: "the issuer's keys cannot be fetched: try again later",
    Reason.RATE_LIMITED: "wait for the seconds of retry_after_s, then send the call again with a fresh grant",
    Reason.CONCURRENCY_LIMITED: "wait until calls of yours have ended, then send it again with a fresh grant",
    Reason.EXECUTION_TIMEOUT: "ask for less, or try again later",
    Reason.REMOTE_UNREACHABLE: "the dataset agent that completes this answer cannot be reached: try again later",
    Reason.REMOTE_UNAVAILABLE: "the dataset agent that completes this answer cannot answer now: try again later",
    Reason.REMOTE_TIMEOUT: "the dataset agent that completes this answer was too slow: try again later",
    Reason.RESULT_STORE_UNAVAILABLE: "large results cannot be kept or read now: try again later, or ask for less",
    Reason.EVIDENCE_UNAVAILABLE: "evidence cannot be written, so nothing leaves: try again later",
}

_HINTS: Final = {
    Reason.REVIEW_REQUIRED: "wait until a person approved it, then send the call again in this task, with a fresh grant",
    Reason.APPROVAL_EXPIRED: "send the call again without a task id, and ask for a new approval",
    Reason.APPROVAL_MISMATCH: "send exactly the call that was approved",
    Reason.APPROVAL_ALREADY_DECIDED: "an approval works once: send the call again without a task id to ask for another",
    Reason.NO_ACTIVE_GRANT: "send an execution grant in the Execution-Grant header",
    Reason.ARGUMENTS_INVALID: "send arguments as the capability's parameters on the agent card say",
    Reason.ARGUMENTS_MISSING: "say what is missing in the same task, with a fresh grant, or send the whole call",
    Reason.CALL_MALFORMED: 'send one raw JSON part {"dataset","capability","arguments"}',
    Reason.GRANT_OPERATION_MISMATCH: "derive a leaf for exactly the bytes you send",
    Reason.GRANT_WIDENED: "ask only for what the grant covers",
    Reason.BUDGET_EXCEEDED: "narrow the question: it would read more than the capability may",
    Reason.RESULT_TOO_LARGE: "narrow the question",
    Reason.RESULT_NOT_FOUND: "send the call again: a result waits for a while, at the agent that ran it",
}

_DEFAULT_HINT: Final = {
    Verdict.REFUSED: "this will not change by trying again",
    Verdict.INDETERMINATE: "the decision could not be made; nothing was run",
}


def _outward(reason: Reason) -> Outward:
    state = _CANCELED if reason is Reason.CANCELLED else _REJECTED
    hint = _RETRY.get(reason) or _HINTS.get(reason) or _DEFAULT_HINT[VERDICTS[reason]]
    return Outward(state=state, retryable=reason in _RETRY, hint=hint)


OUTWARD: Final[Mapping[Reason, Outward]] = MappingProxyType(
    {reason: _outward(reason) for reason in Reason if VERDICTS[reason] is not Verdict.GRANTED}
)
