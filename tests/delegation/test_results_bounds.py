"""What a download sends and takes beside the result itself: nothing of the environment, and no refusal without end."""

from __future__ import annotations

import asyncio
import io
import json
import stat
from pathlib import Path

import pytest

from contract.call import ARROW_MEDIA_TYPE, Call, encode_call
from contract.canonical import unb64url
from contract.result import StoredResult
from contract.verdict import NotGranted, Reason
from delegation import results
from delegation.results import open_downloads, send_for_result
from delegation.results_file import whole_file
from delegation.sending import Plan
from tests.contract.loopback_server import loopback, reply
from tests.delegation.test_results_download import BODY, JSON_TYPE, download
from tests.grants.grants_world import NOW, REMOTE, ROOT, SIGNERS, agent, make_root, make_scope

SCOPE = make_scope(locations=frozenset({REMOTE}))


async def test_nothing_of_the_environment_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login somebody password zebra\n")
    (tmp_path / "netrc").chmod(0o600)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    async with loopback(reply(BODY, head=JSON_TYPE)) as server, open_downloads(5.0) as http:
        await download()[0].attempt(http, server.url("/results/task-1"), {})
        (request,) = server.requests
    assert "authorization" not in request.lower()


async def test_fewer_bytes_than_were_signed_are_not_used_whatever_their_digest() -> None:
    fetching, _ = download(size=len(BODY) + 1)
    async with loopback(reply(BODY, head=JSON_TYPE)) as server, open_downloads(5.0) as http:
        await fetching.attempt(http, server.url("/results/task-1"), {})
    with pytest.raises(NotGranted) as stop:
        fetching.finish()
    assert stop.value.reason is Reason.REMOTE_PROVENANCE_INVALID


async def test_a_byte_more_than_was_signed_is_not_written() -> None:
    fetching, sink = download(size=len(BODY) - 1)
    async with loopback(reply(BODY, head=JSON_TYPE)) as server, open_downloads(5.0) as http:
        with pytest.raises(NotGranted) as stop:
            await fetching.attempt(http, server.url("/results/task-1"), {})
    assert stop.value.reason is Reason.REMOTE_PROVENANCE_INVALID
    assert len(sink.getvalue()) < len(BODY)


async def test_a_refusal_that_never_ends_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "_MAX_PROBLEM", 1_000)
    written = 0

    async def endless(writer: asyncio.StreamWriter) -> None:
        nonlocal written
        writer.write(b"HTTP/1.1 403 Forbidden\r\nTransfer-Encoding: chunked\r\n\r\n")
        while written < 2**25:
            writer.write(b"10000\r\n" + bytes(65_536) + b"\r\n")
            await writer.drain()
            written += 65_536
        writer.write(b"0\r\n\r\n")

    async with loopback(endless) as server, open_downloads(30.0) as http:
        with pytest.raises(NotGranted) as stop:
            await download()[0].attempt(http, server.url(), {})
    assert stop.value.reason is Reason.REMOTE_FAULT
    assert written < 2**25


def test_a_file_is_its_owners_only_from_the_start(tmp_path: Path) -> None:
    with whole_file(tmp_path / "rows.json") as file:
        (path,) = tmp_path.iterdir()
        assert isinstance(file, io.BufferedRandom)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "rows.json").stat().st_mode) == 0o600


def test_a_leaf_that_fetches_is_for_one_result_and_cannot_be_passed_on() -> None:
    stored = StoredResult("task-1", "", ARROW_MEDIA_TYPE, "0" * 64, 1, 1, False, "", NOW)
    root = make_root(SCOPE, max_depth=2)
    call = Call.parse(encode_call(SCOPE.dataset, "compare_recovery", {}))
    sent = send_for_result(
        Plan(call, REMOTE, SCOPE, (root,)),
        stored,
        SIGNERS[ROOT],
        client=ROOT,
        audience=agent(REMOTE),
        now=NOW,
        ttl=60,
        headers=lambda _, grant: {"grant": grant},
    )
    root_claims, leaf = (json.loads(unb64url(token.split(".")[1])) for token in sent.headers["grant"].split(","))
    assert leaf["op"] == {"method": "GetResults", "task": "task-1"}
    assert root_claims["del_max_depth"] == 2
    assert (leaf["del_depth"], leaf["del_max_depth"]) == (1, 1)
