"""Rubbish at the HTTP door: a known client may send anything, and gets JSON, a known error, and never a fault."""

from __future__ import annotations

import base64
import contextlib
import json
import random
import socket
import string
from collections.abc import Iterator
from typing import Any

import pytest

from contract.extension import EXTENSION_URI, GRANT_HEADER
from contract.verdict import Reason
from tests.attacks.attack_world import DOORS, Door, Reply, Scene, Target

JSON_RPC_CODES = {
    -32700,  # not JSON
    -32600,  # no request
    -32601,  # no such method
    -32602,  # no such parameters
    -32001,  # no such task
    -32002,  # not cancelable
    -32003,  # no push notifications
    -32004,  # not supported
    -32005,  # content type
    -32008,  # the extension is required
    -32009,  # version
}
STATUSES = {200, 400, 404, 405, 409, 413, 415, 501}
ROUTES = ("/", "/message:send", "/message:stream", "/acme/message:send", "/tasks/x:cancel", "/tasks/x:subscribe")
EVERY_DOOR = pytest.mark.parametrize("door", DOORS, ids=lambda door: door.name)


def send(target: Target, path: str, body: bytes, *, verb: str = "POST", grant: str | bytes | None = None) -> Reply:
    lines: list[tuple[str, str | bytes]] = [
        ("Content-Type", "application/json"),
        ("A2A-Version", "1.0"),
        ("A2A-Extensions", EXTENSION_URI),
        ("Authorization", f"Bearer {target.assertion(target.root_id)}"),
    ]
    if grant is not None:
        lines.append((GRANT_HEADER, grant))
    return target.exchange(verb, path, lines, body)


def answered(reply: Reply) -> None:
    """A status that is known, JSON, and where it is a JSON-RPC error one of the known codes."""
    assert reply.status in STATUSES
    for event in reply.events:
        error = event.get("error")
        if isinstance(error, dict) and error.get("code", 0) < 0:
            assert error["code"] in JSON_RPC_CODES, error


def bodies(rng: random.Random, honest: bytes) -> Iterator[bytes]:
    """Mutations of a good body, and bodies that never were one."""
    for _ in range(40):
        spoiled = bytearray(honest)
        for _ in range(rng.randint(1, 4)):
            spoiled[rng.randrange(len(spoiled))] ^= 1 << rng.randrange(8)
        yield bytes(spoiled)
        cut = rng.randrange(len(honest))
        yield honest[:cut]
        yield honest[:cut] + rng.randbytes(rng.randint(1, 30)) + honest[cut:]
    for _ in range(40):
        yield json.dumps(_value(rng, 4)).encode()
        yield json.dumps(_replaced(rng, json.loads(honest))).encode()
        yield rng.randbytes(rng.randint(0, 300))
    yield from (b"", b"null", b"[]", b"{}", b'""', b"1", b"[[]]", b"\xef\xbb\xbf{}", b'{"params":{"message":null}}')
    yield b'{"id":' + b"9" * 300 + b"}"
    yield b"[" * 33
    yield b'"' + b'\\"' * 32_000
    yield honest.replace(b'"id": 1', b'"id": 1e999')


def _value(rng: random.Random, depth: int) -> Any:
    kind = rng.randrange(8 if depth else 6)
    if kind < 6:
        text = "".join(rng.choice(string.printable + "\u00e9\u202e\U0001f9ea") for _ in range(rng.randint(0, 12)))
        return (None, True, rng.randrange(-(10**20), 10**20), rng.uniform(-1e300, 1e300), text, "SendMessage")[kind]
    if kind == 6:
        return [_value(rng, depth - 1) for _ in range(rng.randint(0, 3))]
    names = ("message", "parts", "messageId", "raw", "text", "params", "method", "jsonrpc", "id", "x")
    return {rng.choice(names): _value(rng, depth - 1) for _ in range(rng.randint(0, 4))}


