"""A chain of dataset agents on loopback, each completing its answer from the next, and a root in miniature.

Every agent has a home, a key and a trust file of its own: the issuer, itself, the one that asks
it and the one it asks. Only the first knows the root agent.
"""

from __future__ import annotations

import base64
import json
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from contract.call import Operation, encode_call
from contract.canonical import sha256_hex
from contract.extension import EXTENSION_URI, GRANT_HEADER
from contract.ids import new_id
from contract.scope import Scope
from contract.settings import Settings
from contract.verdict import Decision, Reason
from control_plane.principals import load_directory
from control_plane.registry import load_registry
from grants.client import client_assertion
from grants.derive import derive, header_value
from grants.key_files import FileSigner
from grants.keys import init_keys
from grants.mint import mint_root
from grants.trust import TrustedAgent, load_trust
from grants.trust_editor import edit_trust
from tests.engine_taps import tap
from tests.running_agent import RunningAgent, Wrap, message, running_agent, task_of

TOTAL: Final = "total"
OTHER: Final = "other"
KEY: Final = {"key": "K1"}
MARKED: Final = "zebra-crossing-9000"
SITES: Final = ("Basel", "Visp")

_COLUMNS: Final = [
    {"name": "key", "type": "STRING"},
    {"name": "site", "type": "STRING"},
    {"name": "amount", "type": "INT64"},
]
_OWN: Final = (
    "SELECT i.key AS key, i.site AS site, i.amount AS amount FROM item AS i WHERE i.key = @key ORDER BY site LIMIT 10"
)
_COMPLETED: Final = """
SELECT i.key AS key, i.site AS site, i.amount + b.amount AS amount
FROM item AS i JOIN below AS b ON b.key = i.key WHERE i.key = @key ORDER BY site LIMIT 10
"""
_POLICY: Final = """
@id("T-1")
@rows("{\\"item.site\\": {\\"one_of\\": {\\"principal\\": \\"sites\\"}}}")
permit (principal, action, resource) when { context.entitled };
"""
_SCHEMA: Final = """
entity Principal = { tenant: String, principal_class: String, clearance: String, attributes: {} };
entity Dataset;
type Request = { entitled: Bool, effect: String, sensitivity: String, tenant: String };
action total, other appliesTo { principal: [Principal], resource: [Dataset], context: Request };
"""


def agent_id(place: int) -> str:
    """The agents are numbered from 1, in the order in which they are asked."""
    return f"urn:test:agent-{place}"


def dataset(place: int) -> str:
    return f"data-{place}"


