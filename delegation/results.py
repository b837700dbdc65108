"""Fetching what a reply only describes: by a bounded client, from the agent that was asked, and from nowhere else.

The address is not taken from the reply: it follows from the verified card and the task, and a
reply that names another one is refused. No redirect is followed and no proxy used. What comes is
written as it comes, its size bounded by what was signed, and is good only when it ends with the
signed digest. A download that breaks off goes on where it was, each time under a fresh leaf.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol
from urllib.parse import quote

import httpx

from contract.call import ARROW_MEDIA_TYPE, GET_RESULTS, Operation
from contract.canonical import InvalidJson, parse_json
from contract.result import StoredResult
from contract.schema import ResultColumn
from contract.signing import Signer
from contract.verdict import VERDICTS, NotGranted, Reason, Verdict
from delegation.http import CONNECT_TIMEOUT, UNAVAILABLE, authorities, busy
from delegation.sending import Plan, Sent, send_with_leaf
from delegation.wire import service_parameters
from grants.trust import TrustedAgent
from queries.document import head, tail

_MAX_PROBLEM: Final = 64 * 1024
_MAX_HEAD: Final = 256 * 1024
"""Of a document before its first row."""
_CONTENT_RANGE: Final = re.compile(r"bytes ([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18})")

Progress = Callable[[int, int], None]
"""Told how many bytes have come, and how many will."""


class Sink(Protocol):
    """Where the bytes go. Nothing in it may be used before the download is whole.

    What ``write`` returns is awaited where it can be: so a sink may take its time.
    """

    def write(self, data: bytes, /) -> object: ...


def open_downloads(timeout: float) -> httpx.AsyncClient:
    """A client whose replies are read piece by piece; ``timeout`` is how long the next piece may take, in seconds."""
    return httpx.AsyncClient(
        transport=httpx.AsyncHTTPTransport(verify=authorities()),
        timeout=httpx.Timeout(timeout, connect=CONNECT_TIMEOUT),
        follow_redirects=False,
        trust_env=False,
    )


def result_address(rpc_url: str, stored: StoredResult) -> str:
    """Where an agent's results are, by its verified card. Raises ``NotGranted`` where its reply says otherwise."""
    address = f"{rpc_url.rstrip('/')}/results/{quote(stored.result_id, safe='')}"
    if stored.url != address:
        raise NotGranted(
            Reason.REMOTE_RESPONSE_INVALID, "the reply names another place for the result than its agent's own"
        )
    return address


def send_for_result(
    plan: Plan,
    stored: StoredResult,
    signer: Signer,
    *,
    client: str,
    audience: TrustedAgent | None,
    now: float,
    ttl: int,
    headers: Callable[[str, str], Mapping[str, str]],
) -> Sent:
    """A fresh leaf to fetch exactly this result, which its receiver cannot pass on. Raises as ``send_with_leaf``.

    It covers all that the call needed, since the result was made under all of it.
    """
    return send_with_leaf(
        replace(plan, max_depth=len(plan.chain)),
        signer,
        client=client,
        audience=audience,
        now=now,
        ttl=ttl,
        headers=lambda agent, grant: service_parameters(None, headers(agent, grant)),
        operation=Operation(GET_RESULTS, task=stored.result_id),
    )


