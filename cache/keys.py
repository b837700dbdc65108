"""One secret, six kinds of subkeys (HKDF-SHA256, RFC 5869).

K1 makes partitions, K2 makes intents, K3 makes one data key per partition, K4 the digests of
single parts of a scope, which are sealed with an entry, K5 what a leader says of itself, K6 the proof
of a header. Whoever reads keys and headers without
the secret can neither read nor guess a scope or an argument.

There may be several secrets. Under the first, the current one, results are looked up and
written; the others only open, for who verifies what is stored. ``kid`` tells secrets apart and
reveals nothing of them.
"""

from __future__ import annotations

import hmac
import re
from functools import lru_cache
from typing import Final

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from contract.errors import Category, Component, DatasetAgentError, WrongSetting
from contract.secret_file import SecretFileError, read_secret
from contract.settings import Settings

MAX_SECRETS: Final = 4
"""The current one and three earlier ones."""
SECRET_BYTES: Final = 32
ID_HEX: Final = 32
KID_HEX: Final = 8
SECRET_FILE: Final = "cache.secret"  # noqa: S105 - a file name
_INFO: Final = b"dataset-agent/cache/1/"
_SUBKEYS: Final = (b"partition", b"intent", b"data", b"part", b"lease", b"header")
_MAX_FILE: Final = 1_024
_HEX: Final = re.compile(rf"[0-9a-fA-F]{{{2 * SECRET_BYTES}}}")


class CacheKeys:
    """The subkeys of one cache secret. Holds key material: never print, never pickle.

    ``kid`` is 32 bits in hex, derived like a subkey: it names the secret in the header of every
    entry that was sealed with it.
    """

    def __init__(
        self, kid: str, partition: bytes, intent: bytes, data: bytes, part: bytes, lease: bytes, header: bytes
    ) -> None:
        self.kid = kid
        self._partition = partition
        self._intent = intent
        self._data = data
        self._part = part
        self._lease = lease
        self._header = header
        self.cipher = lru_cache(maxsize=512)(self._cipher)

    @classmethod
    def from_secret(cls, secret: bytes) -> CacheKeys:
        """From at least 32 random bytes; fewer raise ``ValueError``."""
        if len(secret) < SECRET_BYTES:
            raise ValueError(f"a cache secret has at least {SECRET_BYTES} bytes")
        kid = _subkey(secret, _INFO + b"kid").hex()[:KID_HEX]
        return cls(kid, *(_subkey(secret, _INFO + name) for name in _SUBKEYS))

    def partition_id(self, message: bytes) -> str:
        """128 bits in hex of HMAC(K1, message)."""
        return hmac.digest(self._partition, message, "sha256").hex()[:ID_HEX]

    def intent_id(self, message: bytes) -> str:
        """128 bits in hex of HMAC(K2, message)."""
        return hmac.digest(self._intent, message, "sha256").hex()[:ID_HEX]

    def part_id(self, name: str, message: bytes) -> str:
        """32 bits in hex of HMAC(K4, message) for one named part of a scope: to compare two, never to look one up."""
        return hmac.digest(self._part, name.encode() + b"\x00" + message, "sha256").hex()[:KID_HEX]

    def lease_id(self, message: bytes) -> str:
        """128 bits in hex of HMAC(K5, message)."""
        return hmac.digest(self._lease, message, "sha256").hex()[:ID_HEX]

    def header_id(self, message: bytes) -> str:
        """128 bits in hex of HMAC(K6, message)."""
        return hmac.digest(self._header, message, "sha256").hex()[:ID_HEX]

    def _cipher(self, partition_id: str) -> AESGCM:
        """AES-256-GCM under the partition's own key, so that no key sees 2**32 random nonces.

        One block of HKDF-Expand (RFC 5869, section 2.3) with K3 as the pseudorandom key.
        """
        info = _INFO + b"entry/" + partition_id.encode()
        return AESGCM(hmac.digest(self._data, info + b"\x01", "sha256"))

    def __repr__(self) -> str:
        return "CacheKeys(…)"


def load_secrets(settings: Settings) -> tuple[bytes, ...]:
    """The cache secrets, the current one first: ``settings.cache_secret``, else ``cache.secret`` in the remote's store.

    Each is 64 hex digits: a line of the file, which only its owner may read (mode 0600), or an
    item of the setting between commas. Raises a CONFIGURATION fault that says what to do.
    """
    if settings.cache_secret is not None:
        texts = settings.cache_secret.get_secret_value().split(",")
        try:
            return _secrets(texts, "DATASET_AGENT_CACHE_SECRET")
        except DatasetAgentError as wrong:
            raise WrongSetting.of(wrong) from None
    path = settings.remote_dir / SECRET_FILE
    try:
        data = read_secret(path, what="the cache secret", limit=_MAX_FILE)
    except SecretFileError as error:
        told = f"{error}; run 'dataset-agent keys init' or set DATASET_AGENT_CACHE_SECRET"
        raise _fault(error.code, told if error.code == "missing" else str(error)) from error
    return read_secrets(data, str(path))


def load_secret(settings: Settings) -> bytes:
    """The current secret alone. Raises as ``load_secrets``."""
    return load_secrets(settings)[0]


def load_keys(settings: Settings) -> tuple[CacheKeys, ...]:
    """The keys at hand, the current ones first. Raises as ``load_secrets``."""
    return tuple(CacheKeys.from_secret(secret) for secret in load_secrets(settings))


def read_secrets(data: bytes, where: str) -> tuple[bytes, ...]:
    """The secrets of a file's bytes. Raises a CONFIGURATION fault that names ``where`` and repeats nothing."""
    return _secrets(data.decode("ascii", "replace").strip("\n").split("\n"), where)


def _secrets(texts: list[str], where: str) -> tuple[bytes, ...]:
    secrets = tuple(_from_hex(text, where) for text in texts)
    if len(secrets) > MAX_SECRETS or len(set(secrets)) != len(secrets):
        raise _fault("malformed", f"{where} may hold {MAX_SECRETS} cache secrets at most, and none twice")
    return secrets


def _from_hex(text: str, where: str) -> bytes:
    text = text.strip()
    if _HEX.fullmatch(text) is None:
        raise _fault(
            "malformed", f"each cache secret in {where} must be {2 * SECRET_BYTES} hex digits, the current one first"
        )
    return bytes.fromhex(text)


def _subkey(secret: bytes, info: bytes) -> bytes:
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=info).derive(secret)


def _fault(code: str, message: str) -> DatasetAgentError:
    return DatasetAgentError(Component.CACHE, Category.CONFIGURATION, f"cache.secret.{code}", message)
