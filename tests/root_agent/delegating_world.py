"""A scripted dataset agent whose capability a second one completes: real grants, real cards, real provenance."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from a2a.types.a2a_pb2 import Task
from fastapi import Request
from fastapi.responses import Response

from contract.authority import Authority
from contract.call import Call, Operation
from contract.extension import GRANT_HEADER
from contract.grant import VerifiedGrant
from contract.result import CacheOutcome, Execution, ResultDocument
from contract.scope import Sensitivity
from contract.verdict import Decision, Reason
from control_plane.descriptor import DatasetDescriptor, Delegation
from evidence.dsse import sign_envelope
from evidence.ledger import Ledger
from evidence.predicate import Upstream
from evidence.provenance import read_statement
from evidence.row import LedgerRow, Side
from evidence.statement import Invocation, draft, upstream_of
from grants.derive import derive
from grants.trust import Trust, TrustedAgent
from grants.verify import verify
from tests.root_agent.root_world import AS_OF, RootWorld, result
from tests.root_agent.scripted_remote import AGENT_ID, AgentServer, Arrived, ScriptedRemote, TestSigner, shipped, signed

LAB_ID = "urn:dataset-agent:lab"
LAB_DATASET = "chromatography-results"
TO_LAB = Delegation(agent=LAB_ID, dataset=LAB_DATASET, capability="aggregate")
ASKED = {"dataset": "purification-batches", "capability": "compare_batches"}
FIRST_SERVES = frozenset({"purification-batches", "clinical-private"})
LAB_SERVES = frozenset({LAB_DATASET, "layer-1", "layer-2", "layer-3"})
CALL = ASKED | {"arguments": {"batch_a": "B001", "batch_b": "B002"}}
LAB_CALL = json.dumps(
    {"dataset": LAB_DATASET, "capability": "aggregate", "arguments": {"metric": "resolution"}}
).encode()
GRANTED = Decision(Reason.PRINCIPAL_AUTHORIZED, "BPD-DATA-014", "2026.1", "the lab permits it", "dec-lab")
Change = Callable[[dict[str, Any]], None]


@dataclass
class Lab:
    """The second agent. It knows the issuer and the first agent, and not the root agent."""

    served: ScriptedRemote
    signer: TestSigner
    ledger: Ledger
    descriptors: list[DatasetDescriptor] = field(default_factory=lambda: [shipped(LAB_DATASET)])

    def publish(self) -> None:
        self.served.card = signed(self.served.unsigned(self.descriptors, agent_id=LAB_ID), self.signer)

    @property
    def entry(self) -> TrustedAgent:
        return TrustedAgent(LAB_ID, self.served.url, self.signer.public_key, datasets=LAB_SERVES)


def open_lab(world: RootWorld, server: AgentServer, home: Path) -> Lab:
    """Serve the lab's card and make the root agent know it, as an agent that does not know the root."""
    served = server.serve([])
    signer = TestSigner()
    lab = Lab(served, signer, Ledger.open(home / "lab.sqlite", signer, subject_key_path=home / "ls.sqlite", now=0))
    lab.publish()

    async def stranger(_: Request) -> Response:
        return Response(status_code=401)

    served.raw_reply = stranger
    listed(world, replace(world.service.trust.agents[AGENT_ID], datasets=FIRST_SERVES), lab.entry)
    delegate(world, TO_LAB)
    return lab


def listed(world: RootWorld, *agents: TrustedAgent) -> None:
    """Pin these agents, to be asked in this order and nobody else."""
    for agent in agents:
        world.service.trust = pinning(world.service.trust, agent)
    world.service.agents = tuple((agent, agent.url) for agent in agents)


def pinning(trust: Trust, agent: TrustedAgent) -> Trust:
    return replace(trust, agents=MappingProxyType({**trust.agents, agent.id: agent}))


def delegate(world: RootWorld, delegation: Delegation, **changes: Any) -> None:
    """Publish the first agent's capability as one that is completed by another."""
    world.remote.descriptors[0] = delegating(shipped(ASKED["dataset"]), ASKED["capability"], delegation, **changes)
    world.remote.publish()


