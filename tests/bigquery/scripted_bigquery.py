"""A BigQuery REST service on loopback that answers by a script and records what it was asked.

It stands for a remote service at the wire: the client, its retries and its threads are the real ones.
"""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

_JOBS = re.compile(r"/bigquery/v2/projects/([^/]+)/jobs")
_JOB = re.compile(r"/bigquery/v2/projects/([^/]+)/jobs/([^/]+)")
_CANCEL = re.compile(r"/bigquery/v2/projects/([^/]+)/jobs/([^/]+)/cancel")
_QUERY = re.compile(r"/bigquery/v2/projects/([^/]+)/queries/([^/]+)")
_TABLE = re.compile(r"/bigquery/v2/projects/([^/]+)/datasets/([^/]+)/tables/([^/]+)")
_TOKEN = re.compile(r"/v1/projects/-/serviceAccounts/([^/:]+):generateAccessToken")


@dataclass(frozen=True)
class Asked:
    """One request as it arrived."""

    method: str
    path: str
    query: dict[str, str]
    body: Any
    authorization: str | None
    at: float


@dataclass
class Script:
    """How the service answers.

    ``rows`` are cells in REST's form; ``runs`` keeps jobs RUNNING until they are cancelled.
    ``lost`` inserts make their job and then lose the connection, ``failing`` are statuses that
    the next inserts get instead, ``deaf`` is the status that every cancel gets. ``slow`` is what
    an insert waits before it answers, in seconds.
    """

    fields: list[dict[str, Any]] = field(default_factory=lambda: [{"name": "x", "type": "INTEGER", "mode": "NULLABLE"}])
    rows: list[list[Any]] = field(default_factory=lambda: [["1"]])
    page: int = 1_000
    runs: bool = False
    error: dict[str, Any] | None = None
    estimate: int = 1_024
    processed: int = 2_048
    billed: int = 10_485_760
    lost: int = 0
    failing: list[tuple[int, str]] = field(default_factory=list)
    deaf: tuple[int, str] | None = None
    broken_dry_run: tuple[int, str, str] | None = None
    slow: float = 0.0
    tables: dict[str, dict[str, Any]] = field(default_factory=dict)
    forbidden: set[str] = field(default_factory=set)


