"""A dataset agent with a million readings, and somebody who fetches them as fast as a socket gives them."""

from __future__ import annotations

import base64
import json
import re
import socket
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import duckdb
import yaml

from benchmarks.servers import Server, free_port
from contract.call import ARROW_MEDIA_TYPE, GET_RESULTS, RESULT_MEDIA_TYPE, Operation, encode_call
from contract.canonical import sha256_hex
from contract.extension import EXTENSION_URI, GRANT_HEADER
from contract.ids import new_id
from contract.scope import Scope, Sensitivity
from contract.settings import Settings
from contract.verdict import Decision, Reason
from control_plane.principals import load_directory
from control_plane.registry import load_registry
from grants.client import client_assertion
from grants.derive import derive, header_value
from grants.key_files import FileSigner
from grants.keys import init_keys
from grants.mint import mint_root
from grants.trust import load_trust

DATASET: Final = "readings"
ROWS: Final = 1_000_000
_AT_ONCE: Final = 2**20
_COLUMNS: Final = {
    "id": ("INT64", "i"),
    "site": ("STRING", "'site-' || (i % 40)"),
    "product": ("STRING", "'product-' || (i % 700)"),
    "day": ("DATE", "DATE '2020-01-01' + CAST(i % 2000 AS INTEGER)"),
    "at": ("TIMESTAMP", "TIMESTAMPTZ '2024-01-01 00:00:00+00' + INTERVAL (i) SECOND"),
    "amount": ("NUMERIC", "CAST(i * 7 % 100003 / 1000 AS DECIMAL(38, 9))"),
    "units": ("INT64", "i * 7919 % 1000"),
    "value": ("FLOAT64", "i / 7.0"),
    "good": ("BOOL", "i % 3 = 0"),
    "note": ("STRING", "'reading ' || (i * 7919 % 1000000007)"),
}
SELECT: Final = ", ".join(f"r.{name} AS {name}" for name in _COLUMNS)
_SCHEMA: Final = """
entity Principal = { tenant: String, principal_class: String, clearance: String, attributes: {} };
entity Dataset;
type Request = { entitled: Bool, effect: String, sensitivity: String, tenant: String };
action list appliesTo { principal: [Principal], resource: [Dataset], context: Request };
"""
_POLICY: Final = '@id("B-1") permit (principal, action, resource) when { context.entitled };'


@dataclass(frozen=True)
class World:
    """A dataset of a million rows, a person who may have all of them, and the keys of who asks."""

    folder: Path

    def __post_init__(self) -> None:
        dataset = self.settings.datasets / DATASET
        dataset.mkdir(parents=True)
        (self.settings.datasets / "policies").mkdir()
        table = ", ".join(f"{made} AS {name}" for name, (_, made) in _COLUMNS.items())
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone='UTC'")
            made = f"COPY (SELECT {table} FROM range({ROWS}) AS t(i)) TO '{dataset}/reading.parquet'"
            connection.execute(made)
        (dataset / "list.sql").write_text(f"SELECT {SELECT} FROM reading AS r WHERE r.id < @below ORDER BY r.id")
        (dataset / "descriptor.json").write_text(json.dumps(_descriptor()))
        policies = self.settings.datasets / "policies"
        (policies / "b.cedar").write_text(_POLICY)
        (policies / "b.cedarschema").write_text(_SCHEMA)
        (policies / "version").write_text("1\n")
        person = {
            "name": "engineer",
            "subject": "u-engineer",
            "tenant": "acme",
            "principal_class": "engineer",
            "clearance": "internal",
            "entitlements": {DATASET: ["list"]},
        }
        people = {"issuer": self.settings.issuer_url, "principals": [person]}
        (self.settings.datasets / "principals.yaml").write_text(yaml.safe_dump(people))
        init_keys(self.settings)

    @property
    def settings(self) -> Settings:
        return Settings(home=self.folder / "home", datasets=self.folder / "datasets")

    def serve(self) -> Server:
        port = free_port()
        command = [str(Path(sys.executable).parent / "dataset-agent"), "serve", "--port", str(port)]
        settings = {
            "DATASET_AGENT_HOME": str(self.settings.home),
            "DATASET_AGENT_DATASETS": str(self.settings.datasets),
            # One person has a quarter of it, and asks here for what many would.
            "DATASET_AGENT_SPOOL_MAX_BYTES": str(2**35),
        }
        return Server.start(command, port, core=0, env=settings)

    def held(self, rows: int) -> tuple[float, float]:
        """MiB that a fresh process holds at most: while it makes such a result, and while it hands it out.

        In both forms, after a small one; what its start took is not counted.
        """
        server = self.serve()
        most = [0.0, 0.0]
        try:
            for below in (1_000, rows):
                for form in (ARROW_MEDIA_TYPE, RESULT_MEDIA_TYPE):
                    _forget_peak(server.process.pid)
                    task = self.asked(server.port, below, form)
                    most[0] = max(most[0] if below == rows else 0.0, _peak(server.process.pid))
                    if below == rows:
                        _forget_peak(server.process.pid)
                        self.fetched(server.port, task)
                        most[1] = max(most[1], _peak(server.process.pid))
        finally:
            server.stop()
        return most[0], most[1]

    def asked(self, port: int, rows: int, form: str) -> str:
        """One call whose result waits; its task."""
        call = encode_call(DATASET, "list", {"below": rows})
        part = {"raw": base64.b64encode(call).decode(), "mediaType": RESULT_MEDIA_TYPE}
        message = {"messageId": new_id("msg"), "role": "ROLE_USER", "parts": [part]}
        params = {"message": message, "configuration": {"acceptedOutputModes": [form]}}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}).encode()
        operation = Operation("SendMessage", call_hash=sha256_hex(call))
        answer = bytearray()
        _exchange(port, _request("POST / HTTP/1.1", port, self._headers(operation), body), answer)
        task: dict[str, Any] = json.loads(answer)["result"]["task"]
        if task["status"]["state"] != "TASK_STATE_COMPLETED":
            raise SystemExit(f"the call was not granted: {task['metadata']}")
        return str(task["id"])

    def fetched(self, port: int, task: str) -> int:
        """One download under a fresh leaf; the bytes that came."""
        headers = self._headers(Operation(GET_RESULTS, task=task))
        return _exchange(port, _request(f"GET /results/{task} HTTP/1.1", port, headers))

    def _headers(self, operation: Operation) -> dict[str, str]:
        settings, now = self.settings, time.time()
        holder = FileSigner.load(settings.root_dir / "holder.jwk")
        trust = load_trust(settings.trust_path)
        principal = load_directory(settings.datasets / "principals.yaml").named("engineer")
        descriptor = load_registry(settings.datasets).datasets[DATASET]
        if principal is None:
            raise SystemExit("the benchmark's world lacks its person")
        root = mint_root(
            FileSigner.load(settings.issuer_dir / "grant.jwk"),
            issuer_url=settings.issuer_url,
            decision=Decision(Reason.PRINCIPAL_AUTHORIZED, "B-1", "1", "the benchmark's own root admits the call"),
            principal=principal,
            holder=trust.agents[settings.root_id],
            scope=Scope(
                dataset=DATASET,
                dataset_version=descriptor.version,
                revision=descriptor.revision,
                actions=frozenset({"list"}),
                locations=frozenset({settings.agent_id}),
                max_sensitivity=Sensitivity.INTERNAL,
            ),
            intent="list",
            rctx={"trace_id": sha256_hex(new_id("trace").encode())[:32]},
            now=now,
        )
        remote = trust.agents[settings.agent_id]
        leaf = derive((root,), holder, audience=remote, operation=operation, now=now)
        bearer = client_assertion(holder, agent_id=settings.root_id, audience=settings.agent_id, now=now)
        return {
            "A2A-Version": "1.0",
            "A2A-Extensions": EXTENSION_URI,
            "Authorization": f"Bearer {bearer}",
            GRANT_HEADER: header_value(leaf),
        }


