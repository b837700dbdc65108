"""``keys init``: a separate private store for each role, and the public file that pins what is in them."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from contract.settings import Settings
from contract.signing import PublicKey
from grants.key_files import FileSigner, key_fault, make_store, read_private, replace_private
from grants.key_store import KeyName, KeyStore
from grants.signers import open_signer, outside_setting, outside_signer
from grants.trust_editor import TrustEditor, edit_trust

Role = Literal["issuer", "root", "remote"]
ROLES: Final[tuple[Role, ...]] = ("issuer", "root", "remote")
CACHE_SECRET: Final = "cache.secret"  # noqa: S105 - a file name

SHIPPED_TENANTS: Final = frozenset({"acme"})
SHIPPED_SUBJECT_PREFIX: Final = "u-"
_NAMES: Final[dict[Role, tuple[KeyName, ...]]] = {
    "issuer": (KeyName.ISSUER, KeyName.IDENTITY),
    "root": (KeyName.ROOT,),
    "remote": (KeyName.REMOTE,),
}


@dataclass(frozen=True, slots=True)
class KeysReport:
    """What ``keys init`` did. ``public`` maps a key file to the kid of its public key.

    ``outside`` maps a setting that gives a key instead of a file to the kid of that one.
    """

    trust: Path
    created: tuple[Path, ...]
    kept: tuple[Path, ...]
    public: dict[Path, str]
    outside: dict[str, str] = field(default_factory=dict)


def init_keys(settings: Settings, *, force: bool = False, roles: Sequence[Role] = ROLES) -> KeysReport:
    """Make what is missing of the roles' private stores and enter their public keys in ``trust.toml``.

    Existing keys are kept, so running it again changes nothing; ``force`` replaces the
    keys of ``roles``, staged and replaced ones too, and revokes the old ones; an agent's
    old public key stays as a retired one, with which its ledger still verifies. A key that
    the environment gives is entered and no file is made. Roles may be initialised by
    different processes, each with its own store and one shared ``trust.toml``: what the
    others entered is kept. Where a key may not be entered nothing is changed. Raises
    ``grants.keys.*`` and ``grants.trust.*``.
    """
    if unknown := set(roles) - set(ROLES):
        raise key_fault("role", f"unknown role {sorted(unknown)[0]!r}; use issuer, root or remote")
    with edit_trust(settings.trust_path) as trust:
        made = _Made(settings, trust)
        for name in (name for role in ROLES if role in roles for name in _NAMES[role]):
            made.key(name, force=force)
        if "remote" in roles:
            made.cache_secret(force=force)
        _enter(settings, trust, made.keys, withdraw=force)
    return KeysReport(
        trust=settings.trust_path,
        created=tuple(made.created),
        kept=tuple(made.kept),
        public={path: key.thumbprint for path, key in made.files.items()},
        outside={setting: key.thumbprint for setting, key in made.outside.items()},
    )


class _Made:
    """What a run makes and what it found; files are written when the trust file is known to load."""

    def __init__(self, settings: Settings, trust: TrustEditor) -> None:
        self._settings = settings
        self._trust = trust
        self.created: list[Path] = []
        self.kept: list[Path] = []
        self.keys: dict[KeyName, PublicKey] = {}
        self.files: dict[Path, PublicKey] = {}
        self.outside: dict[str, PublicKey] = {}

    def key(self, name: KeyName, *, force: bool) -> None:
        store, setting = KeyStore.of(self._settings, name), outside_setting(self._settings, name)
        if setting is not None:
            self.keys[name] = self.outside[setting] = self._outside(name, store, force=force)
        elif store.current.exists() and not force:
            self.keys[name] = self.files[store.current] = FileSigner.load(store.current).public_key
            self.kept.append(store.current)
        else:
            self.keys[name] = self.files[store.current] = self._new(store)
            self.created.append(store.current)

    def _outside(self, name: KeyName, store: KeyStore, *, force: bool) -> PublicKey:
        """Raises ``grants.keys.two_sources`` where a file would stay beside the setting."""
        outside = outside_signer(self._settings, name) if force else None
        if outside is None:
            return open_signer(self._settings, name).public_key
        self._trust.before.add(store.forget)
        return outside.public_key

    def _new(self, store: KeyStore) -> PublicKey:
        make_store(store.folder)
        signer, now = FileSigner.new(), int(time.time())
        kid = signer.public_key.thumbprint
        self._trust.before.add(lambda: store.begin_with(signer))
        self._trust.before.add(lambda: store.note(kid, created_at=now, published_at=now))
        return signer.public_key

    def cache_secret(self, *, force: bool) -> None:
        path = self._settings.remote_dir / CACHE_SECRET
        if path.exists() and not force:
            read_private(path)
            self.kept.append(path)
            return
        make_store(path.parent)
        self._trust.before.add(lambda: replace_private(path, secrets.token_hex(32).encode() + b"\n"))
        self.created.append(path)


def _enter(settings: Settings, trust: TrustEditor, keys: dict[KeyName, PublicKey], *, withdraw: bool) -> None:
    if KeyName.ISSUER in keys:
        trust.enter_issuer(
            settings.issuer_url,
            key=keys[KeyName.ISSUER],
            identity_key=keys[KeyName.IDENTITY],
            tenants=SHIPPED_TENANTS,
            subject_prefix=SHIPPED_SUBJECT_PREFIX,
            withdraw=withdraw,
        )
    if KeyName.ROOT in keys:
        trust.enter_agent(settings.root_id, settings.root_url, keys[KeyName.ROOT], withdraw=withdraw)
    if KeyName.REMOTE in keys:
        url = settings.public_url or settings.url
        trust.enter_agent(settings.agent_id, url, keys[KeyName.REMOTE], withdraw=withdraw)