@dataclass(slots=True)
class Download:
    """One result on its way into a sink, however many attempts it takes."""

    stored: StoredResult
    columns: tuple[ResultColumn, ...]
    sink: Sink
    progress: Progress | None = None
    received: int = 0
    _digest: Any = field(default_factory=hashlib.sha256, repr=False)
    _start: bytes = field(default=b"", repr=False)
    _end: bytes = field(default=b"", repr=False)

    @property
    def whole(self) -> bool:
        return self.received == self.stored.size

    async def attempt(self, http: httpx.AsyncClient, address: str, headers: Mapping[str, str]) -> None:
        """Fetch what is missing; whether it is then ``whole`` is for the caller to look at.

        Raises ``NotGranted``: the agent's own reason where it refused, REMOTE_UNREACHABLE, REMOTE_TIMEOUT,
        REMOTE_UNAVAILABLE, REMOTE_FAULT, REMOTE_RESPONSE_INVALID, and REMOTE_PROVENANCE_INVALID for other bytes
        than were signed.
        """
        asked = {**headers, "Accept-Encoding": "identity", "Accept": self.stored.media_type}
        if self.received:
            asked["Range"] = f"bytes={self.received}-"
        try:
            async with http.stream("GET", address, headers=asked) as response:
                await self._check(response)
                async for piece in response.aiter_raw():  # as it comes: what breaks off has come so far
                    await self._take(piece)
        except httpx.TimeoutException as error:
            raise NotGranted(Reason.REMOTE_TIMEOUT, "the dataset agent sent nothing for too long") from error
        except (httpx.RequestError, OSError) as error:
            raise NotGranted(Reason.REMOTE_UNREACHABLE, "the download broke off") from error

    def finish(self) -> None:
        """That what came is what was signed, and says so itself. Raises ``NotGranted``."""
        if not self.whole or self._digest.hexdigest() != self.stored.digest:
            raise _other_bytes()
        if self.stored.media_type == ARROW_MEDIA_TYPE:
            return
        start, end = head(self.columns), tail(self.stored.row_count, self.stored.truncated, self.stored.as_of)
        if not (self._start.startswith(start) and self._end.endswith(end)):
            raise NotGranted(
                Reason.REMOTE_PROVENANCE_INVALID, "the result is not used: it says something else than its provenance"
            )

    async def _check(self, response: httpx.Response) -> None:
        if response.status_code not in (httpx.codes.OK, httpx.codes.PARTIAL_CONTENT):
            raise await _refusal(response)
        wanted = httpx.codes.PARTIAL_CONTENT if self.received else httpx.codes.OK
        if response.status_code != wanted or response.headers.get("Content-Encoding", "identity") != "identity":
            raise _unasked()
        if response.headers.get("Content-Type") != self.stored.media_type:
            raise _unasked()
        if self.received:
            found = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
            size = self.stored.size
            if found is None or tuple(map(int, found.groups())) != (self.received, size - 1, size):
                raise _unasked()

    async def _take(self, piece: bytes) -> None:
        if self.received + len(piece) > self.stored.size:
            raise _other_bytes()
        self._digest.update(piece)
        if len(self._start) < _MAX_HEAD:
            self._start = (self._start + piece)[:_MAX_HEAD]
        self._end = (self._end + piece)[-1024:]
        taking = self.sink.write(piece)
        if isinstance(taking, Awaitable):
            await taking
        self.received += len(piece)
        if self.progress is not None:
            self.progress(self.received, self.stored.size)


async def _refusal(response: httpx.Response) -> NotGranted:
    """What an answer without rows amounts to: the agent's own reason where it gives one that is readable."""
    reason = _stated(await _bounded(response))
    if reason is not None:
        return NotGranted(reason, f"the dataset agent answered {reason.value} when the result was fetched")
    status = response.status_code
    if status in UNAVAILABLE:
        return NotGranted(Reason.REMOTE_UNAVAILABLE, f"the dataset agent answered with {busy(response)}")
    return NotGranted(Reason.REMOTE_FAULT, f"the dataset agent answered with HTTP {status}")


async def _bounded(response: httpx.Response) -> bytes:
    body = bytearray()
    async for piece in response.aiter_raw():
        body += piece
        if len(body) > _MAX_PROBLEM:
            return b""
    return bytes(body)


def _stated(body: bytes) -> Reason | None:
    try:
        problem = parse_json(body, limit=_MAX_PROBLEM)
        reason = Reason(problem["decision"]["reason"])
    except (InvalidJson, KeyError, TypeError, ValueError):
        return None
    return None if VERDICTS[reason] is Verdict.GRANTED else reason


def _unasked() -> NotGranted:
    return NotGranted(Reason.REMOTE_RESPONSE_INVALID, "the dataset agent sends something else than was asked for")


def _other_bytes() -> NotGranted:
    return NotGranted(Reason.REMOTE_PROVENANCE_INVALID, "the result is not used: other bytes came than were signed")
