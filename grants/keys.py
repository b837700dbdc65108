"""Private keys in files, and ``keys init``: a separate private store for each role.

A store is a directory of mode 0700; a key is a private JWK (RFC 8037) in a file of mode 0600.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from contract.canonical import InvalidJson, b64url, canonical_json, parse_json, unb64url
from contract.errors import Category, Component, DatasetAgentError
from contract.settings import Settings
from contract.signing import PublicKey
from grants.trust_editor import edit_trust

Role = Literal["issuer", "root", "remote"]
ROLES: Final[tuple[Role, ...]] = ("issuer", "root", "remote")
GRANT_KEY: Final = "grant.jwk"
IDENTITY_KEY: Final = "identity.jwk"
HOLDER_KEY: Final = "holder.jwk"
AGENT_KEY: Final = "agent.jwk"
CACHE_SECRET: Final = "cache.secret"  # noqa: S105 - a file name

SHIPPED_TENANTS: Final = frozenset({"acme"})
SHIPPED_SUBJECT_PREFIX: Final = "u-"
MAX_KEY_BYTES: Final = 4_096


class FileSigner:
    """An Ed25519 private key read from a file; a ``contract.signing.Signer``."""

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private
        self._public = PublicKey(private.public_key().public_bytes_raw())

    @property
    def public_key(self) -> PublicKey:
        return self._public

    def sign(self, message: bytes) -> bytes:
        return self._private.sign(message)

    def __repr__(self) -> str:
        return f"FileSigner(kid={self._public.thumbprint!r})"

    @classmethod
    def generate(cls, path: Path) -> FileSigner:
        """Make a key and store it. Raises ``grants.keys.exists``, ``grants.keys.permissions``."""
        signer = cls(Ed25519PrivateKey.generate())
        _make_store(path.parent)
        _write_private(path, canonical_json(signer._private_jwk()) + b"\n", replace=False)
        return signer

    @classmethod
    def load(cls, path: Path) -> FileSigner:
        """Read a key that only its owner can read.

        Raises ``grants.keys.missing``, ``grants.keys.permissions`` or ``grants.keys.invalid``.
        """
        data = read_private(path)
        try:
            jwk = parse_json(data, limit=MAX_KEY_BYTES)
            if not isinstance(jwk, dict) or not isinstance(jwk.get("d"), str):
                raise ValueError("not a private JWK")
            signer = cls(Ed25519PrivateKey.from_private_bytes(unb64url(jwk["d"])))
            public = PublicKey.from_jwk({name: value for name, value in jwk.items() if name != "d"})
            if public != signer.public_key:
                raise ValueError("its public part is another key's")
        except (InvalidJson, ValueError) as error:
            raise _fault("invalid", f"{path} is not an Ed25519 private JWK; restore it or make a new key") from error
        return signer

    def _private_jwk(self) -> dict[str, str]:
        return {**self._public.jwk(), "d": b64url(self._private.private_bytes_raw())}


def read_private(path: Path) -> bytes:
    """The bytes of a private file, refused where anyone but its owner could read it.

    Raises ``grants.keys.missing`` or ``grants.keys.permissions``.
    """
    try:
        for place, mode in ((path.parent, "700"), (path, "600")):
            if stat.S_IMODE(place.stat().st_mode) & 0o077:
                raise _fault("permissions", f"{place} is open to others; run: chmod {mode} {place}")
        return path.read_bytes()
    except FileNotFoundError as error:
        raise _fault("missing", f"there is no key at {path}; run: dataset-agent keys init") from error
    except OSError as error:
        raise _fault("permissions", f"{path} cannot be read: {error.strerror}; run it as the key's owner") from error


@dataclass(frozen=True, slots=True)
class KeysReport:
    """What ``keys init`` did. ``public`` maps a key file to the kid of its public key."""

    trust: Path
    created: tuple[Path, ...]
    kept: tuple[Path, ...]
    public: dict[Path, str]


def init_keys(settings: Settings, *, force: bool = False, roles: Sequence[Role] = ROLES) -> KeysReport:
    """Make what is missing of the roles' private stores and enter their public keys in ``trust.toml``.

    Existing keys are kept, so running it again changes nothing; ``force`` replaces the
    keys of ``roles`` and withdraws the old ones; an agent's old public key stays as a
    retired one, with which its ledger still verifies. Roles may be initialised by
    different processes, each with its own store and one shared ``trust.toml``: what the
    others entered is kept.
    """
    if unknown := set(roles) - set(ROLES):
        raise _fault("role", f"unknown role {sorted(unknown)[0]!r}; use issuer, root or remote")
    created: list[Path] = []
    kept: list[Path] = []
    signers: dict[Path, FileSigner] = {}
    for path in _key_files(settings, roles):
        if force:
            path.unlink(missing_ok=True)
        if path.exists():
            kept.append(path)
            signers[path] = FileSigner.load(path)
        else:
            signers[path] = FileSigner.generate(path)
            created.append(path)
    if "remote" in roles:
        (created if _make_cache_secret(settings.remote_dir / CACHE_SECRET, force=force) else kept).append(
            settings.remote_dir / CACHE_SECRET
        )
    _enter(settings, {path: signer.public_key for path, signer in signers.items()}, roles, withdraw=force)
    return KeysReport(
        trust=settings.trust_path,
        created=tuple(created),
        kept=tuple(kept),
        public={path: signer.public_key.thumbprint for path, signer in signers.items()},
    )


def stage_issuer_key(settings: Settings) -> PublicKey:
    """Make the issuer's next key and publish it beside the current one, so that receivers learn it first."""
    path = _staged(settings)
    signer = FileSigner.load(path) if path.exists() else FileSigner.generate(path)
    with edit_trust(settings.trust_path) as trust:
        trust.add_issuer_key(settings.issuer_url, signer.public_key)
    return signer.public_key


