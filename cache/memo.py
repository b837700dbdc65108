"""What words were read as, kept for whoever may share it: a call, never a row.

    dsc:1:{memo:P}:w:W   one record: the call that exactly these words were read as
    dsc:1:{memo:P}:r     the most recent records of the partition, with their words

``P`` is a keyed digest over all that a reading may depend on, ``W`` one over P and the words.
Values are sealed with the key as additional data and padded, so that their size tells nothing
about the words; the time they end is inside. A record is no authority: whoever finds one
confirms it anew, and admission decides as for any other call.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
from cryptography.exceptions import InvalidTag

from cache.breaker import Breaker
from cache.encoding import NotEncodable, encode
from cache.memo_keys import MemoKeys
from cache.partition import KEY_PREFIX
from cache.store import SKEW_S, CacheStore, StoreUnavailable

MAX_RECENT: Final = 64
MAX_RECORD_BYTES: Final = 8_192
MAX_RECENT_BYTES: Final = 64 * 1_024
_PAD: Final = 512
_MAGIC: Final = b"dsmm1"
_NONCE: Final = 12
_log = logging.getLogger("dataset_agent.cache")


@dataclass(frozen=True, slots=True)
class Remembered:
    """The call that some words were read as. ``made`` and ``exp`` are POSIX seconds; ``arguments`` are JSON values."""

    words: str = field(repr=False)
    dataset: str
    capability: str
    arguments: Mapping[str, Any] = field(repr=False)
    made: float
    exp: float

    def is_in_force(self, now: float) -> bool:
        """One from the future comes from a clock that was wrong: its age means nothing."""
        return self.made <= now + SKEW_S and now < self.exp


class Memo:
    """Sealed records over one store. ``ttl_s`` counts from when a record was made; reading one extends nothing.

    No fault of the store leaves this class: what cannot be had was never kept.
    """

    def __init__(self, store: CacheStore, keys: MemoKeys, *, ttl_s: float, breaker: Breaker | None = None) -> None:
        self.store = store
        self._keys = keys
        self._ttl_s = ttl_s
        self._breaker = breaker or Breaker()

    async def exact(self, scope: Sequence[Any], words: str, *, now: float) -> Remembered | None:
        """The call these very words were read as under an equal ``scope``, in one round trip."""
        partition = self._keys.partition_id(encode(scope))
        found = await self._load(partition, self._words_key(partition, words), now=now)
        return next((item for item in found if item.words == words), None)

    async def recent(self, scope: Sequence[Any], *, now: float) -> tuple[Remembered, ...]:
        """The records of an equal ``scope``, newest first, at most ``MAX_RECENT``."""
        partition = self._keys.partition_id(encode(scope))
        return await self._load(partition, _recent_key(partition), now=now)

    async def keep(
        self,
        scope: Sequence[Any],
        words: str,
        *,
        dataset: str,
        capability: str,
        arguments: Mapping[str, Any],
        now: float,
    ) -> None:
        """Remember a reading until ``ttl_s`` from now. Two processes at once may lose one of two recent records.

        What was kept before for the same words and is still in force stays as it is, so that
        nothing lives longer for being asked again.
        """
        made = Remembered(words, dataset, capability, dict(arguments), now, now + self._ttl_s)
        try:
            partition, packed = self._keys.partition_id(encode(scope)), _pack([made])
        except (NotEncodable, TypeError):  # arguments that JSON cannot carry
            return
        if len(packed) > MAX_RECORD_BYTES or await self.exact(scope, words, now=now) is not None:
            return
        await self._store(partition, self._words_key(partition, words), packed, made.exp, now=now)
        kept = [item for item in await self.recent(scope, now=now) if item.words != words]
        newest = [made, *kept][:MAX_RECENT]
        while len(packed := _pack(newest)) > MAX_RECENT_BYTES:
            newest.pop()
        await self._store(partition, _recent_key(partition), packed, max(item.exp for item in newest), now=now)

    async def close(self) -> None:
        try:
            await self.store.close()
        except StoreUnavailable as error:
            _log.warning("the memo did not close: %s", error)

    def _words_key(self, partition: str, words: str) -> str:
        return f"{KEY_PREFIX}{{memo:{partition}}}:w:{self._keys.words_id(encode([partition, words]))}"

    async def _store(self, partition: str, key: str, packed: bytes, exp: float, *, now: float) -> None:
        nonce = os.urandom(_NONCE)
        sealed = _MAGIC + nonce + self._keys.cipher(partition).encrypt(nonce, _padded(packed), _MAGIC + key.encode())
        try:
            await self._breaker.call(lambda: self.store.put(key, sealed, exp=exp, now=now))
        except StoreUnavailable as error:
            _log.warning("a reading was not remembered: %s", error)

    async def _load(self, partition: str, key: str, *, now: float) -> tuple[Remembered, ...]:
        try:
            sealed = await self._breaker.call(lambda: self.store.get(key, now=now))
        except StoreUnavailable as error:
            _log.warning("the memo cannot be read: %s", error)
            return ()
        if sealed is None:
            return ()
        start = len(_MAGIC) + _NONCE
        try:
            if sealed[: len(_MAGIC)] != _MAGIC:
                raise ValueError("not a record")
            opened = self._keys.cipher(partition).decrypt(
                sealed[len(_MAGIC) : start], sealed[start:], _MAGIC + key.encode()
            )
            held = [Remembered(*item) for item in orjson.loads(opened)]
        except (InvalidTag, ValueError, TypeError):
            _log.error("a record of the memo failed its integrity check and is not used")
            return ()
        return tuple(item for item in held if item.is_in_force(now))


def _recent_key(partition: str) -> str:
    return f"{KEY_PREFIX}{{memo:{partition}}}:r"


def _pack(records: Sequence[Remembered]) -> bytes:
    """Raises ``TypeError`` (``orjson.JSONEncodeError``) for what is no JSON."""
    return orjson.dumps(
        [[item.words, item.dataset, item.capability, item.arguments, item.made, item.exp] for item in records]
    )


def _padded(packed: bytes) -> bytes:
    # JSON may end in white space.
    return packed + b" " * (-len(packed) % _PAD)
