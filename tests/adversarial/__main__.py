"""``make test-adversarial``: every attack against the real agents, and how many of each class were withstood."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest


@dataclass
class Count:
    """Attacks by class, and which of them did not end as listed. Other tests count as the class ``beside``."""

    tried: Counter[str] = field(default_factory=Counter)
    failed: list[str] = field(default_factory=list)
    kinds: dict[str, str] = field(default_factory=dict)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            attack: Any = getattr(item, "callspec", None)
            kind = getattr(attack.params.get("attack"), "kind", None) if attack else None
            self.kinds[item.nodeid] = kind or "beside"

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            self.tried[self.kinds[report.nodeid]] += 1
        if report.failed:
            self.failed.append(report.nodeid)


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m tests.adversarial", description=__doc__)
    options.add_argument("--json", action="store_true", dest="as_json", help="print one JSON object")
    chosen = options.parse_args()
    count = Count()
    tests = str(Path(__file__).parent)
    status = pytest.main(
        ["-q", "-m", "", "-p", "no:cacheprovider", "--tb=short", "--no-header", tests], plugins=[count]
    )
    attacks = {kind: number for kind, number in sorted(count.tried.items()) if kind != "beside"}
    if chosen.as_json:
        print(json.dumps({"attacks": sum(attacks.values()), "classes": attacks, "failed": count.failed}, indent=1))
    else:
        for kind, number in attacks.items():
            print(f"{number:5}  {kind}")
        print(f"{sum(attacks.values()):5}  attacks, {len(count.failed)} of them not as listed")
    return int(status) or int(not attacks)


if __name__ == "__main__":
    sys.exit(main())
