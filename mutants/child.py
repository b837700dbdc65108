"""Runs tests in a copy of the tree and prints, as its last line, what failed first."""

from __future__ import annotations

import json
import sys

import pytest


class _FirstFailure:
    def __init__(self) -> None:
        self.node: str | None = None
        self.ran = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.ran += report.when == "call"
        if report.failed and self.node is None:
            self.node = report.nodeid

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed and self.node is None:
            self.node = report.nodeid


def main(tests: list[str]) -> None:
    first = _FirstFailure()
    options = ["-x", "-q", "-p", "no:cacheprovider", "--no-header", "--tb=no", "-m", ""]
    status = pytest.main([*options, *tests], plugins=[first])
    print(json.dumps({"killer": first.node, "ran": first.ran, "status": int(status)}))


if __name__ == "__main__":
    main(sys.argv[1:])
