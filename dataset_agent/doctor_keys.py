"""The part of ``doctor`` that looks at keys: whether they open, whether they are pinned, and how old they are."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from cache.keys import load_keys
from contract.errors import DatasetAgentError
from contract.settings import Settings
from dataset_agent.cache_secret import list_secrets
from dataset_agent.finding import Finding, check
from grants.key_list import KeyRecord, KeyState, list_keys
from grants.key_store import KeyName, KeyStore
from grants.rotation import agent_of
from grants.signers import open_signer, outside_setting
from grants.trust import Trust, load_trust

_CHECKS: Final = {
    KeyName.ISSUER: "issuer key",
    KeyName.IDENTITY: "identity key",
    KeyName.ROOT: "root holder key",
    KeyName.REMOTE: "dataset agent key",
}


def check_keys(settings: Settings) -> Iterator[Finding]:
    """Every key of the roles that are here; another role's is absent, and nothing is wrong with that."""
    for name, told in _CHECKS.items():
        if is_here(settings, name):
            yield check(told, lambda name=name: _opened(settings, name))  # type: ignore[misc]
        elif name is not KeyName.IDENTITY:
            yield Finding(told, "absent", "only needed where that role runs: dataset-agent keys init")
    if is_here(settings, KeyName.REMOTE):
        yield _cache_secret(settings)
    yield from _rotation(settings, time.time())


def _cache_secret(settings: Settings) -> Finding:
    """Whether the secrets read, and how old the current one is."""
    name = "cache secret"
    try:
        found = list_secrets(settings, now=time.time())
    except DatasetAgentError as error:
        return Finding(name, "broken", str(error))
    if not found:
        return check(name, lambda: load_keys(settings))
    age = found[0].age_s
    told = None if age is None else f"{age // 86_400} days old" + (f", {len(found) - 1} before it" if found[1:] else "")
    return Finding(name, "ok", found[0].advice() or told or "")


def is_here(settings: Settings, name: KeyName) -> bool:
    """Whether the role that signs with this key runs in this home."""
    return KeyStore.of(settings, name).current.exists() or _outside(settings, name) is not None


def _outside(settings: Settings, name: KeyName) -> str | None:
    try:
        return outside_setting(settings, name)
    except DatasetAgentError:  # two sources: opening the key says which
        return "two"


def _opened(settings: Settings, name: KeyName) -> None:
    """As a process opens it; a signer that is elsewhere is made to sign."""
    ring = open_signer(settings, name)
    if ring.waits:
        ring.sign(b"dataset-agent doctor")


def _rotation(settings: Settings, now: float) -> Iterator[Finding]:
    """What a key waits for: to be pinned, to be rotated, to sign, to be retired."""
    try:
        trust = load_trust(settings.trust_path) if settings.trust_path.exists() else None
        found = [record for record in list_keys(settings, now=now) if record.source is not None]
    except DatasetAgentError:  # the checks above say what is wrong
        return
    records = [record for record in found if record.fault is None]  # of those too
    waiting = [finding for record in records if (finding := _finding(record, settings, trust, now)) is not None]
    yield from waiting
    if records and not waiting:
        yield Finding("key rotation", "ok")


def _finding(record: KeyRecord, settings: Settings, trust: Trust | None, now: float) -> Finding | None:
    name, advice = f"{record.state} {record.role} key", record.advice(now)
    if record.revoked and advice is not None:
        return Finding(name, "broken", advice or "it is revoked")
    if trust is not None and not record.pinned:
        return Finding(name, "broken", _not_pinned(record, settings, trust))
    agent = None if trust is None else trust.agent(agent_of(settings, record.role) or "")
    if record.state is KeyState.CURRENT and agent is not None and agent.key.thumbprint != record.kid:
        advice = f"trust.toml names another as the present one: bring the newest, or dataset-agent keys rotate --role {record.role}"
    return None if advice is None or trust is None else Finding(name, "ok", advice)


def _not_pinned(record: KeyRecord, settings: Settings, trust: Trust) -> str:
    agent = trust.agent(agent_of(settings, record.role) or "")
    if agent is not None:
        return f"trust.toml pins {agent.key.thumbprint} for {agent.id} and not this key: bring the newest trust.toml"
    issuer = trust.issuer(settings.issuer_url)
    if issuer is not None and issuer.keys:
        return f"trust.toml pins other keys for {issuer.url}: bring the newest trust.toml, or dataset-agent keys init"
    return "trust.toml does not pin it, so nothing it signs is believed: dataset-agent keys init"