class ScriptedBigQuery:
    """The service while it runs: ``asked`` is every request, ``jobs`` every job that was made."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.asked: list[Asked] = []
        self.jobs: dict[str, dict[str, Any]] = {}
        self.lines: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def calls(self, method: str, pattern: re.Pattern[str]) -> list[Asked]:
        return [asked for asked in self.asked if asked.method == method and pattern.fullmatch(asked.path)]

    @property
    def inserts(self) -> list[Asked]:
        """The jobs that were asked for, dry runs left out."""
        return [a for a in self.calls("POST", _JOBS) if not a.body["configuration"].get("dryRun")]

    @property
    def dry_runs(self) -> list[Asked]:
        return [a for a in self.calls("POST", _JOBS) if a.body["configuration"].get("dryRun")]

    @property
    def cancels(self) -> list[Asked]:
        return self.calls("POST", _CANCEL)

    def until(self, holds: Callable[[], bool], seconds: float = 10.0) -> float:
        """Wait until ``holds``; the seconds it took."""
        started = time.monotonic()
        while not holds():
            if time.monotonic() - started > seconds:
                raise AssertionError("it did not come to that")
            time.sleep(0.005)
        return time.monotonic() - started

    def __enter__(self) -> ScriptedBigQuery:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        for line in list(self.lines):  # a client may keep one, and the thread behind it, as long as it likes
            with suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)

    def answer(self, asked: Asked) -> tuple[int, Any] | None:
        """Status and JSON; ``None`` loses the connection."""
        with self._lock:
            self.asked.append(asked)
        for pattern, method, work in (
            (_CANCEL, "POST", self._cancel),
            (_JOBS, "POST", self._insert),
            (_JOB, "GET", self._get),
            (_QUERY, "GET", self._results),
            (_TABLE, "GET", self._table),
            (_TOKEN, "POST", self._token),
        ):
            found = pattern.fullmatch(asked.path)
            if found and method == asked.method:
                return work(asked, found)
        return _error(404, "notFound", "no such path")

    def _insert(self, asked: Asked, _: re.Match[str]) -> tuple[int, Any] | None:
        script, configuration = self.script, asked.body["configuration"]
        if asked.authorization in script.forbidden:
            return _error(403, "accessDenied", "Access Denied: Table secret-project:d.t")
        if configuration.get("dryRun"):
            if script.broken_dry_run is not None:
                return _error(*script.broken_dry_run)
            return 200, self._resource(asked, {"state": "DONE"}, str(script.estimate))
        if script.failing:
            return _error(*script.failing.pop(0), "a message that quotes 'SECRET-CELL'")
        job_id = asked.body["jobReference"]["jobId"]
        time.sleep(script.slow)
        with self._lock:
            if job_id in self.jobs:
                return _error(409, "duplicate", f"Already Exists: Job {job_id}")
            status: dict[str, Any] = {"state": "RUNNING" if script.runs else "DONE"}
            if script.error is not None and not script.runs:
                status |= {"errorResult": script.error, "errors": [script.error]}
            job = self.jobs[job_id] = self._resource(asked, status, str(script.processed))
            if script.lost > 0:
                script.lost -= 1
                return None
        return 200, job

    def _resource(self, asked: Asked, status: dict[str, Any], processed: str) -> dict[str, Any]:
        reference = {"projectId": "billing", "location": "EU", **asked.body.get("jobReference", {})}
        configuration = json.loads(json.dumps(asked.body["configuration"]))
        configuration["jobType"] = "QUERY"
        configuration["query"]["destinationTable"] = {"projectId": "billing", "datasetId": "_anon", "tableId": "result"}
        query = {
            "totalBytesProcessed": processed,
            "totalBytesBilled": str(self.script.billed),
            "statementType": "SELECT",
        }
        if configuration.get("dryRun"):
            query["schema"] = {"fields": self.script.fields}
        return {
            "kind": "bigquery#job",
            "id": "billing:EU.job",
            "jobReference": reference,
            "configuration": configuration,
            "status": status,
            "statistics": {"totalBytesProcessed": processed, "query": query},
        }

    def _get(self, asked: Asked, found: re.Match[str]) -> tuple[int, Any]:
        job = self.jobs.get(found[2])
        return (200, job) if job is not None else _error(404, "notFound", "Not found: Job")

    def _cancel(self, asked: Asked, found: re.Match[str]) -> tuple[int, Any]:
        job = self.jobs.get(found[2])
        if self.script.deaf is not None:
            return _error(*self.script.deaf, "later")
        if job is None:
            return _error(404, "notFound", "Not found: Job")
        with self._lock:
            if job["status"]["state"] != "DONE":
                stopped = {"reason": "stopped", "message": "Job execution was cancelled: User requested cancellation"}
                job["status"] = {"state": "DONE", "errorResult": stopped, "errors": [stopped]}
        return 200, {"kind": "bigquery#jobCancelResponse", "job": job}

    def _results(self, asked: Asked, found: re.Match[str]) -> tuple[int, Any]:
        script = self.script
        start = int(asked.query.get("pageToken", "0"))
        held = script.rows[start : start + script.page]
        answer: dict[str, Any] = {
            "jobReference": {"projectId": "billing", "location": "EU", "jobId": found[2]},
            "jobComplete": True,
            "totalRows": str(len(script.rows)),
            "schema": {"fields": script.fields},
            "rows": [{"f": [{"v": cell} for cell in row]} for row in held],
        }
        if start + script.page < len(script.rows):
            answer["pageToken"] = str(start + script.page)
        return 200, answer

    def _table(self, asked: Asked, found: re.Match[str]) -> tuple[int, Any]:
        table = self.script.tables.get(".".join(found.groups()))
        return (200, table) if table is not None else _error(404, "notFound", "Not found: Table")

    def _token(self, asked: Asked, found: re.Match[str]) -> tuple[int, Any]:
        return 200, {"accessToken": f"as-{found[1]}", "expireTime": "2099-01-01T00:00:00Z"}


def _error(status: int, reason: str, message: str) -> tuple[int, Any]:
    return status, {"error": {"code": status, "message": message, "errors": [{"reason": reason, "message": message}]}}


def _handler(service: ScriptedBigQuery) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            pass

        def setup(self) -> None:
            super().setup()
            service.lines.add(self.connection)

        def finish(self) -> None:
            service.lines.discard(self.connection)
            super().finish()

        def _serve(self) -> None:
            size = int(self.headers.get("Content-Length", "0"))
            raw = self.rfile.read(size)
            parts = urlsplit(self.path)
            asked = Asked(
                method=self.command,
                path=parts.path,
                query={name: values[0] for name, values in parse_qs(parts.query).items()},
                body=json.loads(raw) if raw else None,
                authorization=self.headers.get("Authorization"),
                at=time.monotonic(),
            )
            answered = service.answer(asked)
            if answered is None:
                self.close_connection = True
                return
            status, value = answered
            body = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = _serve

    return Handler


@contextmanager
def serving(**script: Any) -> Iterator[ScriptedBigQuery]:
    with ScriptedBigQuery(Script(**script)) as service:
        yield service