def rotate_issuer_key(settings: Settings) -> PublicKey:
    """Sign with the staged key from now on; the old one stays trusted until it is retired.

    Stages one first where none is. Tokens live at most 300 s, so the old key may be
    retired that much later, once every receiver has read the new ``trust.toml``.
    """
    key = stage_issuer_key(settings)
    os.replace(_staged(settings), settings.issuer_dir / GRANT_KEY)
    return key


def retire_issuer_key(settings: Settings, kid: str) -> None:
    """Withdraw a public key from ``trust.toml``; the one that signs now cannot be retired."""
    if FileSigner.load(settings.issuer_dir / GRANT_KEY).public_key.thumbprint == kid:
        raise _fault("in_use", "this key signs now; run: dataset-agent keys rotate, then retire it")
    with edit_trust(settings.trust_path) as trust:
        if not trust.remove_issuer_key(settings.issuer_url, kid):
            raise _fault("unknown", f"{settings.trust_path} holds no key {kid[:64]!r} of this issuer")


def _staged(settings: Settings) -> Path:
    return settings.issuer_dir / "grant.next.jwk"


def _key_files(settings: Settings, roles: Sequence[Role]) -> list[Path]:
    files = {
        "issuer": [settings.issuer_dir / GRANT_KEY, settings.issuer_dir / IDENTITY_KEY],
        "root": [settings.root_dir / HOLDER_KEY],
        "remote": [settings.remote_dir / AGENT_KEY],
    }
    return [path for role in ROLES if role in roles for path in files[role]]


def _enter(settings: Settings, keys: dict[Path, PublicKey], roles: Sequence[Role], *, withdraw: bool) -> None:
    with edit_trust(settings.trust_path) as trust:
        if "issuer" in roles:
            trust.enter_issuer(
                settings.issuer_url,
                key=keys[settings.issuer_dir / GRANT_KEY],
                identity_key=keys[settings.issuer_dir / IDENTITY_KEY],
                tenants=SHIPPED_TENANTS,
                subject_prefix=SHIPPED_SUBJECT_PREFIX,
                withdraw=withdraw,
            )
        if "root" in roles:
            trust.enter_agent(
                settings.root_id, settings.root_url, keys[settings.root_dir / HOLDER_KEY], withdraw=withdraw
            )
        if "remote" in roles:
            url = settings.public_url or settings.url
            trust.enter_agent(settings.agent_id, url, keys[settings.remote_dir / AGENT_KEY], withdraw=withdraw)


def _make_cache_secret(path: Path, *, force: bool) -> bool:
    if path.exists() and not force:
        read_private(path)
        return False
    _make_store(path.parent)
    _write_private(path, secrets.token_hex(32).encode() + b"\n", replace=force)
    return True


def _make_store(directory: Path) -> None:
    """Make a private directory, or close an empty one; one in use is never changed behind its owner's back."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    if stat.S_IMODE(directory.stat().st_mode) & 0o077:
        if any(directory.iterdir()):
            raise _fault("permissions", f"{directory} is open to others; run: chmod 700 {directory}")
        directory.chmod(0o700)


def _write_private(path: Path, data: bytes, *, replace: bool) -> None:
    if replace:
        path.unlink(missing_ok=True)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as error:
        raise _fault("exists", f"{path} exists already; it is kept") from error
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _fault(code: str, message: str) -> DatasetAgentError:
    return DatasetAgentError(Component.GRANTS, Category.CONFIGURATION, f"grants.keys.{code}", message)