def _forget_peak(pid: int) -> None:
    """Linux: the peak of a process's memory begins anew (``man 5 proc``, clear_refs)."""
    Path(f"/proc/{pid}/clear_refs").write_text("5", encoding="ascii")


def _peak(pid: int) -> float:
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(encoding="utf-8"))
    return int(found[1]) / 1024 if found else float("nan")


def _request(line: str, port: int, headers: dict[str, str], body: bytes = b"") -> bytes:
    told = {"Host": f"127.0.0.1:{port}", **headers, "Connection": "close", "Content-Length": str(len(body))}
    return "\r\n".join([line, *(f"{name}: {value}" for name, value in told.items())]).encode() + b"\r\n\r\n" + body


def _exchange(port: int, request: bytes, kept: bytearray | None = None) -> int:
    """Send one request and read its whole answer; its bytes, which are ``kept`` where that is asked for."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(request)
        head = b""
        while b"\r\n\r\n" not in head:
            head += connection.recv(65_536)
        head, _, body = head.partition(b"\r\n\r\n")
        if b" 200 " not in head.partition(b"\r\n")[0]:
            raise SystemExit(f"the dataset agent answered {head[:200]!r}")
        if kept is not None:
            kept += body
        return len(body) + rest_of(connection, kept)


def rest_of(connection: socket.socket, kept: bytearray | None) -> int:
    buffer, size = bytearray(_AT_ONCE), 0
    while count := connection.recv_into(buffer):
        size += count
        if kept is not None:
            kept += buffer[:count]
    return size


def _descriptor() -> dict[str, Any]:
    columns = [{"name": name, "type": kind} for name, (kind, _) in _COLUMNS.items()]
    return {
        "dataset": DATASET,
        "description": "Readings, a million.",
        "tenant": "acme",
        "version": "1",
        "revision": "r1",
        "schema_version": "1",
        "as_of": "2026-08-31T00:00:00Z",
        "freshness": {"maximum_age_s": 86_400},
        "provenance": {"system": "bench", "source": "readings"},
        "tables": [{"name": "reading", "file": "reading.parquet", "columns": columns}],
        "capabilities": [
            {
                "name": "list",
                "description": "readings",
                "effect": "read",
                "tool_name": "list",
                "template": "list.sql",
                "max_rows": 10_000_000,
                "parameters": [{"name": "below", "type": "INT64", "description": "Ids below this one."}],
                "results": columns,
            }
        ],
    }
