"""What is kept of a card between two fetches: how it was read, and by what its server tells that it did not change.

HTTP caching as far as it is of use here (RFC 9110, sections 8.8 and 13; RFC 9111, section 5.2): a server may
shorten how long its card is kept, and may say that it is the same; it says nothing about whether the card is believed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from delegation.card_reader import ReadCard

MAX_KEPT: Final = 512
"""Cards that are kept at once, whatever the trust file lists."""
MAX_KEPT_BYTES: Final = 256 * 2**20
LEAST_KEPT: Final = 5.0
"""Seconds for which a card is kept whatever its server says: it does not decide how often we ask it."""
_VALIDATOR: Final = re.compile(r"[\x20-\x7e]{1,200}")
_DIRECTIVE: Final = re.compile(r"\s*([A-Za-z-]{1,40})(?:=\"?(\d{1,10})\"?)?\s*")


@dataclass(frozen=True, slots=True)
class Seen:
    """A card whose signature held, the bytes it was read from as their SHA-256, and what its server said of it."""

    read: ReadCard = field(repr=False)
    digest: bytes = field(repr=False)
    size: int
    etag: str | None = None
    modified: str | None = None
    fresh_for: float | None = None

    @classmethod
    def of(cls, read: ReadCard, body: bytes, headers: Mapping[str, str]) -> Seen:
        return cls(read, hashlib.sha256(body).digest(), len(body)).told(headers)

    def told(self, headers: Mapping[str, str]) -> Seen:
        """With what the server says of it now; a validator that it does not repeat stands."""
        return replace(
            self,
            etag=_validator(headers.get("etag")) or self.etag,
            modified=_validator(headers.get("last-modified")) or self.modified,
            fresh_for=fresh_for(headers.get("cache-control")),
        )

    def conditions(self) -> dict[str, str]:
        """The headers of a conditional GET; none where the server gave no validator."""
        if self.etag is not None:
            return {"If-None-Match": self.etag}
        return {} if self.modified is None else {"If-Modified-Since": self.modified}

    def is_read_from(self, body: bytes) -> bool:
        return self.size == len(body) and self.digest == hashlib.sha256(body).digest()


def fresh_for(header: str | None) -> float | None:
    """Seconds by ``Cache-Control``: 0 for ``no-store`` and ``no-cache``, ``None`` where nothing is said."""
    told: float | None = None
    for part in (header or "")[:1_000].split(","):
        match = _DIRECTIVE.fullmatch(part)
        name = match.group(1).lower() if match else ""
        if name in ("no-store", "no-cache"):
            return 0.0
        if match and name == "max-age" and match.group(2) is not None:
            told = float(match.group(2))
    return told


def kept_for(ttl: float, told: float | None) -> float:
    """Seconds for which a card is kept: ours, or the server's where it is less, and then not next to nothing."""
    return ttl if told is None else min(ttl, max(told, LEAST_KEPT))


def _validator(value: str | None) -> str | None:
    """It is sent back as it came, so it must be what a header may hold."""
    return value if value is not None and _VALIDATOR.fullmatch(value) else None
