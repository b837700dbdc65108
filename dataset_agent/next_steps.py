"""What a person at a terminal can do about an outcome that they, or whoever runs this, can change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from contract.verdict import Reason

_ADDRESS: Final = (
    "its address: DATASET_AGENT_URL for the agent that DATASET_AGENT_AGENT_ID names, trust.toml for every other"
)

ASK: Final[Mapping[Reason, str]] = {
    Reason.INTENT_NOT_UNDERSTOOD: "dataset-agent card lists what may be asked",
    Reason.MISSING_DESCRIPTOR: "dataset-agent card lists the datasets",
    Reason.UNREGISTERED_CAPABILITY: "dataset-agent card lists the capabilities",
    Reason.ARGUMENTS_INVALID: "dataset-agent card lists the parameters",
}
"""What whoever asks can do."""

MEND: Final[Mapping[Reason, str]] = {
    Reason.DESCRIPTOR_INVALID: "where it is served, dataset-agent doctor says what is wrong with it",
    Reason.REMOTE_UNREACHABLE: f"start it with dataset-agent serve, or correct {_ADDRESS}",
    Reason.REMOTE_UNAVAILABLE: "try again; where it runs, its log and dataset-agent doctor say what is away",
    Reason.REMOTE_CARD_INVALID: f"check the key that trust.toml pins for it, and {_ADDRESS}",
    Reason.EVALUATOR_UNAVAILABLE: "start it with dataset-agent policy serve, or correct DATASET_AGENT_POLICY_URL",
    Reason.STATE_UNAVAILABLE: "where the dataset is served, dataset-agent doctor says what is wrong",
}
"""What is mended where the decision was made."""

NO_TOOL: Final = "dataset-agent card names the tools that there are"
"""For a capability that is there, and was asked for by the door that it has not."""


def with_next(line: str, reason: Reason, *, elsewhere: bool = False, no_tool: bool = False) -> str:
    """The line, and what to do next where there is something to do.

    ``elsewhere``: the dataset agent decided; ``no_tool``: what is asked for is there, and only by the other door.
    """
    step = NO_TOOL if no_tool else ASK.get(reason) or MEND.get(reason)
    if step is None:
        return line
    place = "where that agent runs, " if elsewhere and reason in MEND and not step.startswith("where") else ""
    return f"{line.rstrip('.')}; next: {place}{step}"
