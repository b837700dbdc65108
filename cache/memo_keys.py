"""The subkeys of the root agent's own memo secret (HKDF-SHA256, RFC 5869), and where the secret is.

A root agent holds no cache secret of a dataset agent, and a dataset agent none of a memo.
"""

from __future__ import annotations

import hmac
import logging
import os
import shlex
import stat
from functools import lru_cache
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from contract.errors import Category, Component, DatasetAgentError, WrongSetting
from contract.settings import Settings

SECRET_BYTES: Final = 32
ID_HEX: Final = 32
SECRET_FILE: Final = "memo.secret"  # noqa: S105 - a file name
_INFO: Final = b"dataset-agent/memo/1/"
_log = logging.getLogger("dataset_agent.cache")


class MemoKeys:
    """The subkeys of one memo secret. Holds key material: never print, never pickle."""

    def __init__(self, secret: bytes) -> None:
        """From at least 32 random bytes; fewer raise ``ValueError``."""
        if len(secret) < SECRET_BYTES:
            raise ValueError(f"a memo secret has at least {SECRET_BYTES} bytes")
        self._partition, self._words, self._data = (
            HKDF(algorithm=SHA256(), length=32, salt=None, info=_INFO + name).derive(secret)
            for name in (b"partition", b"words", b"data")
        )
        self.cipher = lru_cache(maxsize=512)(self._cipher)

    def partition_id(self, scope: bytes) -> str:
        """128 bits in hex of HMAC-SHA256 of the scope, under the subkey for partitions."""
        return hmac.digest(self._partition, scope, "sha256").hex()[:ID_HEX]

    def words_id(self, partition_and_words: bytes) -> str:
        """128 bits in hex of HMAC-SHA256 of partition and words, under the subkey for words."""
        return hmac.digest(self._words, partition_and_words, "sha256").hex()[:ID_HEX]

    def _cipher(self, partition_id: str) -> AESGCM:
        """AES-256-GCM under the partition's own key: one block of HKDF-Expand (RFC 5869, section 2.3)."""
        return AESGCM(hmac.digest(self._data, _INFO + b"record/" + partition_id.encode() + b"\x01", "sha256"))

    def __repr__(self) -> str:
        return "MemoKeys(…)"


def load_memo_secret(settings: Settings) -> bytes:
    """``settings.memo_secret``, else the file ``memo.secret`` in the root's private store, made where it is missing.

    Where no file can be kept the secret is drawn for this process: a memo may be lost, nothing
    else is. Raises a CONFIGURATION fault for one that is malformed or that others may read.
    """
    if settings.memo_secret is not None:
        try:
            return _from_hex(settings.memo_secret.get_secret_value(), "DATASET_AGENT_MEMO_SECRET")
        except DatasetAgentError as wrong:
            raise WrongSetting.of(wrong) from None
    path = settings.root_dir / SECRET_FILE
    try:
        return _read(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        _log.warning("the memo secret at %s cannot be read (%s): one is drawn for this process", path, error.strerror)
        return os.urandom(SECRET_BYTES)
    try:
        return _made(path)
    except OSError as error:
        _log.info("no memo secret can be kept at %s (%s): one is drawn for this process", path, error.strerror)
        return os.urandom(SECRET_BYTES)


def _made(path: Path) -> bytes:
    """Written whole beside its place and linked into it, so that of two processes both read the same one."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    with os.fdopen(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
        file.write(os.urandom(SECRET_BYTES).hex() + "\n")
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink()
    return _read(path)


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
            raise _fault("permissions", f"others may read the memo secret; run: chmod 600 {shlex.quote(str(path))}")
        return _from_hex(file.read(1_024).decode("ascii", "replace"), str(path))


def _from_hex(text: str, where: str) -> bytes:
    text = text.strip()
    try:
        secret = bytes.fromhex(text)
    except ValueError:
        secret = b""
    if len(secret) != SECRET_BYTES or len(text) != 2 * SECRET_BYTES:
        raise _fault("malformed", f"the memo secret in {where} must be {2 * SECRET_BYTES} hex digits")
    return secret


def _fault(code: str, message: str) -> DatasetAgentError:
    return DatasetAgentError(Component.CACHE, Category.CONFIGURATION, f"cache.memo.{code}", message)
