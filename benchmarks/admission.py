"""The whole admission decision with 100 policies, beside one bare Cedar evaluation of the same question."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import cedarpy

from benchmarks.report import Figure, Section, Side, machine
from contract.principal import Principal
from contract.scope import Sensitivity
from contract.verdict import Decision, Verdict
from control_plane.admission import AdmissionRequest, decide, question_of
from control_plane.admission_rules import case_of
from control_plane.cedar_request import cedar_request, entities, policy_set, uid
from control_plane.descriptor import DatasetDescriptor
from control_plane.evaluator import InProcessEvaluator
from control_plane.policy import PolicySet, load_policies
from dataset_agent.process import settle_memory

POLICIES: Final = 100
MOST: Final = 1.3
_OF_ALL: Final = 4
_DATASETS: Final = 8
_EACH: Final = (POLICIES - _OF_ALL) // _DATASETS
_VERSION: Final = "2026.09.01"
_NOW: Final = 1_790_000_000.0
BARE: Final = "bare cedarpy, the dataset's slice"
READY: Final = "bare cedarpy, a question made beforehand"
WHOLE: Final = "bare cedarpy, all policies"
JUDGED: Final = "decision, nothing remembered"
KNOWN: Final = "decision, granted before (remembered)"
REFUSED: Final = "decision, refused before (rules judged, answer remembered)"
NEWCOMER: Final = "decision, a person for the first time"
_SCHEMA: Final = """
entity Principal = {
  tenant: String, principal_class: String, clearance: String, attributes: { sites: Set<String> },
};
entity Dataset;
type Request = { entitled: Bool, effect: String, sensitivity: String, tenant: String };
action search, compare appliesTo { principal: [Principal], resource: [Dataset], context: Request };
"""


@dataclass(frozen=True, slots=True)
class Work:
    """One side: ``prepare`` makes, untimed, what ``run`` is timed on."""

    prepare: Callable[[], Any]
    run: Callable[[Any], Awaitable[object]]


def measure(blocks: int = 7, calls: int = 2_000) -> Section:
    """Every side in interleaved ``blocks`` of ``calls``; times in microseconds. Garbage is collected as the servers do."""
    settle_memory()
    with tempfile.TemporaryDirectory() as folder:
        policies = load_policies(_written(Path(folder)))
    works = _works(policies)
    walls, worked = asyncio.run(_measured(works, blocks, calls))
    facts = machine() | {
        "policies": len(policies.policies),
        "policies_of_the_slice": len(policies.about("d0")),
        "cedarpy": version("cedarpy"),
    }
    return Section("Admission", "us", [*worked.values(), *walls.values()], _figures(worked), facts)


async def _measured(works: dict[str, Work], blocks: int, calls: int) -> tuple[dict[str, Side], dict[str, Side]]:
    """Every side by the clock, and in processor time."""
    times: dict[str, list[list[tuple[float, float]]]] = {name: [] for name in works}
    for block in range(blocks + 1):
        for name, work in works.items():
            taken = [await _timed(work) for _ in range(calls)]
            if block:  # the first block warms every side
                times[name].append(taken)
    walls, worked = (
        {
            name: Side(name + told, tuple(tuple(pair[which] for pair in taken) for taken in found))
            for name, found in times.items()
        }
        for which, told in enumerate((", by the clock", ""))
    )
    return walls, worked


async def _timed(work: Work) -> tuple[float, float]:
    """Microseconds by the clock, and of processor time: nothing is waited for, so on an idle machine they are equal."""
    prepared = work.prepare()
    began, worked = time.perf_counter_ns(), time.thread_time_ns()
    await work.run(prepared)
    worked, began = time.thread_time_ns() - worked, time.perf_counter_ns() - began
    return began / 1_000, worked / 1_000


def _works(policies: PolicySet) -> dict[str, Work]:
    """Every side has the policies and the person parsed, but for the person who comes for the first time."""
    person, descriptor = _person("u-1"), _descriptor()
    remembering = InProcessEvaluator(policies, 60)

    def fresh() -> InProcessEvaluator:
        return InProcessEvaluator(policies, 60)

    async def judge(evaluator: InProcessEvaluator) -> None:
        _expect(await decide(_request(person, descriptor, "search"), evaluator), Verdict.GRANTED)

    async def refuse(evaluator: InProcessEvaluator) -> None:
        _expect(await decide(_request(person, descriptor, "compare"), evaluator), Verdict.REFUSED)

    def newcomer() -> tuple[Principal, InProcessEvaluator]:
        return _person("u-new"), fresh()

    async def first(prepared: tuple[Principal, InProcessEvaluator]) -> None:
        _expect(await decide(_request(prepared[0], descriptor, "search"), prepared[1]), Verdict.GRANTED)

    return {
        BARE: _bare(policies, "d0", person, descriptor),
        JUDGED: Work(fresh, judge),
        KNOWN: Work(lambda: remembering, judge),
        REFUSED: Work(lambda: remembering, refuse),
        NEWCOMER: Work(newcomer, first),
        READY: _ready(policies, person, descriptor),
        WHOLE: _bare(policies, None, person, descriptor),
    }


def _bare(policies: PolicySet, dataset: str | None, person: Principal, descriptor: DatasetDescriptor) -> Work:
    """Cedar by hand: policies and person parsed, the question written at the call from the same facts as the decision."""
    parsed, people = _parsed(policies, dataset), entities([person])
    capability = case_of(_request(person, descriptor, "search")).capability

    async def ask(_: None) -> None:
        question = {
            "principal": {"type": "Principal", "id": f"{person.issuer}#{person.subject}"},
            "action": {"type": "Action", "id": capability.name},
            "resource": {"type": "Dataset", "id": descriptor.dataset},
            "context": {
                "entitled": person.holds(descriptor.dataset, capability.name),
                "effect": capability.effect.value,
                "sensitivity": capability.sensitivity.value,
                "tenant": descriptor.tenant,
            },
        }
        _allowed(cedarpy.is_authorized(question, parsed, people))

    return Work(lambda: None, ask)


def _ready(policies: PolicySet, person: Principal, descriptor: DatasetDescriptor) -> Work:
    """The fastest that a call of Cedar can be: nothing but the call, its question and the text of its context made before."""
    parsed, people = _parsed(policies, descriptor.dataset), entities([person])
    question = cedar_request(question_of(case_of(_request(person, descriptor, "search"))), uid(person))

    async def ask(_: None) -> None:
        _allowed(cedarpy.is_authorized(question, parsed, people))

    return Work(lambda: None, ask)


def _parsed(policies: PolicySet, dataset: str | None) -> cedarpy.PolicySet:
    chosen = policies.about(dataset) if dataset else tuple(policies.policies.values())
    return policy_set({policy.policy_id: policy.document for policy in chosen})


def _allowed(result: cedarpy.AuthzResult) -> None:
    if result.decision is not cedarpy.Decision.Allow:
        raise RuntimeError("the bare evaluation refuses what the decision grants")


def _expect(decision: Decision, verdict: Verdict) -> None:
    if decision.verdict is not verdict:
        raise RuntimeError(f"the decision measured is another one: {decision.reason}")


def _figures(sides: dict[str, Side]) -> list[Figure]:
    bare, judged, known = sides[BARE], sides[JUDGED], sides[KNOWN]
    return [
        Figure("decision with nothing remembered / bare cedarpy, p50", judged.p50 / bare.p50, most=MOST),
        Figure("decision with nothing remembered / bare cedarpy, p99", judged.p99 / bare.p99, most=MOST),
        Figure("decision granted before / bare cedarpy, p50", known.p50 / bare.p50, most=MOST),
        Figure("decision granted before / bare cedarpy, p99", known.p99 / bare.p99, most=MOST),
        Figure("decision with nothing remembered / a question made beforehand, p50", judged.p50 / sides[READY].p50),
        Figure("decision with nothing remembered / a question made beforehand, p99", judged.p99 / sides[READY].p99),
        Figure("decision refused before / bare cedarpy, p50", sides[REFUSED].p50 / bare.p50),
        Figure("decision of a person for the first time / bare cedarpy, p50", sides[NEWCOMER].p50 / bare.p50),
        Figure("bare cedarpy with all policies / with the slice, p50", sides[WHOLE].p50 / bare.p50),
    ]


def _request(person: Principal, descriptor: DatasetDescriptor, capability: str) -> AdmissionRequest:
    """As a dataset agent makes it for each call, so it is timed with the decision."""
    return AdmissionRequest(
        principal=person,
        dataset=descriptor.dataset,
        capability=capability,
        descriptor=descriptor,
        policy_version=_VERSION,
        now=_NOW,
        stated_dataset_version=descriptor.version,
        stated_revision=descriptor.revision,
    )


def _written(folder: Path) -> Path:
    """A few policies about every dataset, and as many about each; of those one permits, under a row constraint."""
    texts = [
        f'@id("ALL-{number}") forbid (principal, action, resource)\n'
        f'when {{ principal.principal_class == "suspended-{number}" }};'
        for number in range(_OF_ALL)
    ]
    texts += [_policy(dataset, number) for dataset in range(_DATASETS) for number in range(_EACH)]
    (folder / "schema.cedarschema").write_text(_SCHEMA, encoding="utf-8")
    (folder / "version").write_text(_VERSION, encoding="utf-8")
    (folder / "all.cedar").write_text("\n".join(texts), encoding="utf-8")
    return folder


def _policy(dataset: int, number: int) -> str:
    rows = ROWS if number == 0 else ""
    return (
        f'@id("D{dataset}-{number}") {rows} permit (principal, action, resource == Dataset::"d{dataset}")\n'
        f'when {{ context.entitled && principal.principal_class == "class-{number}" && context.effect == "read" }};'
    )


ROWS: Final = '@rows("{\\"plants.site\\": {\\"one_of\\": {\\"principal\\": \\"sites\\"}}}")'


def _person(subject: str) -> Principal:
    """In a class that one policy of the dataset permits; ``compare`` is in no entitlement."""
    return Principal(
        issuer="https://issuer.example",
        subject=subject,
        tenant="acme",
        name=subject,
        principal_class="class-0",
        clearance=Sensitivity.INTERNAL,
        entitlements=MappingProxyType({"d0": frozenset({"search"})}),
        attributes=MappingProxyType({"sites": ("Cork", "Dublin")}),
    )


def _descriptor() -> DatasetDescriptor:
    capabilities = [
        {
            "name": name,
            "description": name,
            "effect": "read",
            "tool_name": name,
            "results": [{"name": "id", "type": "STRING"}],
        }
        for name in ("search", "compare")
    ]
    return DatasetDescriptor.model_validate(
        {
            "dataset": "d0",
            "description": "Measured by the benchmark.",
            "tenant": "acme",
            "version": "1.0",
            "revision": "r1",
            "schema_version": "1",
            "as_of": "2026-09-01T00:00:00Z",
            "freshness": {"maximum_age_s": 3_600},
            "provenance": {"system": "bench", "source": "bench"},
            "capabilities": capabilities,
        }
    )
