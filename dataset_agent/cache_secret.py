"""The cache secrets as an operator sees them: which there are, how old each is, and a new one before the others."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal

from cache.keys import MAX_SECRETS, SECRET_BYTES, SECRET_FILE, CacheKeys, load_keys, read_secrets
from contract.errors import Category, Component, DatasetAgentError
from contract.settings import Settings
from grants.key_files import make_store, read_private, replace_private
from grants.key_list import ROTATE_AFTER
from grants.key_store import KeyName, KeyStore
from grants.trust_file import locked, trust_target

_SETTING: Final = "DATASET_AGENT_CACHE_SECRET"


@dataclass(frozen=True, slots=True)
class SecretRecord:
    """One cache secret by its kid. Instants are POSIX seconds; ``age_s`` counts from when it was made.

    ``current``: results are looked up and stored under it. ``earlier``: it only opens, for ``cache verify``.
    """

    kid: str
    state: Literal["current", "earlier"]
    source: str
    age_s: int | None
    created_at: int | None
    replaced_at: int | None

    def advice(self) -> str | None:
        """What an operator should do about it; ``None`` where nothing."""
        if self.state == "current" and self.age_s is not None and self.age_s > ROTATE_AFTER:
            return f"it is {self.age_s // 86_400} days old: dataset-agent keys rotate cache"
        return None

    def to_json(self) -> dict[str, Any]:
        """With the members of the other keys' records that say nothing here as ``None``."""
        none = dict.fromkeys(("pinned", "published_at", "revoked", "fault"))
        return {"role": "cache", **none, **asdict(self)}


def list_secrets(settings: Settings, *, now: float) -> list[SecretRecord]:
    """The cache secrets that are here, the current one first; none where there is no file and no setting.

    Raises ``cache.secret.*`` and ``grants.keys.history``.
    """
    path = _path(settings)
    if settings.cache_secret is None and not path.exists():
        return []
    keys = load_keys(settings)
    return list(_records(settings, keys, path, now))


def _records(settings: Settings, keys: tuple[CacheKeys, ...], path: Path, now: float) -> Iterator[SecretRecord]:
    outside = settings.cache_secret is not None
    store = KeyStore.of(settings, KeyName.REMOTE)
    for number, one in enumerate(keys):
        dates = store.dates(one.kid)
        created = dates.created_at
        if created is None and not outside and len(keys) == 1:
            created = int(path.stat().st_mtime)  # made by keys init, and never changed
        yield SecretRecord(
            kid=one.kid,
            state="earlier" if number else "current",
            source=_SETTING if outside else str(path),
            age_s=None if created is None else max(0, int(now - created)),
            created_at=created,
            replaced_at=dates.replaced_at,
        )


def rotate_secret(settings: Settings, *, now: float) -> tuple[str, tuple[str, ...]]:
    """A new secret before the others, of which the newest three are kept, in one step; its kid and theirs.

    Under the lock of the trust file, as every change of keys. Raises ``cache.secret.*``,
    ``grants.keys.*`` and ``grants.trust.*``; CONFIGURATION where the environment gives the secrets.
    """
    if settings.cache_secret is not None:
        told = (
            f"put a new secret of {2 * SECRET_BYTES} hex digits and a comma before what {_SETTING} holds, then reload"
        )
        raise _fault("in_environment", f"the environment gives the cache secrets: {told}")
    path, store = _path(settings), KeyStore.of(settings, KeyName.REMOTE)
    with locked(trust_target(settings.trust_path)):
        make_store(path.parent)
        held = read_secrets(read_private(path), str(path))
        made = secrets.token_bytes(SECRET_BYTES)
        kept = (made, *held)[:MAX_SECRETS]
        kids = tuple(CacheKeys.from_secret(secret).kid for secret in kept)
        # Written down first: after a crash nothing else would know.
        if store.dates(kids[1]).created_at is None and len(held) == 1:
            store.note(kids[1], created_at=int(path.stat().st_mtime))
        store.note(kids[1], replaced_at=int(now))
        store.note(kids[0], created_at=int(now))
        replace_private(path, "".join(f"{secret.hex()}\n" for secret in kept).encode())
    return kids[0], kids[1:]


def _path(settings: Settings) -> Path:
    return settings.remote_dir / SECRET_FILE


def _fault(code: str, message: str) -> DatasetAgentError:
    return DatasetAgentError(Component.COMMAND, Category.CONFIGURATION, f"command.cache_secret.{code}", message)
