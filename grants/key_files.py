"""Private keys in files. A store is a directory of mode 0700; a key is a private JWK (RFC 8037) of mode 0600."""

from __future__ import annotations

import os
import shlex
import stat
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from contract.canonical import InvalidJson, b64url, canonical_json, parse_json, unb64url
from contract.errors import Category, Component, DatasetAgentError
from contract.signing import PublicKey

MAX_KEY_BYTES: Final = 4_096


class LocalSigner:
    """An Ed25519 private key in this process's memory; a ``contract.signing.Signer``."""

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private
        self._public = PublicKey(private.public_key().public_bytes_raw())

    @property
    def public_key(self) -> PublicKey:
        return self._public

    def sign(self, message: bytes) -> bytes:
        return self._private.sign(message)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(kid={self._public.thumbprint!r})"

    @classmethod
    def of_jwk(cls, data: bytes, where: str) -> LocalSigner:
        """The key of a private JWK. Raises ``grants.keys.invalid``, which names ``where`` and quotes nothing."""
        return LocalSigner(_private_key(data, where))

    def _private_jwk(self) -> dict[str, str]:
        return {**self._public.jwk(), "d": b64url(self._private.private_bytes_raw())}


class FileSigner(LocalSigner):
    """A private key that is kept in a file."""

    @classmethod
    def new(cls) -> FileSigner:
        """A key that is nowhere but in memory yet."""
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def generate(cls, path: Path) -> FileSigner:
        """Make a key and store it. Raises ``grants.keys.exists``, ``grants.keys.permissions``."""
        signer = cls.new()
        make_store(path.parent)
        write_private(path, signer._file())
        return signer

    def store(self, path: Path) -> None:
        """Keep it at ``path``, in one step, in the place of what is there. Raises ``grants.keys.permissions``."""
        make_store(path.parent)
        replace_private(path, self._file())

    def _file(self) -> bytes:
        return canonical_json(self._private_jwk()) + b"\n"

    @classmethod
    def load(cls, path: Path) -> FileSigner:
        """Read a key that only its owner can read.

        Raises ``grants.keys.missing``, ``grants.keys.permissions`` or ``grants.keys.invalid``.
        """
        return cls(_private_key(read_private(path), str(path)))


def read_private(path: Path, *, limit: int = MAX_KEY_BYTES) -> bytes:
    """The bytes of a private file, at most one more than ``limit``.

    Refused where anyone but its owner could read or replace it.

    A link is followed inside its own store only. Raises ``grants.keys.missing`` or
    ``grants.keys.permissions``.
    """
    try:
        check_store(path.parent)
        real = path.resolve(strict=True)
        if not real.is_relative_to(path.parent.resolve()):
            raise key_fault("permissions", f"{path} is a link out of its store; put the file itself there")
        with open(os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise key_fault("permissions", f"{path} is no file; put a key there, or run: dataset-agent keys init")
            _check_mine(path, status, "600")
            return file.read(limit + 1)
    except FileNotFoundError as error:
        raise key_fault(
            "missing",
            f"there is no key at {path}; run: dataset-agent keys init, or run this where that role has its keys",
        ) from error
    except OSError as error:
        raise key_fault("permissions", f"{path} cannot be read: {error.strerror}; run it as the key's owner") from error


def check_store(directory: Path) -> None:
    """Raises ``grants.keys.permissions`` where a store is open to others, or ``FileNotFoundError``."""
    _check_mine(directory, directory.stat(), "700")


def make_store(directory: Path) -> None:
    """Make a private directory, or close an empty one; one in use is never changed behind its owner's back."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    if stat.S_IMODE(directory.stat().st_mode) & 0o077 and not any(directory.iterdir()):
        directory.chmod(0o700)
    check_store(directory)


def write_private(path: Path, data: bytes) -> None:
    """A new private file, on disk when this returns. Raises ``grants.keys.exists``."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as error:
        raise key_fault("exists", f"{path} exists already; it is kept") from error
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def replace_private(path: Path, data: bytes) -> None:
    """As ``write_private``, in one step, in the place of what is there."""
    fresh = path.with_name(path.name + ".new")
    fresh.unlink(missing_ok=True)
    write_private(fresh, data)
    os.replace(fresh, path)


def key_fault(code: str, message: str, category: Category = Category.CONFIGURATION) -> DatasetAgentError:
    return DatasetAgentError(Component.GRANTS, category, f"grants.keys.{code}", message)


def _check_mine(place: Path, status: os.stat_result, mode: str) -> None:
    """Root may own what this user cannot read anyway; anybody else could put another key there."""
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise key_fault("permissions", f"{place} is open to others; run: chmod {mode} {shlex.quote(str(place))}")
    if status.st_uid not in (os.geteuid(), 0):
        raise key_fault(
            "permissions", f"{place} belongs to another user; run: chown {os.geteuid()} {shlex.quote(str(place))}"
        )


def _private_key(data: bytes, where: str) -> Ed25519PrivateKey:
    try:
        jwk = parse_json(data, limit=MAX_KEY_BYTES)
        if not isinstance(jwk, dict) or not isinstance(jwk.get("d"), str):
            raise ValueError("not a private JWK")
        private = Ed25519PrivateKey.from_private_bytes(unb64url(jwk["d"]))
        public = PublicKey.from_jwk({name: value for name, value in jwk.items() if name != "d"})
        if public.raw != private.public_key().public_bytes_raw():
            raise ValueError("its public part is another key's")
    except (InvalidJson, ValueError):
        # without its cause: a debugger's traceback would show what was read
        raise key_fault("invalid", f"{where} is not an Ed25519 private JWK; restore it or make a new key") from None
    return private
