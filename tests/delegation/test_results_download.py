"""What another agent sends when its result is fetched is written as it comes, and good only when it is what was signed."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import httpx
import pyarrow as pa
import pytest

from contract.call import ARROW_MEDIA_TYPE, RESULT_MEDIA_TYPE
from contract.canonical import sha256_hex
from contract.result import StoredResult
from contract.schema import ResultColumn
from contract.verdict import NotGranted, Reason
from delegation.results import Download, open_downloads, result_address
from delegation.results_file import check_form, whole_file
from queries.arrow_form import arrow_schema
from queries.document import head, tail
from tests.contract.loopback_server import Answer, LoopbackServer, loopback, reply

COLUMNS = (ResultColumn.model_validate({"name": "x", "type": "INT64"}),)
AS_OF = "2026-08-31T00:00:00.000000Z"
ROWS = b",".join(b"[%d]" % n for n in range(5_000))
BODY = head(COLUMNS) + ROWS + tail(5_000, False, AS_OF)
JSON_TYPE = f"Content-Type: {RESULT_MEDIA_TYPE}\r\n"


def stored(body: bytes = BODY, **changes: object) -> StoredResult:
    told = StoredResult(
        "task-1", "", RESULT_MEDIA_TYPE, sha256_hex(body), len(body), 5_000, False, AS_OF, 2_000_000_000.0
    )
    return replace(told, **changes)  # type: ignore[arg-type]


def download(**changes: object) -> tuple[Download, io.BytesIO]:
    sink = io.BytesIO()
    return Download(stored(**changes), COLUMNS, sink), sink  # type: ignore[arg-type]


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with open_downloads(5.0) as client:
        yield client


async def attempt(answer: Answer, http: httpx.AsyncClient, **changes: object) -> tuple[Download, io.BytesIO]:
    fetching, sink = download(**changes)
    async with loopback(answer) as server:
        await fetching.attempt(http, server.url("/results/task-1"), {"Execution-Grant": "g"})
    return fetching, sink


async def refused(answer: Answer, http: httpx.AsyncClient, **changes: object) -> Reason:
    async def all_of_it() -> None:
        fetching, _ = await attempt(answer, http, **changes)
        fetching.finish()

    with pytest.raises(NotGranted) as stop:
        await all_of_it()
    return stop.value.reason


def sent(body: bytes, **more: str) -> Answer:
    head_lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in more.items())
    return reply(body, head=head_lines if "Content_Type" in more else JSON_TYPE + head_lines)


async def test_what_was_signed_is_written_and_holds(http: httpx.AsyncClient) -> None:
    fetching, sink = await attempt(sent(BODY), http)
    fetching.finish()
    assert (fetching.whole, sink.getvalue()) == (True, BODY)


@pytest.mark.parametrize(
    "body",
    [BODY[:-1] + b" ", BODY[:100] + b"9" + BODY[101:], BODY + b" ", b""],
    ids=["end", "middle", "longer", "empty"],
)
async def test_other_bytes_are_not_used(http: httpx.AsyncClient, body: bytes) -> None:
    assert await refused(sent(body), http) is Reason.REMOTE_PROVENANCE_INVALID


@pytest.mark.parametrize(
    "body",
    [
        head(COLUMNS) + ROWS + tail(4_999, False, AS_OF),
        head(COLUMNS) + ROWS + tail(5_000, True, AS_OF),
        BODY.replace(b'"name":"x"', b'"name":"y"'),
    ],
    ids=["count", "truncated", "columns"],
)
async def test_a_document_that_says_something_else_is_not_used_although_it_is_signed(
    http: httpx.AsyncClient, body: bytes
) -> None:
    assert await refused(sent(body), http, body=body) is Reason.REMOTE_PROVENANCE_INVALID


async def test_what_never_ends_is_left_at_the_size_that_was_signed(http: httpx.AsyncClient) -> None:
    async def endless(writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n{JSON_TYPE}\r\n".encode())
        while True:
            writer.write(b"10000\r\n" + bytes(65_536) + b"\r\n")
            await writer.drain()

    fetching, sink = download()
    async with loopback(endless) as server:
        with pytest.raises(NotGranted) as stop:
            await fetching.attempt(http, server.url(), {})
    assert stop.value.reason is Reason.REMOTE_PROVENANCE_INVALID
    assert len(sink.getvalue()) <= len(BODY)


@pytest.mark.parametrize(
    "answer",
    [
        sent(BODY, Content_Type="text/html"),
        sent(BODY, Content_Encoding="gzip"),
        reply(BODY, status="206 Partial Content", head=JSON_TYPE + f"Content-Range: bytes 0-9/{len(BODY)}\r\n"),
        reply(BODY, status="203 Elsewhere", head=JSON_TYPE),
    ],
    ids=["type", "encoded", "a part", "another status"],
)
async def test_something_else_than_was_asked_for_is_not_written(http: httpx.AsyncClient, answer: Answer) -> None:
    assert await refused(answer, http) in (Reason.REMOTE_RESPONSE_INVALID, Reason.REMOTE_FAULT)


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "307 Temporary", "308 Permanent"])
async def test_no_redirect_is_followed(http: httpx.AsyncClient, status: str) -> None:
    async with loopback(sent(BODY)) as elsewhere:
        moved = reply(b"", status=status, head=f"Location: {elsewhere.url()}\r\n")
        assert await refused(moved, http) is Reason.REMOTE_FAULT
        assert elsewhere.requests == []


async def test_a_refusal_keeps_the_agents_own_reason(http: httpx.AsyncClient) -> None:
    problem = json.dumps({"decision": {"reason": "RESULT_NOT_FOUND", "verdict": "REFUSED"}}).encode()
    assert await refused(reply(problem, status="404 Not Found"), http) is Reason.RESULT_NOT_FOUND


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        (b'{"decision": {"reason": "PRINCIPAL_AUTHORIZED"}}', "403 Forbidden", Reason.REMOTE_FAULT),
        (b'{"decision": {"reason": "ZEBRA"}}', "403 Forbidden", Reason.REMOTE_FAULT),
        (b'{"decision": 1}', "403 Forbidden", Reason.REMOTE_FAULT),
        (b"<html>", "404 Not Found", Reason.REMOTE_FAULT),
        (b"<html>", "503 Unavailable", Reason.REMOTE_UNAVAILABLE),
        (b'{"decision": {"reason": "GRANT_EXPIRED"}, "x": "' + b"z" * 70_000 + b'"}', "403 No", Reason.REMOTE_FAULT),
    ],
)
async def test_a_refusal_that_says_nothing_readable_is_a_fault(
    http: httpx.AsyncClient, body: bytes, status: str, reason: Reason
) -> None:
    assert await refused(reply(body, status=status), http) is reason


async def test_what_broke_off_goes_on_where_it_was(http: httpx.AsyncClient) -> None:
    async def broken(writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {len(BODY)}\r\n{JSON_TYPE}\r\n".encode() + BODY[:1_000])

    fetching, sink = download()
    async with loopback(broken) as server:
        with pytest.raises(NotGranted) as stop:
            await fetching.attempt(http, server.url(), {})
    assert (stop.value.reason, fetching.received, fetching.whole) == (Reason.REMOTE_UNREACHABLE, 1_000, False)
    span = f"Content-Range: bytes 1000-{len(BODY) - 1}/{len(BODY)}\r\n"
    rest = reply(BODY[1_000:], status="206 Partial Content", head=JSON_TYPE + span)
    async with loopback(rest) as server:
        await fetching.attempt(http, server.url(), {})
        assert "range: bytes=1000-" in server.requests[0].lower()
    fetching.finish()
    assert sink.getvalue() == BODY


@pytest.mark.parametrize(
    "span", ["", "bytes 0-{end}/{size}", "bytes 1000-1999/{size}", "bytes 1000-{end}/99999", "rows 1000-{end}/{size}"]
)
async def test_another_part_than_was_asked_for_is_not_written(http: httpx.AsyncClient, span: str) -> None:
    fetching, _ = download()
    await fetching._take(BODY[:1_000])
    told = span.format(end=len(BODY) - 1, size=len(BODY))
    answer = reply(BODY[1_000:], status="206 Partial Content", head=JSON_TYPE + f"Content-Range: {told}\r\n")
    async with loopback(answer) as server:
        with pytest.raises(NotGranted) as stop:
            await fetching.attempt(http, server.url(), {})
    assert (stop.value.reason, fetching.received) == (Reason.REMOTE_RESPONSE_INVALID, 1_000)


async def test_a_whole_answer_to_a_part_is_not_appended(http: httpx.AsyncClient) -> None:
    fetching, _ = download()
    await fetching._take(BODY[:1_000])
    async with loopback(sent(BODY)) as server:
        with pytest.raises(NotGranted):
            await fetching.attempt(http, server.url(), {})
    assert fetching.received == 1_000


async def test_an_agent_that_is_gone_or_silent_is_an_outcome() -> None:
    async def silent(_: asyncio.StreamWriter) -> None:
        await asyncio.sleep(5)

    async with open_downloads(0.1) as http, loopback(silent) as server:
        assert await refused_at(server, http) is Reason.REMOTE_TIMEOUT
    async with open_downloads(1.0) as http:
        assert await refused_at(server, http) is Reason.REMOTE_UNREACHABLE


async def refused_at(server: LoopbackServer, http: httpx.AsyncClient) -> Reason:
    with pytest.raises(NotGranted) as stop:
        await download()[0].attempt(http, server.url(), {})
    return stop.value.reason


@pytest.mark.parametrize("rpc_url", ["https://agent.example/", "https://agent.example/under/a/path/"])
def test_the_address_follows_from_the_card(rpc_url: str) -> None:
    assert result_address(rpc_url, stored(url=f"{rpc_url}results/task-1")) == f"{rpc_url}results/task-1"


@pytest.mark.parametrize(
    "url",
    [
        "https://elsewhere.example/results/task-1",
        "http://agent.example/results/task-1",
        "https://agent.example:8443/results/task-1",
        "https://agent.example/results/task-2",
        "https://agent.example/results/../admin",
        "https://agent.example@elsewhere.example/results/task-1",
        "https://agent.example/results/task-1?x=1",
        "http://169.254.169.254/latest/meta-data",
        "file:///etc/passwd",
        "",
    ],
)
def test_a_reply_that_names_another_place_is_refused(url: str) -> None:
    with pytest.raises(NotGranted) as stop:
        result_address("https://agent.example/", stored(url=url))
    assert stop.value.reason is Reason.REMOTE_RESPONSE_INVALID


def test_an_id_is_no_path(tmp_path: Path) -> None:
    told = stored(result_id="../a b", url="https://agent.example/results/..%2Fa%20b")
    assert result_address("https://agent.example/", told).endswith("/results/..%2Fa%20b")


def arrow(columns: tuple[ResultColumn, ...], rows: int) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, arrow_schema(columns)) as stream:
        stream.write_batch(pa.record_batch([pa.array(range(rows))], schema=arrow_schema(columns)))
    return sink.getvalue()


@pytest.mark.parametrize(
    ("body", "holds"),
    [
        (arrow(COLUMNS, 5_000), True),
        (arrow(COLUMNS, 4_999), False),
        (arrow((ResultColumn.model_validate({"name": "y", "type": "INT64"}),), 5_000), False),
        (arrow(COLUMNS, 5_000)[:-2_000], False),
        (b"no arrow", False),
        (b"", False),
    ],
    ids=["good", "count", "columns", "cut", "other", "empty"],
)
def test_an_arrow_stream_has_the_columns_and_the_count(tmp_path: Path, body: bytes, holds: bool) -> None:
    told = stored(body, media_type=ARROW_MEDIA_TYPE)
    path = tmp_path / "rows.arrow"

    def written() -> None:
        with whole_file(path) as file:
            file.write(body)
            check_form(file, told, COLUMNS)

    if holds:
        written()
    else:
        with pytest.raises(NotGranted):
            written()
    assert [item.name for item in tmp_path.iterdir()] == (["rows.arrow"] if holds else [])


def test_a_file_that_was_not_finished_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    path.write_text("before")

    def interrupted() -> None:
        with whole_file(path) as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [item.read_text() for item in tmp_path.iterdir()] == ["before"]
