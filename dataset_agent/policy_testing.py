"""``policy test``: whether a table of expected verdicts is what the policies decide, for a data owner's CI."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final
from xml.etree import ElementTree

import typer

from contract.errors import Category, Component, DatasetAgentError
from contract.settings import Settings
from contract.verdict import Decision
from control_plane.admission import EvaluatorFailure, admit, early, question_of
from control_plane.admission_rules import AdmissionRequest, case_of
from control_plane.descriptor import DatasetDescriptor
from control_plane.policy import PolicyAnswer, PolicySet
from control_plane.policy_explain import Ask
from control_plane.policy_table import Expected, Table, read_table
from control_plane.policy_trace import State, trace
from dataset_agent.configuration import load_settings
from dataset_agent.console import EXIT_FAULT, AsJson, note, plain, print_json, progress, say
from dataset_agent.policy_world import PolicyWorld, asking, expected_file, open_policy_world, server_of

EvaluatorUrl = Annotated[
    str | None,
    typer.Option("--evaluator", help="Ask this policy server; default: DATASET_AGENT_POLICY_URL, else in process."),
]
_SHOWN: Final = 100


@dataclass(frozen=True, slots=True)
class Checked:
    """One combination as it was decided, and in what that differs from what is expected."""

    expected: Expected
    decision: Decision
    differences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TableReport:
    """Of one table under one policy version.

    ``deciding`` are policies that made a decision, ``matching`` those that matched without making
    one, ``silent`` those of the set that never matched; all are empty where a server decided.
    """

    version: str
    checked: tuple[Checked, ...]
    deciding: tuple[str, ...]
    matching: tuple[str, ...]
    silent: tuple[str, ...]
    unsaid: int

    @property
    def failed(self) -> tuple[Checked, ...]:
        return tuple(one for one in self.checked if one.differences)

    def to_json(self) -> dict[str, Any]:
        return {
            "policy_version": self.version,
            "cases": len(self.checked),
            "failed": [_difference(one) for one in self.failed],
            "deciding": list(self.deciding),
            "matching": list(self.matching),
            "never_decided": list(self.matching),
            "never_matched": list(self.silent),
            "combinations_unsaid": self.unsaid,
        }


def check(
    file: Annotated[
        Path | None, typer.Argument(help="The table, .yaml or .csv; default: policies/expected.yaml.")
    ] = None,
    policy_version: Annotated[
        list[str] | None, typer.Option(help="Decide by this version of the set; repeatable; all: by every one.")
    ] = None,
    evaluator: EvaluatorUrl = None,
    junit: Annotated[Path | None, typer.Option(help="Write the outcome as JUnit XML to a file.")] = None,
    coverage: Annotated[bool, typer.Option("--coverage", help="Fail too where a policy matched no case.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check a table of expected verdicts against the policies; exit 1 where one differs."""
    settings = load_settings()
    versions = policy_version or []
    if evaluator and versions:
        raise typer.BadParameter("a policy server decides by its own version: leave --policy-version out")
    with progress("deciding"):
        path, reports = asyncio.run(_tested(settings, file, versions, evaluator))
    if junit is not None:
        _write_junit(junit, path, reports)
    if as_json:
        print_json({"file": str(path), "ok": _is_ok(reports, coverage), "versions": [one.to_json() for one in reports]})
    for report in () if as_json else reports:
        _tell(path, report, coverage)
    if not _is_ok(reports, coverage):
        raise typer.Exit(EXIT_FAULT)


def _is_ok(reports: tuple[TableReport, ...], coverage: bool) -> bool:
    return not any(report.failed or (coverage and report.silent) for report in reports)


async def _tested(
    settings: Settings, file: Path | None, versions: list[str], evaluator: str | None
) -> tuple[Path, tuple[TableReport, ...]]:
    world = open_policy_world(settings, versions, server_of(settings, versions, evaluator))
    path = file or expected_file(settings.datasets / "policies")
    if not path.exists():
        raise DatasetAgentError(
            Component.COMMAND,
            Category.NOT_FOUND,
            "command.policy.table",
            f"{path} is not there: name the table to test",
        )
    return path, await check_table(world, path)


async def check_table(world: PolicyWorld, path: Path) -> tuple[TableReport, ...]:
    """What the world decides of every combination of a table, under each of its policy sets. Raises INVALID_INPUT."""
    datasets = {
        name: tuple(capability.name for capability in manifest.capabilities)
        for name, manifest in world.registry.datasets.items()
    }
    table = read_table(path, tuple(world.directory.by_name), datasets)
    descriptors = {name: world.descriptor(name) for name in {one.dataset for one in table.expected}}
    now = time.time() if table.now is None else table.now
    async with asking(world) as ask:
        if world.url is not None:
            return (await _checked(world, table, ask, None, descriptors, now),)
        return tuple([await _checked(world, table, ask, policies, descriptors, now) for policies in world.sets])


