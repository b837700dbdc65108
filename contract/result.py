"""An intent, a result and the execution that produced it, as values every package shares."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

from contract.call import RESULT_MEDIA_TYPE
from contract.canonical import sha256_hex

ToolOrigin = Literal["LOCAL", "MCP", "A2A"]
_INSTANT: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?Z")


def instant(text: str) -> datetime:
    """The moment that RFC 3339 text in UTC names, to the microsecond.

    Raises ``ValueError`` for another form and for what is not of the calendar, as a month 13.
    """
    if _INSTANT.fullmatch(text) is None:
        raise ValueError("is no RFC 3339 instant in UTC")
    return datetime.fromisoformat(text)


@dataclass(frozen=True, slots=True)
class Intent:
    """The meaning of a call: capability, template and canonical typed arguments.

    ``arguments`` are JSON values after validation, defaulting and canonicalisation, so
    every paraphrase that resolves to the same call has an equal intent.
    """

    dataset: str
    capability: str
    template_digest: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ResultDocument:
    """Result JSON exactly as it is sent: ``{"schema","rows","row_count","truncated","as_of"}``.

    ``as_of`` is RFC 3339 UTC, when the data was last true. Rows leave as these bytes and
    are never re-encoded. ``derived`` says that they were computed from a stored result, in
    the bytes an engine would have given.
    """

    body: bytes
    row_count: int
    truncated: bool
    as_of: str
    derived: bool = False

    @property
    def digest(self) -> str:
        """Hex SHA-256 of ``body``."""
        return sha256_hex(self.body)

    @property
    def size(self) -> int:
        """Bytes of ``body``."""
        return len(self.body)

    @property
    def media_type(self) -> str:
        return RESULT_MEDIA_TYPE


@dataclass(frozen=True, slots=True)
class StoredResult:
    """A result that is fetched afterwards: what its bytes are and where they wait, and no byte of them.

    ``result_id`` names it in the leaf that fetches it: the id of the task that it is the result
    of. ``digest`` is the hex SHA-256 and ``size`` the number of the bytes that will be sent,
    ``expires_at`` POSIX seconds.
    """

    result_id: str
    url: str
    media_type: str
    digest: str
    size: int
    row_count: int
    truncated: bool
    as_of: str
    expires_at: float


Result = ResultDocument | StoredResult
"""A result as it is told and signed: its bytes beside it, or to be fetched."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a result may have at most, rows and bytes; ``None`` is without end."""

    max_rows: int | None = None
    max_bytes: int | None = None

    def hold(self, result: Result) -> bool:
        rows, size = self.max_rows, self.max_bytes
        return (rows is None or result.row_count <= rows) and (size is None or result.size <= size)


UNLIMITED: Final = Limits()


@dataclass(frozen=True, slots=True)
class Content:
    """The hex SHA-256 of bytes that somebody else holds, and their number."""

    digest: str
    size: int

    @classmethod
    def of(cls, body: bytes) -> Content:
        return cls(sha256_hex(body), len(body))


@dataclass(frozen=True, slots=True)
class Execution:
    """One run of an engine. Times are POSIX seconds; ``execution_id`` is opaque.

    ``job_id`` names the run at an engine that keeps jobs. Where an engine charges for bytes,
    ``bytes_processed`` and ``bytes_billed`` are what it says it read and charges.
    """

    execution_id: str
    engine: str
    job_id: str | None
    tool_origin: ToolOrigin
    started: float
    ended: float
    bytes_processed: int | None = None
    bytes_billed: int | None = None


@dataclass(frozen=True, slots=True)
class CacheOutcome:
    """How a result was found: ``HIT``, ``STALE`` or ``MISS``; ``OFF`` where none is looked up or kept.

    ``WITHHELD`` is said of restricted capabilities, whatever it was. A HIT is ``derived`` where the result was
    computed from a stored one of a wider call. What is STALE is stored, past the time that it may be reused for,
    and refreshed behind the answer.
    """

    outcome: Literal["HIT", "STALE", "MISS", "WITHHELD", "OFF"]
    key: str | None = None
    derived: bool = False
