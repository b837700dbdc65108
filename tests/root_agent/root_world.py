"""A root agent over the shipped principals and policies, and a scripted dataset agent that proves what it says."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import httpx
from a2a.types.a2a_pb2 import Task

from contract.authority import Authority
from contract.call import Call, Operation
from contract.extension import GRANT_HEADER
from contract.grant import VerifiedGrant
from contract.result import CacheOutcome, Execution, ResultDocument
from contract.schema import SqlType
from contract.scope import Sensitivity
from contract.settings import Settings
from contract.verdict import Decision, Reason
from control_plane.evaluator import Evaluator, InProcessEvaluator
from control_plane.identity import issue_identity
from control_plane.policy import PolicySet, load_policies
from control_plane.principals import Directory, load_directory
from delegation.cards import CardBook, RemoteCard
from delegation.credentials import Assertions
from delegation.http import open_http
from evidence.dsse import sign_envelope
from evidence.ledger import Ledger
from evidence.predicate import Upstream
from evidence.row import LedgerRow, Side
from evidence.statement import Invocation, draft
from grants.trust import Trust, TrustedAgent, TrustedIssuer
from grants.verify import verify
from root_agent.opening import close_service
from root_agent.service import Service, World
from tests.root_agent.scripted_remote import (
    AGENT_ID,
    AgentServer,
    Arrived,
    ScriptedRemote,
    TestSigner,
    completed,
    shipped,
)

DATASETS = Path(__file__).resolve().parents[2] / "datasets"
ISSUER = "https://issuer.dataset-agent.example"
ROOT_ID = "urn:dataset-agent:root"
NOW = 1_800_000_000.0
AS_OF = "2026-08-31T22:00:00.000000Z"
MARKER_ROW = "row-marker-81c2"
QUESTION = "Compare the recovery of batches B001 and B002"
_CELLS = {
    SqlType.STRING: "text",
    SqlType.INT64: 7,
    SqlType.FLOAT64: 1.5,
    SqlType.NUMERIC: "2.25",
    SqlType.BOOL: True,
    SqlType.DATE: "2026-08-31",
    SqlType.TIMESTAMP: AS_OF,
}


@dataclass
class Clock:
    now: float = NOW

    def __call__(self) -> float:
        return self.now


@dataclass
class RootWorld:
    """Everything one test works with. ``remote.script`` is honest until a test replaces it."""

    service: Service
    remote: ScriptedRemote
    clock: Clock
    identity: TestSigner
    remote_ledger: Ledger
    cache_outcome: str = "MISS"
    ran: int = 0

    def token(self, name: str, *, audience: str = ROOT_ID) -> str:
        principal = self.service.world.directory.named(name)
        assert principal is not None
        return issue_identity(
            self.identity, issuer_url=ISSUER, subject=principal.subject, audience=audience, now=self.clock()
        )

    def grant(self, arrived: Arrived) -> VerifiedGrant:
        """What a dataset agent makes of the header: the real verification."""
        return verify(
            arrived.headers.get(GRANT_HEADER.lower()),
            trust=self.service.trust,
            audience=AGENT_ID,
            client=ROOT_ID,
            operation=Operation("SendMessage", call_hash=Call.parse(arrived.call).call_hash),
            now=self.clock(),
        )

    async def honest(self, arrived: Arrived) -> Task:
        return self.answer(self.grant(arrived), Call.parse(arrived.call))

    def answer(
        self,
        grant: VerifiedGrant,
        call: Call,
        *,
        body: bytes | None = None,
        as_of: str = AS_OF,
        signer: TestSigner | None = None,
        change: Callable[[dict[str, Any]], None] | None = None,
        upstream: Sequence[Upstream] = (),
    ) -> Task:
        """A completed task with real provenance; ``change`` edits the statement before it is signed.

        ``upstream`` are the answers of other agents that it is completed from.
        """
        self.ran += 1
        decision = Decision(
            reason=Reason.PRINCIPAL_AUTHORIZED,
            policy_id="BPD-DATA-014",
            policy_version="2026.1",
            rationale="policy BPD-DATA-014 permits it",
            decision_id="dec-remote",
        )
        principal = self.service.world.directory.find(grant.issuer, grant.subject)
        assert principal is not None
        descriptor = shipped(call.dataset)
        authority = Authority.of(
            grant,
            decision,
            principal,
            scope=grant.scope_at(call.dataset, AGENT_ID),
            capability=call.capability,
            schema_version=descriptor.schema_version,
            sensitivity=Sensitivity.INTERNAL,
        )
        document = ResultDocument(result(call) if body is None else body, 2, False, as_of)
        drafted = draft(
            authority,
            agent_id=AGENT_ID,
            call_hash=call.call_hash,
            requested_dataset=call.dataset,
            template_digest="a" * 64,
            document=document,
            execution=Execution("exe-1", "duckdb", None, "LOCAL", self.clock(), self.clock()),
            cache=CacheOutcome(self.cache_outcome, "dsc:1:key"),  # type: ignore[arg-type]
            invocation=Invocation("req-1", str(grant.rctx["trace_id"]), "s-1", "i-1"),
            sources=["s3"],
            now=self.clock(),
        )
        receipt = self.remote_ledger.append(
            LedgerRow(
                **LedgerRow.decided(decision),
                side=Side.REMOTE,
                recorded_at=self.clock(),
                agent_id=AGENT_ID,
                request_id="req-1",
            )
        )
        statement = drafted.statement(receipt)
        if upstream:  # not drafted with them: a liar does not ask whether they fit
            statement["predicate"]["upstream"] = [item.model_dump(mode="json") for item in upstream]
            statement["predicate"]["execution"]["tool_origin"] = "A2A"
        if change is not None:
            change(statement)
        return completed(document.body, sign_envelope(statement, signer or self.remote.signer))


def result(call: Call, **changes: Any) -> bytes:
    """Two rows with the columns that the shipped descriptor declares for the call; ``changes`` are members."""
    capability = shipped(call.dataset).capability(call.capability)
    assert capability is not None
    columns = capability.results
    row = [_CELLS[column.type] for column in columns]
    body = {
        "schema": [{"name": item.name, "type": item.type.value, "mode": item.mode.value} for item in columns],
        "rows": [["B001", *row[1:]], [MARKER_ROW, *row[1:]]],
        "row_count": 2,
        "truncated": False,
        "as_of": AS_OF,
    }
    return json.dumps(body | changes).encode()


class KnownCards(CardBook):
    """Fetches and verifies a card once for all tests, as long as the same bytes are served.

    What a card must be is tested in test_root_cards.py, with a book that remembers nothing.
    """

    _known: ClassVar[dict[tuple[str, bytes, bytes], RemoteCard]] = {}

    def __init__(self, remote: ScriptedRemote, http: httpx.AsyncClient, assertions: Assertions) -> None:
        super().__init__(http, assertions, private_network=False, ttl=60)
        self._remote = remote

    async def _fetch(self, agent: TrustedAgent, url: str, now: float) -> RemoteCard:
        served = self._remote
        if url != served.url or served.raw_card or served.raw_reply or not served.card or not served.extended:
            return await super()._fetch(agent, url, now)
        # Deterministic within one process, which is all that is asked of it here.
        place = url, served.card.SerializeToString(), served.extended.SerializeToString()
        if place not in self._known:
            self._known[place] = await super()._fetch(agent, url, now)
        return self._known[place]


@asynccontextmanager
async def root_world(home: Path, server: AgentServer, **changes: Any) -> AsyncIterator[RootWorld]:
    """A served remote and a service in front of it. ``changes`` are fields of ``Service``."""
    remote = server.serve([shipped("purification-batches"), shipped("chromatography-results")])
    remote.publish(restricted=[shipped("clinical-private")])
    issuer, holder, identity = TestSigner(), TestSigner(), TestSigner()
    clock = Clock()
    trust = Trust(
        issuers={
            ISSUER: TrustedIssuer(
                ISSUER, (issuer.public_key,), (identity.public_key,), frozenset({"acme"}), subject_prefix="u-"
            )
        },
        agents={
            ROOT_ID: TrustedAgent(ROOT_ID, "http://127.0.0.1:8800", holder.public_key),
            AGENT_ID: TrustedAgent(AGENT_ID, remote.url, remote.signer.public_key),
        },
    )
    assertions = Assertions(holder, ROOT_ID)
    fields: dict[str, Any] = {
        "root_id": ROOT_ID,
        "issuer_url": ISSUER,
        "world": shipped_world(),
        "trust": trust,
        "agents": ((trust.agents[AGENT_ID], remote.url),),
        "issuer": issuer,
        "holder": holder,
        "assertions": assertions,
        "cards": KnownCards(remote, open_http(Settings(home=home, call_timeout=5.0)), assertions),
        "ledger": Ledger.open(home / "root.sqlite", holder, subject_key_path=home / "s.sqlite", now=NOW),
        "call_timeout": 5.0,
        "clock": clock,
    }
    service = Service(**(fields | changes))
    remote_ledger = Ledger.open(home / "remote.sqlite", remote.signer, subject_key_path=home / "rs.sqlite", now=NOW)
    world = RootWorld(service, remote, clock, identity, remote_ledger)
    remote.script = world.honest
    try:
        yield world
    finally:
        await close_service(service)
        remote_ledger.close()


def shipped_world(evaluator: Evaluator | None = None, directory: Directory | None = None) -> World:
    policies = _policies()
    return World(
        directory or _directory(),
        evaluator or InProcessEvaluator(policies, 5.0),
        policies.version,
    )


@cache
def _policies() -> PolicySet:
    return load_policies(DATASETS / "policies")


@cache
def _directory() -> Directory:
    return load_directory(DATASETS / "principals.yaml")