@dataclass
class ChainWorld:
    """The running agents, in order, and what a root agent needs to ask the first."""

    agents: list[RunningAgent]
    root: Settings
    sent: list[str] = field(default_factory=list)

    def settings(self, place: int) -> Settings:
        return self.agents[place - 1].settings

    def trusted(self, place: int) -> TrustedAgent:
        return load_trust(self.settings(place).trust_path).agents[agent_id(place)]

    def key(self, place: int) -> FileSigner:
        return FileSigner.load(self.settings(place).remote_dir / "agent.jwk")

    @property
    def holder(self) -> FileSigner:
        return FileSigner.load(self.root.root_dir / "holder.jwk")

    def scope(self, place: int, *capabilities: str, **changes: Any) -> Scope:
        descriptor = load_registry(self.settings(place).datasets).datasets[dataset(place)]
        members: dict[str, Any] = {
            "dataset": dataset(place),
            "dataset_version": descriptor.version,
            "revision": descriptor.revision,
            "actions": frozenset(capabilities or (TOTAL,)),
            "locations": frozenset({agent_id(place)}),
            "max_sensitivity": descriptor.sensitivity,
        }
        return Scope(**(members | changes))

    def root_token(self, *scopes: Scope, max_depth: int | None = None, trace_id: str = "") -> str:
        """For every agent's dataset unless ``scopes`` say otherwise, as deep as that takes."""
        first, *further = scopes or [self.scope(place) for place in range(1, len(self.agents) + 1)]
        principal = load_directory(self.settings(1).datasets / "principals.yaml").named("engineer")
        assert principal is not None
        decision = Decision(Reason.PRINCIPAL_AUTHORIZED, "T-1", "1", "the root admits it")
        return mint_root(
            FileSigner.load(self.root.issuer_dir / "grant.jwk"),
            issuer_url=self.root.issuer_url,
            decision=decision,
            principal=principal,
            holder=load_trust(self.root.trust_path).agents[self.root.root_id],
            scope=first,
            intent=TOTAL,
            rctx={"trace_id": trace_id or sha256_hex(new_id("trace").encode())[:32]},
            now=time.time(),
            max_depth=len(self.agents) if max_depth is None else max_depth,
            further=[(scope, decision) for scope in further],
        )

    def leaf(self, token: str, call: bytes, *, ttl: int = 60, method: str = "SendMessage") -> tuple[str, ...]:
        """The chain that the root agent sends to the first agent."""
        operation = Operation(method, call_hash=sha256_hex(call))
        return derive((token,), self.holder, audience=self.trusted(1), operation=operation, now=time.time(), ttl=ttl)

    def call(self, place: int = 1, capability: str = TOTAL, **arguments: Any) -> bytes:
        return encode_call(dataset(place), capability, arguments or KEY)

    def ask(self, token: str | None = None, **leaf: Any) -> dict[str, Any]:
        """One call of the root's to the first agent, and the task that came back."""
        call = self.call()
        return task_of(self.post(1, call, self.leaf(token or self.root_token(), call, **leaf)))

    def post(
        self, place: int, call: bytes, chain: Sequence[str], *, by: int | None = None, timeout: float = 30
    ) -> httpx.Response:
        """Send a chain to an agent, as the agent ``by``, or as the root agent."""
        self.sent += chain
        body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message(call)}}
        headers = self.headers(place, chain, by=by)
        return httpx.post(self.agents[place - 1].url + "/", json=body, headers=headers, timeout=timeout)

    def headers(self, place: int, chain: Sequence[str], *, by: int | None = None) -> dict[str, str]:
        signer, client = (self.holder, self.root.root_id) if by is None else (self.key(by), agent_id(by))
        assertion = client_assertion(signer, agent_id=client, audience=agent_id(place), now=time.time())
        return {
            "A2A-Version": "1.0",
            "A2A-Extensions": EXTENSION_URI,
            "Authorization": f"Bearer {assertion}",
            GRANT_HEADER: header_value(chain),
        }

    def counts(self) -> list[int]:
        """How many rows each ledger has."""
        return [len(agent.rows()) for agent in self.agents]

    def last(self, place: int) -> dict[str, Any]:
        """The newest ledger row of an agent."""
        return dict(self.agents[place - 1].rows()[-1].cells)

    def spent(self, place: int) -> int:
        """How many leaves an agent has spent."""
        with sqlite3.connect(self.settings(place).home / "state.sqlite3") as state:
            return int(state.execute("SELECT count(*) FROM spent").fetchone()[0])

    def slow(self, place: int, before: Callable[[], Any]) -> None:
        """Have the agent's engine await ``before()`` ahead of every query."""
        engine = self.agents[place - 1].lifecycle.service.world.datasets[dataset(place)].engine
        tap(engine, before=lambda _: before())


@dataclass
class Tap:
    """What reaches the last agent, noted on the way in."""

    chains: list[list[str]] = field(default_factory=list)
    traces: list[str] = field(default_factory=list)

    def __call__(self, app: Any, _: Any) -> Any:
        async def listening(scope: Any, receive: Any, send: Any) -> None:
            headers = dict(scope.get("headers", ()))
            if GRANT_HEADER.lower().encode() in headers:
                self.chains.append(headers[GRANT_HEADER.lower().encode()].decode().split(","))
                self.traces.append(headers.get(b"traceparent", b"").decode())
            await app(scope, receive, send)

        return listening


@contextmanager
def chain_world(
    folder: Path,
    length: int,
    *,
    wrap: Wrap | None = None,
    edit: Callable[[int, dict[str, Any]], None] | None = None,
    **given: Any,
) -> Iterator[ChainWorld]:
    """Serve ``length`` agents. ``wrap`` is put around the last one's application, ``edit`` changes descriptors.

    ``given`` are settings of every agent.
    """
    root = Settings(home=folder / "root", datasets=folder / "root")
    init_keys(root, roles=("issuer", "root"))
    homes = [_home(folder, place, length, edit, given) for place in range(1, length + 1)]
    for place, settings in enumerate(homes, 1):
        _pin(settings, root, root.root_id if place == 1 else None)
        for neighbour in (place - 1, place + 1):
            if 1 <= neighbour <= length:
                _pin(settings, homes[neighbour - 1], agent_id(neighbour))
    running: list[RunningAgent] = []
    with ExitStack() as stack:
        for place in range(length, 0, -1):  # an agent's address is known once it runs
            settings = homes[place - 1]
            agent = stack.enter_context(running_agent(settings, wrap=wrap if place == length else None))
            running.insert(0, agent)
            if place > 1:
                _readdress(homes[place - 2], agent_id(place), agent.url)
        unserved = [agent.lifecycle.status()["invalid"] for agent in running]
        assert not any(unserved), unserved
        yield ChainWorld(running, root)


