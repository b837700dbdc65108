"""``make bench``: every section, or the named ones, as tables and as JSON."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from benchmarks import admission, cache, calls, discovery, evidence, grants, queries, results, rubbish, state, workers
from benchmarks.report import Section

RESULTS: Final = Path(__file__).parent / "results" / "latest.json"
SECTIONS: Final[dict[str, Callable[..., Section]]] = {
    "admission": admission.measure,
    "cache": cache.measure,
    "calls": calls.measure,
    "discovery": discovery.measure,
    "evidence": evidence.measure,
    "grants": grants.measure,
    "queries": queries.measure,
    "results": results.measure,
    "rubbish": rubbish.measure,
    "state": state.measure,
    "workers": workers.measure,
}


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    options.add_argument(
        "sections", nargs="*", metavar="SECTION", help=f"{', '.join(SECTIONS)}; all where none is named"
    )
    options.add_argument("--blocks", type=int, help="interleaved blocks of each side; three at least")
    options.add_argument("--calls", type=int, help="calls of one block")
    options.add_argument("--json", action="store_true", help="one JSON object with the sections, and no tables")
    chosen = options.parse_args()
    unknown = sorted(set(chosen.sections) - set(SECTIONS))
    if unknown:
        options.error(f"there is no section {unknown[0]}")
    if chosen.blocks is not None and chosen.blocks < 3:
        options.error("fewer than three blocks say nothing about how far they differ")
    sizes = {name: size for name in ("blocks", "calls") if (size := getattr(chosen, name)) is not None}
    console, measured = Console(emoji=False), {}
    for name in chosen.sections or SECTIONS:
        section = SECTIONS[name](**sizes)
        keep(name, section)
        measured[name] = section.to_json()
        if not chosen.json:
            section.show(console)
            console.print(", ".join(f"{fact} {value}" for fact, value in section.facts.items()), markup=False)
    if chosen.json:
        print(json.dumps(measured, indent=2))


def keep(name: str, section: Section) -> None:
    """Beside the last run of the other sections; each says when it was measured, and on what."""
    RESULTS.parent.mkdir(exist_ok=True)
    kept: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    others = {other: report for other, report in kept.items() if other in SECTIONS}
    RESULTS.write_text(json.dumps(others | {name: section.to_json()}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
