"""The part of ``doctor`` that looks at whom this side believes: which datasets the agents serve that it asks."""

from __future__ import annotations

from collections.abc import Iterator

from contract.errors import DatasetAgentError
from contract.settings import Settings
from control_plane.descriptor import Delegation
from control_plane.registry import load_registry
from dataset_agent.doctor_keys import is_here
from dataset_agent.finding import Finding
from grants.key_store import KeyName
from grants.trust import Trust, load_trust
from root_agent.opening import dataset_agents


def check_trust(settings: Settings) -> Iterator[Finding]:
    """What a root agent asks, and what the served capabilities ask, where those roles are here."""
    try:
        trust = load_trust(settings.trust_path)
        if is_here(settings, KeyName.ROOT):
            yield from _unlisted(settings, trust)
        if is_here(settings, KeyName.REMOTE):
            yield from _delegations(settings, trust)
    except DatasetAgentError:  # the other checks say what is wrong with the file, or with the datasets folder
        return


def _unlisted(settings: Settings, trust: Trust) -> Iterator[Finding]:
    """A root agent believes nothing of an agent without a list, where it asks more than one."""
    agents = dataset_agents(settings, trust)
    for agent, _ in agents:
        if len(agents) > 1 and agent.datasets is None:
            advice = 'name them in trust.toml (datasets = ["..."]; [] if it only asks): until then it is believed none'
            yield Finding(f"datasets of {agent.id}", "broken", advice)


def _delegations(settings: Settings, trust: Trust) -> Iterator[Finding]:
    for manifest in load_registry(settings.datasets).datasets.values():
        for capability in manifest.capabilities:
            if capability.delegates is not None:
                name = f"delegation of {manifest.dataset} {capability.name}"
                yield _delegation(name, capability.delegates, trust)


def _delegation(name: str, asked: Delegation, trust: Trust) -> Finding:
    agent = trust.agent(asked.agent)
    if agent is None:
        return Finding(name, "broken", f"trust.toml pins no key for {asked.agent}, which it asks: get its entry")
    if agent.datasets is None:
        return Finding(name, "ok", f"name in trust.toml the datasets that {asked.agent} serves; it is believed any")
    if asked.dataset not in agent.datasets:
        return Finding(name, "broken", f"trust.toml does not list {asked.dataset} for {asked.agent}, which it asks")
    return Finding(name, "ok")
