"""``python -m evals``: the eval set against the served product, each metric beside its gate; exit 1 where one is missed."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from evals.custom_metrics import GATES, INVARIANTS, METRICS, NEED_A_JUDGE, Score, Turn
from evals.observing import observed, read_set

_SHOWN: Final = 5


def scores(turns: Sequence[Turn]) -> dict[str, Score]:
    return {name: metric(turns) for name, metric in METRICS.items()}


def missed(found: Mapping[str, Score]) -> list[str]:
    """The metrics below their gate. An invariant is missed by one turn, however many there are."""
    return [name for name, score in found.items() if score.value < GATES[name] or (name in INVARIANTS and score.failed)]


def main(arguments: Sequence[str] | None = None) -> int:
    options = argparse.ArgumentParser(prog="python -m evals", description=__doc__)
    options.add_argument("--json", action="store_true", help="one JSON object")
    chosen = options.parse_args(arguments)
    cases = read_set()
    turns = tuple(observed(cases))
    found = scores(turns)
    below = missed(found)
    if chosen.json:
        print(json.dumps(_told(turns, found, below), indent=2))
    else:
        print(f"{len(cases.eval_cases)} cases, {len(turns)} turns")
        for name, score in found.items():
            gate = "invariant" if name in INVARIANTS else f">= {GATES[name]:g}"
            print(
                f"{'MISSED' if name in below else 'ok':<7}{name:<32}{score.value:>7.4f}  {gate:<10}of {score.counted}"
            )
            for case in score.failed[:_SHOWN]:
                print(f"       {case}")
        for name in NEED_A_JUDGE:
            print(f"{'n/a':<7}{name:<32}{'':>7}  no model judges here")
    return 1 if below or not turns else 0


def _told(turns: Sequence[Turn], found: Mapping[str, Score], below: Sequence[str]) -> dict[str, object]:
    metrics: dict[str, object] = {
        name: {
            "value": score.value,
            "gate": GATES[name],
            "invariant": name in INVARIANTS,
            "met": name not in below,
            "counted": score.counted,
            "failed": list(score.failed),
        }
        for name, score in found.items()
    }
    return {"turns": len(turns), "metrics": metrics | dict.fromkeys(NEED_A_JUDGE), "met": not below}


if __name__ == "__main__":
    sys.exit(main())
