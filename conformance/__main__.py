"""``python -m conformance``: the kit's vectors against the served product; ``--only AD-003``, ``--json``."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from conformance import kit


@dataclass(frozen=True, slots=True)
class Finding:
    """What a run of the kit showed of one assertion; ``seconds`` are of its vectors, without the start of anything."""

    assertion: str
    passed: bool
    detail: str
    steps: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Run:
    """``seconds`` is all of it, from the first process that is started to the last that is stopped."""

    findings: tuple[Finding, ...]
    vectors: int
    steps: int
    observations: int
    attempts: int
    executions: int
    seconds: float

    @property
    def failed(self) -> list[Finding]:
        return [finding for finding in self.findings if not finding.passed]


def run(only: Sequence[str] = ()) -> Run:
    """The vectors of the assertions ``only``, or all, against processes that are started for it."""
    kit.installed()
    from agentic_dataset_conformance.runner import VectorSuite, load_suite  # type: ignore[import-not-found, unused-ignore]
    from agentic_dataset_conformance.runner import run as run_kit

    from conformance.processes import scratch
    from conformance.subject import ServedSubject

    suite = load_suite()
    if only:
        suite = VectorSuite(tuple(vector for vector in suite.vectors if vector.assertion in only))
    if not suite.vectors:
        raise SystemExit(f"the kit has no vector of {', '.join(only)}")
    began = time.monotonic()
    with scratch() as home, ServedSubject(home, suite.vectors[0].world) as subject:
        report = run_kit(subject, suite)
        ended = [*subject.began[1:], time.monotonic()]
        took = [(vector, end - start) for vector, start, end in zip(suite.vectors, subject.began, ended, strict=True)]
        steps, attempts, executions = subject.steps, len(subject.attempts), subject.executions()
    findings = [
        Finding(
            result.assertion,
            result.passed,
            result.detail,
            sum(len(vector.steps) for vector, _ in took if vector.assertion == result.assertion),
            sum(seconds for vector, seconds in took if vector.assertion == result.assertion),
        )
        for result in report.results
    ]
    return Run(
        tuple(finding for finding in findings if not only or finding.assertion in only),
        len(suite.vectors),
        steps,
        report.observations,
        attempts,
        executions,
        time.monotonic() - began,
    )


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", nargs="+", default=[], metavar="ID", help="the vectors of these assertions")
    options.add_argument("--json", action="store_true", dest="as_json", help="print one JSON object")
    chosen = options.parse_args()
    done = run(chosen.only)
    if chosen.as_json:
        print(json.dumps(to_json(done)))
    else:
        tell(done)
    return 1 if done.failed else 0


def to_json(done: Run) -> dict[str, Any]:
    figures = ("vectors", "steps", "observations", "attempts", "executions")
    return {
        "passed": not done.failed,
        "assertions": {item.assertion: {"passed": item.passed, "detail": item.detail} for item in done.findings},
        **{name: getattr(done, name) for name in figures},
        "seconds": round(done.seconds, 1),
    }


def tell(done: Run) -> None:
    print("assertion  result  steps  seconds")
    for item in done.findings:
        result = "pass" if item.passed else "FAIL"
        print(f"{item.assertion}     {result}    {item.steps:>5}  {item.seconds:>7.1f}  {item.detail}")
    passed = len(done.findings) - len(done.failed)
    print(
        f"{passed}/{len(done.findings)} assertions, {done.vectors} vectors, {done.steps} steps, "
        f"{done.observations} observations in {done.seconds:.1f} s; "
        f"{done.attempts} calls were sent, {done.executions} of which made an engine run"
    )


if __name__ == "__main__":
    sys.exit(main())