def _replaced(rng: random.Random, held: Any) -> Any:
    """One member or more of a good body replaced by something else."""
    if rng.random() < 0.15:
        return _value(rng, 2)
    if isinstance(held, dict):
        return {name: _replaced(rng, value) for name, value in held.items() if rng.random() < 0.95}
    return [_replaced(rng, item) for item in held] if isinstance(held, list) else held


@pytest.mark.parametrize("path", ROUTES)
def test_no_body_makes_a_fault(target: Target, path: str) -> None:
    scene = Scene(target, DOORS[0])
    part = {"raw": base64.b64encode(scene.call).decode(), "mediaType": "application/json"}
    message = {"messageId": "m-1", "role": "ROLE_USER", "parts": [part]}
    door = DOORS[0] if path == "/" else DOORS[2]
    runs = target.runs()
    for body in bodies(random.Random(f"bodies {path}"), door.body(message)):
        answered(send(target, path, body))
    assert target.runs() == runs


@pytest.mark.parametrize(
    "path", ["/tasks/%00", "/tasks/..%2f..", "/tasks/" + "x" * 3_000, "/tasks?pageSize=-1", "/%ff/x"]
)
def test_no_path_makes_a_fault(target: Target, path: str) -> None:
    for verb in ("GET", "POST", "DELETE", "PATCH"):
        answered(send(target, path, b"", verb=verb))


@EVERY_DOOR
def test_no_grant_header_makes_a_fault(target: Target, door: Door) -> None:
    """Bytes that HTTP lets through: each is a refusal by name, and a row."""
    rng = random.Random(f"headers {door.name}")
    scene = Scene(target, door)
    honest = scene.honest.encode()
    visible = bytes([9, *range(32, 127), *range(128, 256)])
    for _ in range(40):
        spoiled = bytearray(honest)
        for _ in range(rng.randint(1, 3)):
            spoiled[rng.randrange(len(spoiled))] = rng.choice(visible)
        rubbish = bytes(rng.choice(visible) for _ in range(rng.randint(0, 9_000)))
        for grant in (bytes(spoiled), rubbish, honest[: rng.randrange(len(honest))]):
            if grant == honest:
                continue
            rows, runs = target.rows(), target.runs()
            reply = target.post(door, scene.call, (grant,), client=target.root_id)
            assert reply.state == "TASK_STATE_REJECTED"
            assert Reason(reply.decision["reason"]).name.startswith(("GRANT_", "NO_ACTIVE_GRANT"))
            assert (target.rows(), target.runs()) == (rows + 1, runs)


@pytest.mark.parametrize(
    "line",
    [
        b"Execution-Grant: a\x00b",
        b"Execution-Grant: a\rb",
        b"Execution-Grant : a",
        b"Execution Grant: a",
        b"Execution-Grant: " + b"A" * 300_000,
        b"\xff\xfe: a",
        b": a",
    ],
    ids=["NUL", "carriage return", "blank before the colon", "blank in the name", "300,000 bytes", "bytes", "no name"],
)
def test_what_is_no_http_is_turned_away_by_the_server(target: Target, line: bytes) -> None:
    rows = target.rows()
    host, port = target.agent.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as raw:
        with contextlib.suppress(ConnectionError):
            raw.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n" + line + b"\r\n\r\n{}")
        assert raw.recv(64).startswith(b"HTTP/1.1 400 ")
    assert target.rows() == rows


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/.well-known/agent-card.json", "/.well-known/jwks.json"])
def test_a_body_on_a_public_route_is_not_looked_at(target: Target, path: str) -> None:
    """Anybody may send one, and 256 KiB of escaped quotes would be dear to look at from every quote."""
    reply = target.exchange("GET", path, [], b'"' + b'\\"' * 131_000)
    assert reply.status == 200
    assert target.exchange("GET", path, [], b'"' + b'\\"' * 200_000).status == 413
