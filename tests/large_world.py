"""A dataset whose results are too large for a reply, and somebody who fetches them under leaves of their own making."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from contract.call import ARROW_MEDIA_TYPE, GET_RESULTS, RESULT_MEDIA_TYPE, Operation
from contract.canonical import sha256_hex
from contract.extension import RESULT_KEY
from contract.settings import Settings
from grants.derive import derive, header_value
from tests.running_agent import Asker, RunningAgent, Wrap, agent_home, message, running_agent, task_of

DATASET: Final = "readings"
ROWS: Final = 40_000
MARKER: Final = "zebra-crossing-9000"
ARROW, JSON = ARROW_MEDIA_TYPE, RESULT_MEDIA_TYPE

_RESULTS: Final = [
    {"name": "id", "type": "INT64", "mode": "REQUIRED"},
    {"name": "site", "type": "STRING"},
    {"name": "at", "type": "TIMESTAMP"},
    {"name": "value", "type": "FLOAT64"},
    {"name": "amount", "type": "NUMERIC"},
    {"name": "note", "type": "STRING"},
]
_SQL: Final = """
SELECT r.id AS id, r.site AS site, r.at AS at, r.value AS value, r.amount AS amount, r.note AS note
FROM reading AS r WHERE r.id < @below ORDER BY r.id
"""
_POLICY: Final = """
@id("T-1")
@rows("{\\"reading.site\\": {\\"one_of\\": {\\"principal\\": \\"sites\\"}}}")
permit (principal, action, resource) when { context.entitled };
"""
_SCHEMA: Final = """
entity Principal = { tenant: String, principal_class: String, clearance: String, attributes: {} };
entity Dataset;
type Request = { entitled: Bool, effect: String, sensitivity: String, tenant: String };
action list, first, few appliesTo { principal: [Principal], resource: [Dataset], context: Request };
"""


def write_world(folder: Path, *, rows: int = ROWS) -> Path:
    """The datasets folder: ``list`` gives every reading below a number, ``first`` and ``few`` at most 100."""
    data = folder / DATASET / "data"
    data.mkdir(parents=True)
    (folder / "policies").mkdir()
    pq.write_table(_readings(rows), data / "reading.parquet")
    (folder / DATASET / "list.sql").write_text(_SQL)
    (folder / DATASET / "descriptor.json").write_text(json.dumps(_descriptor()))
    (folder / "policies" / "t.cedar").write_text(_POLICY)
    (folder / "policies" / "t.cedarschema").write_text(_SCHEMA)
    (folder / "policies" / "version").write_text("1\n")
    write_people(folder, {"engineer": ["Basel", "Visp"], "colleague": ["Basel", "Visp"]})
    return folder


def write_people(
    folder: Path, sites: Mapping[str, list[str]], *, entitled: tuple[str, ...] = ("engineer", "colleague")
) -> None:
    people = [
        {
            "name": name,
            "subject": f"u-{name}",
            "tenant": "acme",
            "principal_class": "engineer",
            "clearance": "confidential",
            "entitlements": {DATASET: ["few", "first", "list"]} if name in entitled else {},
            "attributes": {"sites": held},
        }
        for name, held in sites.items()
    ]
    issuer = Settings(home=folder).issuer_url
    (folder / "principals.yaml").write_text(yaml.safe_dump({"issuer": issuer, "principals": people}))


def _readings(rows: int) -> pa.Table:
    numbers = pa.array(range(rows))
    cells = range(rows)
    return pa.table(
        {
            "id": numbers,
            "site": pa.array([("Basel", "Visp", "Stein")[n % 3] for n in cells]),
            "at": pa.array([1_700_000_000_000_000 + n * 1_000_003 for n in cells], pa.timestamp("us", tz="UTC")),
            "value": pa.array([n / 7 for n in cells]),
            "amount": pa.array([f"{n}.{n % 1000:03d}" for n in cells]).cast(pa.decimal128(38, 9)),
            "note": pa.array([f"{MARKER} {n:08d}" if n % 5 else None for n in cells]),
        }
    )


def _descriptor() -> dict[str, Any]:
    def capability(name: str, **more: Any) -> dict[str, Any]:
        return {
            "name": name,
            "description": f"{name} readings below a number",
            "effect": "read",
            "tool_name": name,
            "template": "list.sql",
            "keywords": [name, "readings", "below"],
            "examples": [f"{name} readings below 100"],
            "parameters": [{"name": "below", "type": "INT64", "description": "Ids below this one.", "minimum": 0}],
            "results": _RESULTS,
            **more,
        }

    columns = [column | ({"attribute": "site"} if column["name"] == "site" else {}) for column in _RESULTS]
    return {
        "dataset": DATASET,
        "description": "Readings of sensors, many.",
        "tenant": "acme",
        "version": "1",
        "revision": "r1",
        "schema_version": "1",
        "as_of": "2026-08-31T00:00:00Z",
        "freshness": {"maximum_age_s": 86_400},
        "provenance": {"system": "test", "source": "readings"},
        "tables": [{"name": "reading", "file": "data/reading.parquet", "columns": columns}],
        "capabilities": [
            capability("list", max_rows=10_000_000),
            capability("first", max_rows=100, truncate=True),
            capability("few", max_rows=100),
        ],
    }


@contextmanager
def large_agent(folder: Path, *, rows: int = ROWS, wrap: Wrap | None = None, **settings: Any) -> Iterator[RunningAgent]:
    datasets = write_world(folder / "datasets", rows=rows)
    with running_agent(agent_home(folder / "home", datasets=datasets, **settings), wrap=wrap) as agent:
        assert not agent.lifecycle.status()["invalid"], agent.lifecycle.status()["invalid"]
        yield agent


@dataclass
class Fetcher(Asker):
    """Asks for large results, and fetches them."""

    principal: str = "engineer"

    def large(self, below: int = ROWS, *, accept: str | None = JSON, capability: str = "list") -> dict[str, Any]:
        """One call, and the task that came back."""
        call = self.call(DATASET, capability, {"below": below})
        operation = Operation("SendMessage", call_hash=sha256_hex(call))
        grant = self.grant(self.scope(DATASET, capability), operation)
        params: dict[str, Any] = {"message": message(call)}
        if accept is not None:
            params["configuration"] = {"acceptedOutputModes": [accept]}
        return task_of(self.rpc("SendMessage", params, self.headers(grant)))

    def leaf(self, task_id: str, **changes: Any) -> str:
        """A header for ``GET /results``; ``changes`` are of the operation, its scope or who receives it."""
        operation = Operation(changes.pop("method", GET_RESULTS), task=changes.pop("task", task_id))
        scope = self.scope(DATASET, changes.pop("capability", "list"), **changes.pop("scope", {}))
        return self.grant(scope, operation, **changes)

    def chain(self, root: str, task_id: str) -> str:
        """A leaf of a given root token."""
        receiver = self.trust.agents[self.settings.agent_id]
        operation = Operation(GET_RESULTS, task=task_id)
        return header_value(derive((root,), self.holder, audience=receiver, operation=operation, now=time.time()))

    def fetch(self, task: Mapping[str, Any] | str, *, grant: str | None = None, **headers: str) -> httpx.Response:
        """``GET`` the result of a task, under a fresh leaf unless one is given."""
        task_id = task if isinstance(task, str) else str(task["id"])
        sent = self.headers(self.leaf(task_id) if grant is None else grant)
        more = {name.replace("_", "-"): value for name, value in headers.items()}
        return httpx.get(f"{self.url}/results/{task_id}", headers=sent | more, timeout=30)


def part_of(task: Mapping[str, Any]) -> dict[str, Any]:
    """The one part of a task's result artifact."""
    (part,) = next(artifact for artifact in task["artifacts"] if artifact["name"] == "result")["parts"]
    return dict(part)


def described(task: Mapping[str, Any]) -> dict[str, Any]:
    return dict(part_of(task)["metadata"][RESULT_KEY])


def statement_of(task: Mapping[str, Any]) -> dict[str, Any]:
    """The payload of the provenance, unverified."""
    artifact = next(artifact for artifact in task["artifacts"] if artifact["name"] == "provenance")
    envelope = json.loads(base64.b64decode(artifact["parts"][0]["raw"]))
    return dict(json.loads(base64.b64decode(envelope["payload"])))
