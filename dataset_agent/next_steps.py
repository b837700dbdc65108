"""What a person at a terminal can do about an outcome that they, or whoever runs this, can change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from contract.verdict import Reason

NEXT: Final[Mapping[Reason, str]] = {
    Reason.INTENT_NOT_UNDERSTOOD: "dataset-agent card lists what may be asked",
    Reason.MISSING_DESCRIPTOR: "dataset-agent card lists the datasets",
    Reason.UNREGISTERED_CAPABILITY: "dataset-agent card lists the capabilities",
    Reason.DESCRIPTOR_INVALID: "where it is served, dataset-agent doctor says what is wrong with it",
    Reason.ARGUMENTS_INVALID: "dataset-agent card lists the parameters",
    Reason.REMOTE_UNREACHABLE: "start it with dataset-agent serve, or set DATASET_AGENT_URL",
    Reason.REMOTE_CARD_INVALID: "check DATASET_AGENT_URL and the key that trust.toml pins",
    Reason.EVALUATOR_UNAVAILABLE: "start it with dataset-agent policy serve, or correct DATASET_AGENT_POLICY_URL",
    Reason.STATE_UNAVAILABLE: "where the dataset is served, dataset-agent doctor says what is wrong",
}


def with_next(line: str, reason: Reason) -> str:
    """The line, and what to do next where there is something to do."""
    step = NEXT.get(reason)
    return line if step is None else f"{line.rstrip('.')}; next: {step}"