def _home(
    folder: Path, place: int, length: int, edit: Callable[[int, dict[str, Any]], None] | None, given: dict[str, Any]
) -> Settings:
    home = folder / f"agent-{place}"
    datasets = home / "datasets"
    (datasets / dataset(place) / "data").mkdir(parents=True)
    (datasets / "policies").mkdir()
    items = {
        "key": ["K1", "K2", "K1", MARKED],
        "site": ["Basel", "Visp", "Stein", "Basel"],
        "amount": [10**place, 7, 5, 3],
    }
    pq.write_table(pa.table(items), datasets / dataset(place) / "data" / "item.parquet")
    descriptor = _descriptor(place, below=place < length)
    if edit is not None:
        edit(place, descriptor)
    (datasets / dataset(place) / "descriptor.json").write_text(json.dumps(descriptor))
    (datasets / dataset(place) / "own.sql").write_text(_OWN)
    (datasets / dataset(place) / "completed.sql").write_text(_COMPLETED)
    (datasets / "policies" / "t.cedar").write_text(_POLICY)
    (datasets / "policies" / "t.cedarschema").write_text(_SCHEMA)
    (datasets / "policies" / "version").write_text("1\n")
    entitled = {dataset(number): [OTHER, TOTAL] for number in range(1, length + 1)}
    person = {
        "name": "engineer",
        "subject": "u-eng-01",
        "tenant": "acme",
        "principal_class": "engineer",
        "clearance": "confidential",
        "entitlements": entitled,
        "attributes": {"sites": list(SITES)},
    }
    issuer = Settings(home=home).issuer_url
    (datasets / "principals.yaml").write_text(yaml.safe_dump({"issuer": issuer, "principals": [person]}))
    settings = Settings(home=home, datasets=datasets, agent_id=agent_id(place), **given)
    init_keys(settings, roles=("remote",))
    return settings


def _descriptor(place: int, *, below: bool) -> dict[str, Any]:
    key = {"name": "key", "type": "STRING", "description": "Which item."}
    capability: dict[str, Any] = {
        "name": TOTAL,
        "description": "the amount of an item",
        "effect": "read",
        "tool_name": TOTAL,
        "template": "own.sql",
        "max_rows": 10,
        "parameters": [key],
        "results": _COLUMNS,
    }
    other = capability | {"name": OTHER, "tool_name": OTHER}
    if below:
        capability |= {
            "tool_name": None,
            "sub_agent_name": "next-agent",
            "cacheable": False,
            "template": "completed.sql",
            "delegates": {"agent": agent_id(place + 1), "dataset": dataset(place + 1), "capability": TOTAL},
            "supply": {"table": "below", "arguments": {"key": "key"}, "columns": _COLUMNS},
        }
    return {
        "dataset": dataset(place),
        "description": "Items and their amounts.",
        "tenant": "acme",
        "version": "1",
        "revision": f"r{place}",
        "schema_version": "1",
        "as_of": f"2026-08-3{place % 2}T00:00:00Z",
        "freshness": {"maximum_age_s": 86_400},
        "provenance": {"system": "test", "source": "items"},
        "tables": [
            {
                "name": "item",
                "file": "data/item.parquet",
                "columns": [
                    {"name": "key", "type": "STRING"},
                    {"name": "site", "type": "STRING", "attribute": "site"},
                    {"name": "amount", "type": "INT64"},
                ],
            }
        ],
        "capabilities": [capability, other],
    }


def _pin(settings: Settings, other: Settings, name: str | None) -> None:
    """The issuers that ``other`` holds the keys of, and the agent ``name`` where one is given."""
    theirs = load_trust(other.trust_path)
    with edit_trust(settings.trust_path) as trust:
        for issuer in theirs.issuers.values():
            trust.enter_issuer(
                issuer.url,
                key=issuer.keys[0],
                identity_key=issuer.identity_keys[0],
                tenants=issuer.tenants,
                subject_prefix=issuer.subject_prefix,
                withdraw=False,
            )
        if name is not None:
            agent = theirs.agents[name]
            trust.enter_agent(agent.id, agent.url, agent.key, withdraw=False)


def _readdress(settings: Settings, neighbour: str, url: str) -> None:
    path = settings.trust_path
    text = path.read_text()
    entry = text.index(f'id = "{neighbour}"')
    line = text.index('url = "', entry)
    path.write_text(text[:line] + f'url = "{url}"' + text[text.index("\n", line) :])


def decoded(task: dict[str, Any], name: str) -> bytes:
    artifact = next(item for item in task["artifacts"] if item["name"] == name)
    return base64.b64decode(artifact["parts"][0]["raw"])


def amounts(task: dict[str, Any]) -> list[int]:
    return [row[2] for row in json.loads(decoded(task, "result"))["rows"]]


def passed_on(world: ChainWorld, chain: Sequence[str], *, by: int = 1, **changes: Any) -> tuple[str, ...]:
    """What the agent ``by`` derives of a chain for the next one, honestly unless ``changes`` say otherwise."""
    call = changes.pop("call", None) or world.call(by + 1)
    members: dict[str, Any] = {
        "audience": world.trusted(by + 1),
        "operation": Operation("SendMessage", call_hash=sha256_hex(call)),
        "now": time.time(),
        "narrow": (world.scope(by + 1),),
        "max_depth": by + 1,
    }
    return derive(chain, world.key(by), **(members | changes))