def delegating(
    descriptor: DatasetDescriptor, capability: str, delegation: Delegation, **changes: Any
) -> DatasetDescriptor:
    told: dict[str, Any] = {"sub_agent_name": "ask_on", "delegates": delegation, "cacheable": False}
    told |= {"tool_name": None, "mcp_tool_name": None, "preferred": None}
    capabilities = tuple(
        item.model_copy(update=told | changes) if item.name == capability else item for item in descriptor.capabilities
    )
    return descriptor.model_copy(update={"capabilities": capabilities})


def chain(arrived: Arrived) -> tuple[str, ...]:
    return tuple(arrived.headers[GRANT_HEADER.lower()].split(","))


def lab_chain(world: RootWorld, arrived: Arrived, lab: Lab) -> tuple[str, ...]:
    """What the first agent derives for the lab. Raises as ``derive``."""
    held = world.grant(arrived).scope_at(LAB_DATASET, LAB_ID)
    operation, now = lab_operation(), world.clock()
    narrow = None if held is None else [held]
    return derive(chain(arrived), world.remote.signer, audience=lab.entry, operation=operation, now=now, narrow=narrow)


def passed_on(world: RootWorld, arrived: Arrived, lab: Lab) -> VerifiedGrant:
    """What the lab makes of that: the real verification, where the root agent is not known."""
    agents = {AGENT_ID: world.service.trust.agents[AGENT_ID]}
    return verify(
        ",".join(lab_chain(world, arrived, lab)),
        trust=pinning(replace(world.service.trust, agents=agents), lab.entry),
        audience=LAB_ID,
        client=AGENT_ID,
        operation=lab_operation(),
        now=world.clock(),
    )


def lab_operation() -> Operation:
    return Operation("SendMessage", call_hash=Call.parse(LAB_CALL).call_hash)


def lab_answer(
    world: RootWorld,
    lab: Lab,
    grant: VerifiedGrant,
    change: Change | None = None,
    upstream: Sequence[Upstream] = (),
) -> Upstream:
    """What the first agent states of the lab's answer; ``change`` edits the lab's statement before it is signed."""
    call, descriptor = Call.parse(LAB_CALL), lab.descriptors[0]
    principal = world.service.world.directory.find(grant.issuer, grant.subject)
    assert principal is not None
    authority = Authority.of(
        grant,
        GRANTED,
        principal,
        scope=grant.scope_at(LAB_DATASET, LAB_ID),
        capability=call.capability,
        schema_version=descriptor.schema_version,
        sensitivity=Sensitivity.INTERNAL,
    )
    drafted = draft(
        authority,
        agent_id=LAB_ID,
        call_hash=call.call_hash,
        requested_dataset=LAB_DATASET,
        template_digest="b" * 64,
        document=ResultDocument(result(call), 2, False, AS_OF),
        execution=Execution("exe-lab", "duckdb", None, "LOCAL", world.clock(), world.clock()),
        cache=CacheOutcome("HIT", "dsc:1:lab"),
        invocation=Invocation("req-lab", str(grant.rctx["trace_id"]), "s-lab", "i-lab"),
        sources=["lims"],
        now=world.clock(),
        upstream=upstream,
    )
    row = LedgerRow(
        **LedgerRow.decided(GRANTED), side=Side.REMOTE, recorded_at=world.clock(), agent_id=LAB_ID, request_id="req-lab"
    )
    statement = drafted.statement(lab.ledger.append(row))
    if change is not None:
        change(statement)
    return upstream_of(read_statement(statement), sign_envelope(statement, lab.signer), "task-lab")


def honest(world: RootWorld, lab: Lab) -> Callable[[Arrived], Any]:
    """A first agent that asks the lab as it was admitted to."""

    async def script(arrived: Arrived) -> Task:
        completed = lab_answer(world, lab, passed_on(world, arrived, lab))
        return world.answer(world.grant(arrived), Call.parse(arrived.call), upstream=[completed])

    return script
