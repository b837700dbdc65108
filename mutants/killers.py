"""Which test kills which mutant: a file of the repository, so that a check without its test is seen at once."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

FILE: Final = Path(__file__).with_name("killers.json")

_PLACED: Final = re.compile(r"\[(?:.*-)?(?:<lambda>|[A-Za-z_]+)\d+(?:-.*)?\]$")


def lasting(test: str) -> str:
    """The test without its parameters where one is named by its place among others: that changes as they grow."""
    return test.partition("[")[0] if _PLACED.search(test) else test


def read() -> dict[str, str]:
    """Test node ids by mutant id."""
    held = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    if not isinstance(held, dict) or not all(isinstance(test, str) for test in held.values()):
        raise ValueError(f"{FILE.name} does not map mutants to tests")
    return held


def write(killers: Mapping[str, str]) -> None:
    FILE.write_text(json.dumps(dict(sorted(killers.items())), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