async def _checked(
    world: PolicyWorld,
    table: Table,
    ask: Ask,
    policies: PolicySet | None,
    descriptors: Mapping[str, Any],
    now: float,
) -> TableReport:
    version = world.in_force if policies is None else policies.version
    deciding, matching = set[str](), set[str]()
    found: list[Checked] = []
    for one in table.expected:
        request = replace(_request(world, one, descriptors, version, now), max_age_s=one.case.max_age_s)
        decision = early(request)
        if decision is None:
            question = question_of(case_of(request))
            answer: PolicyAnswer | EvaluatorFailure = await ask(policies, question)
            decision = admit(request, answer)
            if policies is not None:
                matching |= {item.policy.policy_id for item in trace(policies, question) if item.state is State.MATCHES}
        deciding |= {decision.policy_id or ""}
        found.append(Checked(one, decision, one.differences(decision)))
        version = decision.policy_version if policies is None else version
    known = set(policies.policies) if policies is not None else set[str]()
    return TableReport(
        version,
        tuple(found),
        tuple(sorted(known & deciding)),
        tuple(sorted(known & matching - deciding)),
        tuple(sorted(known - matching - deciding)),
        _unsaid(world, table),
    )


def _request(
    world: PolicyWorld, one: Expected, descriptors: Mapping[str, Any], version: str, now: float
) -> AdmissionRequest:
    return AdmissionRequest(
        principal=world.directory.named(one.principal),
        dataset=one.dataset,
        capability=one.capability,
        descriptor=descriptors[one.dataset],
        policy_version=version,
        now=now,
    )


def _unsaid(world: PolicyWorld, table: Table) -> int:
    """How many combinations of a person and a capability there are that the table does not name."""
    said = {(one.principal, one.dataset, one.capability) for one in table.expected}
    there = {
        (person, name, capability.name)
        for person in world.directory.by_name
        for name, manifest in world.registry.datasets.items()
        if isinstance(manifest, DatasetDescriptor)
        for capability in manifest.capabilities
    }
    return len(there - said)


def told(path: Path, one: Checked) -> str:
    """A difference as one line, as compilers write it."""
    expected = one.expected
    place = path.name if expected.line is None else f"{path.name}:{expected.line}"
    call = f"{expected.principal} {expected.dataset} {expected.capability}"
    return f"{place}: {call}: {'; '.join(one.differences)} ({one.decision.rationale})"


def _difference(one: Checked) -> dict[str, Any]:
    expected = one.expected
    return {
        "line": expected.line,
        "principal": expected.principal,
        "dataset": expected.dataset,
        "capability": expected.capability,
        "differences": list(one.differences),
        "decision": one.decision.public(),
        "obligations": one.decision.obligations.to_json(),
    }


def _tell(path: Path, report: TableReport, coverage: bool) -> None:
    for one in report.failed[:_SHOWN]:
        say(told(path, one))
    if len(report.failed) > _SHOWN:
        say(f"and {len(report.failed) - _SHOWN:,} more: --json tells all")
    number = len(report.checked)
    say(f"policy version {report.version}: {number:,} cases, {len(report.failed):,} differ")
    for name in report.matching:
        note(f"note: {name} matched and decided no case: another policy was named")
    for name in report.silent:
        note(f"{'fault' if coverage else 'note'}: {name} matched no case: no line would notice if it were gone")
    if report.unsaid:
        note(f"note: {report.unsaid:,} combinations of people and capabilities are in no case")


def _write_junit(file: Path, path: Path, reports: tuple[TableReport, ...]) -> None:
    suites = ElementTree.Element("testsuites")
    for report in reports:
        suite = ElementTree.SubElement(
            suites,
            "testsuite",
            name=f"{path.name} {report.version}",
            tests=str(len(report.checked)),
            failures=str(len(report.failed)),
        )
        for one in report.checked:
            expected = one.expected
            name = f"{expected.principal} {expected.capability}"
            case = ElementTree.SubElement(suite, "testcase", classname=plain(expected.dataset), name=plain(name))
            if one.differences:
                failure = ElementTree.SubElement(case, "failure", message=plain("; ".join(one.differences)))
                failure.text = plain(told(path, one))
    try:
        file.write_bytes(ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True))
    except OSError as error:
        message = f"{file} cannot be written: {error.strerror}"
        raise DatasetAgentError(Component.COMMAND, Category.INVALID_INPUT, "command.policy.junit", message) from error
