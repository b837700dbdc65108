"""Keys that the trust file pins, as the commands look them up."""

from __future__ import annotations

from contract.errors import Category, Component, DatasetAgentError
from contract.settings import Settings
from grants.trust import TrustedAgent, load_trust


def audited_agent(settings: Settings, agent_id: str) -> TrustedAgent:
    """``pinned_agent`` for whoever audits: a trust file made here would pin keys that signed nothing."""
    if not settings.trust_path.exists():
        raise DatasetAgentError(
            Component.COMMAND,
            Category.CONFIGURATION,
            "command.trust.missing",
            f"there is no trust file at {settings.trust_path}: get trust.toml from the operator of the dataset agent, "
            "and name it with DATASET_AGENT_TRUST_FILE",
        )
    return pinned_agent(settings, agent_id)


def pinned_agent(settings: Settings, agent_id: str) -> TrustedAgent:
    """The agent as ``trust.toml`` pins it. Raises NOT_FOUND, naming those that are pinned."""
    trust = load_trust(settings.trust_path)
    agent = trust.agent(agent_id)
    if agent is None:
        known = ", ".join(sorted(trust.agents)) or "none"
        raise DatasetAgentError(
            Component.COMMAND,
            Category.NOT_FOUND,
            "command.agent.unknown",
            f"{settings.trust_path} pins no agent {agent_id}: name one that is in the file with --agent ({known})",
        )
    return agent
