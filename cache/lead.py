"""Who says in a store that it leads: believed where the cache's secret says so, and while it goes on saying it.

    owner "." beat "." tag

``beat`` is when it was said, in milliseconds of POSIX time, and ``tag`` a keyed digest over the
entry's key and both. Whoever writes to the store without the secret can neither make such a mark
nor renew one, and what somebody put back is believed no longer than its leader's silence would be.
"""

from __future__ import annotations

import hmac
import re
from typing import Final, NamedTuple

from cache.encoding import encode
from cache.keys import CacheKeys
from cache.store import SKEW_S

_MARK: Final = re.compile(r"([A-Za-z0-9_-]{1,64})\.([0-9]{1,15})\.([0-9a-f]{32})")


class Mark(NamedTuple):
    """Who leads, and when it last said so (POSIX milliseconds)."""

    owner: str
    beat: int


def mark(key: str, owner: str, *, keys: CacheKeys, now: float) -> str:
    """What ``owner`` writes as the lease on ``key`` at ``now``."""
    beat = int(now * 1_000)
    return f"{owner}.{beat}.{_tag(key, owner, beat, keys)}"


def read_mark(text: str, key: str, *, keys: CacheKeys) -> Mark | None:
    """The mark that ``text`` is; ``None`` where nobody with this secret wrote it for this key."""
    match = _MARK.fullmatch(text)
    if match is None:
        return None
    owner, beat, tag = match[1], int(match[2]), match[3]
    return Mark(owner, beat) if hmac.compare_digest(tag, _tag(key, owner, beat, keys)) else None


class Watch:
    """What one caller that waits has seen of the lease on a key; ``life_s`` is how long a leader may be silent."""

    def __init__(self, key: str, keys: CacheKeys, *, life_s: float) -> None:
        self._key, self._keys, self._life_s = key, keys, life_s
        self._seen: dict[str, tuple[int, float]] = {}

    def believes(self, text: str, *, at: float, now: float) -> bool:
        """Whether the holder lives, which is then waited for. ``at`` is of a clock that never goes back.

        A leader renews its mark three times in ``life_s``. One that stays as it is for longer, or
        goes back, was put there by somebody else.
        """
        told = read_mark(text, self._key, keys=self._keys)
        if told is None or told.beat / 1_000 + self._life_s + SKEW_S < now:
            return False
        beat, since = self._seen.get(told.owner, (-1, at))
        if told.beat > beat:
            self._seen[told.owner] = (told.beat, at)
            return True
        return told.beat == beat and at - since <= self._life_s


def _tag(key: str, owner: str, beat: int, keys: CacheKeys) -> str:
    return keys.lease_id(encode([key, owner, beat]))
