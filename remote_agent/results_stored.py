"""What is told of a result whose bytes are on disk: where to fetch them, for how long, and what they are."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from contract.result import StoredResult
from remote_agent.service import Service
from remote_agent.spool_file import Sealed


@dataclass(frozen=True, slots=True)
class ResultShape:
    """What a result is, apart from its bytes. ``as_of`` is RFC 3339 UTC."""

    media_type: str
    row_count: int
    truncated: bool
    as_of: str


def stored_result(service: Service, sealed: Sealed, shape: ResultShape) -> StoredResult:
    """The result that ``sealed`` bytes are, to be fetched from this agent until its spool drops them."""
    return StoredResult(
        result_id=sealed.result_id,
        url=f"{service.public_url}/results/{quote(sealed.result_id, safe='')}",
        media_type=shape.media_type,
        digest=sealed.digest,
        size=sealed.size,
        row_count=shape.row_count,
        truncated=shape.truncated,
        as_of=shape.as_of,
        expires_at=service.spool.expiry(),
    )
