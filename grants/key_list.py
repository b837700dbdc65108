"""Which keys there are, what state each is in, and which of them need attention."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from contract.errors import DatasetAgentError
from contract.settings import Settings
from contract.signing import PublicKey, Signer
from grants.key_files import FileSigner
from grants.key_store import KeyName, KeyStore
from grants.rotation import AHEAD, RETIRE_AFTER, accepted_keys, agent_of
from grants.signers import outside_setting, outside_signer
from grants.trust import Trust, load_trust

ROTATE_AFTER: Final = 90 * 86_400
"""Seconds after which a key that signs is called old."""
FORGOTTEN_AFTER: Final = 7 * 86_400
"""Seconds after which a change of keys that nobody went on with is called unfinished."""


_AWAY: Final = frozenset({"grants.keys.signer", "grants.signer.unavailable"})


class KeyState(StrEnum):
    CURRENT = "current"
    """It signs."""
    STAGED = "staged"
    """It is published and will sign."""
    REPLACED = "replaced"
    """It signed, and is accepted until it is retired."""
    ACCEPTED = "accepted"
    """The trust file accepts it, and this store knows nothing of it."""
    RETIRED = "retired"
    """An agent's, for what is kept, offline."""


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """One key. Instants are POSIX seconds; ``source`` is a file or a setting, ``None`` where only its pin is here.

    ``pinned``: the trust file has it. ``revoked``: it says that nothing is believed by it
    again. ``age_s`` counts from when it was made. ``fault``: the signer that has it cannot be
    asked now, so that it is this key is what the trust file says.
    """

    role: KeyName
    kid: str
    state: KeyState
    source: str | None
    pinned: bool
    age_s: int | None = None
    created_at: int | None = None
    published_at: int | None = None
    replaced_at: int | None = None
    revoked: bool = False
    fault: str | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def advice(self, now: float) -> str | None:
        """What an operator should do about it; ``None`` where nothing."""
        if self.fault is not None:
            return self.fault
        if self.revoked and self.state is not KeyState.RETIRED:
            return self._revoked()
        if not self.pinned and self.state is not KeyState.RETIRED:
            return "it is not in trust.toml, so nothing it signs is believed: dataset-agent keys init"
        if self.state is KeyState.CURRENT and self.age_s is not None and self.age_s > ROTATE_AFTER:
            return f"it is {self.age_s // 86_400} days old: dataset-agent keys rotate --role {self.role} --stage"
        if self.state is KeyState.STAGED and self.published_at is not None:
            return self._staged(now - self.published_at)
        if self.state is KeyState.REPLACED and self.replaced_at is not None:
            return self._replaced(now - self.replaced_at)
        return None

    def _revoked(self) -> str:
        if self.state is KeyState.CURRENT:
            step = f"dataset-agent keys rotate --role {self.role} --now"
            return f"trust.toml revokes it, so nothing it signs is believed: {step}"
        return f"trust.toml revokes it: dataset-agent keys retire --role {self.role} --force {self.kid}"

    def _staged(self, age: float) -> str | None:
        step = f"dataset-agent keys rotate --role {self.role}"
        if age > FORGOTTEN_AFTER:
            return f"it was staged {age // 86_400:.0f} days ago and does not sign: {step}"
        return f"it may sign: {step}" if age >= AHEAD else None

    def _replaced(self, age: float) -> str | None:
        if age < RETIRE_AFTER[self.role]:
            return None
        late = f" ({age // 86_400:.0f} days ago)" if age > FORGOTTEN_AFTER else ""
        return f"it was replaced{late} and is still accepted: dataset-agent keys retire --role {self.role} {self.kid}"


def list_keys(settings: Settings, *, now: float) -> list[KeyRecord]:
    """Every key of the stores that are here and of the trust file; a signer that is away hides only its own.

    Raises ``grants.keys.*``, ``grants.trust.*``.
    """
    trust = load_trust(settings.trust_path) if settings.trust_path.exists() else Trust({}, {})
    return [record for name in KeyName for record in _keys_of(settings, name, trust, now)]


def _keys_of(settings: Settings, name: KeyName, trust: Trust, now: float) -> Iterator[KeyRecord]:
    accepted = accepted_keys(settings, name, trust)
    agent = trust.agent(agent_of(settings, name) or "")
    retired = () if agent is None else agent.retired_keys
    seen: set[str] = set()

    def record(key: PublicKey, state: KeyState, source: str | None, made: float | None = None) -> KeyRecord:
        seen.add(key.thumbprint)
        dates = KeyStore.of(settings, name).dates(key.thumbprint)
        created = dates.created_at if dates.created_at is not None or made is None else int(made)
        age = None if created is None else max(0, int(now - created))
        pinned = key in accepted or key in retired
        told = (dates.published_at, dates.replaced_at)
        revoked = key.thumbprint in trust.revoked_keys
        return KeyRecord(name, key.thumbprint, state, source, pinned, age, created, *told, revoked)

    for path, state in _private_halves(KeyStore.of(settings, name)):
        key = FileSigner.load(path).public_key
        yield record(key, state, str(path), path.stat().st_mtime)
    outside, away = _outside(settings, name)
    if outside is not None and outside.public_key.thumbprint not in seen:
        staged = agent is not None and outside.public_key in agent.further_keys
        yield record(
            outside.public_key, KeyState.STAGED if staged else KeyState.CURRENT, outside_setting(settings, name)
        )
    if away is not None:
        pinned = next((key for key in accepted if key.thumbprint not in seen), None)
        held = KeyRecord(name, "unknown", KeyState.CURRENT, None, False)
        held = held if pinned is None else record(pinned, KeyState.CURRENT, None)
        yield replace(held, source=outside_setting(settings, name), fault=away)
    for key in accepted:
        if key.thumbprint not in seen:
            yield record(key, _pinned_state(settings, name, key, agent is not None and key == agent.key), None)
    for key in retired:
        yield record(key, KeyState.RETIRED, None)


def _outside(settings: Settings, name: KeyName) -> tuple[Signer | None, str | None]:
    """The signer that the environment gives, or why it cannot be had now."""
    try:
        return outside_signer(settings, name), None
    except DatasetAgentError as error:
        if error.code not in _AWAY:
            raise
        return None, error.message


def _private_halves(store: KeyStore) -> Iterator[tuple[Path, KeyState]]:
    if store.current.exists():
        yield store.current, KeyState.CURRENT
    if store.staged.exists():
        yield store.staged, KeyState.STAGED
    for path in store.replaced():
        yield path, KeyState.REPLACED


def _pinned_state(settings: Settings, name: KeyName, key: PublicKey, signs: bool) -> KeyState:
    if signs:
        return KeyState.CURRENT
    replaced = KeyStore.of(settings, name).dates(key.thumbprint).replaced_at is not None
    return KeyState.REPLACED if replaced else KeyState.ACCEPTED
