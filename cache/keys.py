"""One secret, three kinds of subkeys (HKDF-SHA256, RFC 5869).

K1 makes partitions, K2 makes intents, K3 makes one data key per partition. Whoever reads
keys and headers without the secret can neither read nor guess a scope or an argument.
"""

from __future__ import annotations

import hmac
import stat
from functools import lru_cache
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from contract.errors import Category, Component, DatasetAgentError
from contract.settings import Settings

SECRET_BYTES: Final = 32
ID_HEX: Final = 32
_INFO: Final = b"dataset-agent/cache/1/"


class CacheKeys:
    """The subkeys of one cache secret. Holds key material: never print, never pickle."""

    def __init__(self, partition: bytes, intent: bytes, data: bytes) -> None:
        self._partition = partition
        self._intent = intent
        self._data = data
        self.cipher = lru_cache(maxsize=512)(self._cipher)

    @classmethod
    def from_secret(cls, secret: bytes) -> CacheKeys:
        """From at least 32 random bytes; fewer raise ``ValueError``."""
        if len(secret) < SECRET_BYTES:
            raise ValueError(f"a cache secret has at least {SECRET_BYTES} bytes")
        return cls(*(_subkey(secret, _INFO + name) for name in (b"partition", b"intent", b"data")))

    def partition_id(self, message: bytes) -> str:
        """128 bits in hex of HMAC(K1, message)."""
        return hmac.digest(self._partition, message, "sha256").hex()[:ID_HEX]

    def intent_id(self, message: bytes) -> str:
        """128 bits in hex of HMAC(K2, message)."""
        return hmac.digest(self._intent, message, "sha256").hex()[:ID_HEX]

    def _cipher(self, partition_id: str) -> AESGCM:
        """AES-256-GCM under the partition's own key, so that no key sees 2**32 random nonces.

        One block of HKDF-Expand (RFC 5869, section 2.3) with K3 as the pseudorandom key.
        """
        info = _INFO + b"entry/" + partition_id.encode()
        return AESGCM(hmac.digest(self._data, info + b"\x01", "sha256"))

    def __repr__(self) -> str:
        return "CacheKeys(…)"


def load_secret(settings: Settings) -> bytes:
    """The cache secret: ``settings.cache_secret``, else ``cache.secret`` in the remote's store.

    The file holds 64 hex digits and only its owner may read it (mode 0600). Raises a
    CONFIGURATION fault that says what to do.
    """
    if settings.cache_secret is not None:
        return _from_hex(settings.cache_secret.get_secret_value(), "DATASET_AGENT_CACHE_SECRET")
    path = settings.remote_dir / "cache.secret"
    return _from_hex(_read_private(path), str(path))


def _read_private(path: Path) -> str:
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(path.stat().st_mode)
            if mode & 0o077:
                raise _fault("permissions", f"others may read the cache secret; run: chmod 600 {path}")
            return file.read(1_024).decode("ascii", "replace")
    except FileNotFoundError as error:
        message = f"no cache secret at {path}; run 'dataset-agent keys init' or set DATASET_AGENT_CACHE_SECRET"
        raise _fault("missing", message) from error
    except OSError as error:
        raise _fault("unreadable", f"the cache secret at {path} cannot be read: {error.strerror}") from error


def _from_hex(text: str, where: str) -> bytes:
    text = text.strip()
    try:
        secret = bytes.fromhex(text)
    except ValueError:
        secret = b""
    if len(secret) != SECRET_BYTES or len(text) != 2 * SECRET_BYTES:
        raise _fault("malformed", f"the cache secret in {where} must be {2 * SECRET_BYTES} hex digits")
    return secret


def _subkey(secret: bytes, info: bytes) -> bytes:
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=info).derive(secret)


def _fault(code: str, message: str) -> DatasetAgentError:
    return DatasetAgentError(Component.CACHE, Category.CONFIGURATION, f"cache.secret.{code}", message)
