"""``python -m tests.memo``: what the memo makes of the committed pairs, beside likeness alone.

A hit is a paraphrase that is given its meaning; an error is any question that is given another
than its own. Prints a table by kind, or JSON with ``--json``; exits with 1 where the memo erred.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Mapping

from tests.memo.memo_world import Meaning, Pair, kept, nearest, pairs, recalled

_LEAST = 0.6


def measured(answer: Callable[[str], Meaning | None]) -> Mapping[str, Counter[str]]:
    """By kind: ``pairs``, ``paraphrases``, ``hits`` and ``errors``."""
    found: dict[str, Counter[str]] = {}
    for pair in pairs():
        counts = found.setdefault(pair.kind, Counter())
        counts.update(_judged(pair, answer(pair.question)))
    return dict(sorted(found.items()))


def total(found: Mapping[str, Counter[str]]) -> Counter[str]:
    return sum(found.values(), Counter())


def _judged(pair: Pair, given: Meaning | None) -> dict[str, int]:
    return {
        "pairs": 1,
        "paraphrases": int(pair.is_paraphrase),
        "hits": int(pair.is_paraphrase and given == pair.means),
        "errors": int(given is not None and given != pair.means),
    }


def main() -> int:
    held = kept()
    ours = measured(lambda question: recalled(question, held))
    alone = measured(lambda question: nearest(question, held, least=_LEAST))
    if "--json" in sys.argv[1:]:
        print(json.dumps({"memo": {**ours, "all": total(ours)}, "likeness_alone": {**alone, "all": total(alone)}}))
        return int(total(ours)["errors"] > 0)
    print(f"{len(pairs())} pairs against {len(held)} remembered questions; likeness alone answers from {_LEAST} on\n")
    print(f"{'kind':<13}{'pairs':>6}{'paraphrases':>13}{'hits':>6}{'errors':>8}{'errors of likeness alone':>27}")
    for kind, counts in [*ours.items(), ("all", total(ours))]:
        other = total(alone) if kind == "all" else alone[kind]
        row = (counts["pairs"], counts["paraphrases"], counts["hits"], counts["errors"], other["errors"])
        print(f"{kind:<13}{row[0]:>6}{row[1]:>13}{row[2]:>6}{row[3]:>8}{row[4]:>27}")
    all_ = total(ours)
    print(
        f"\nhit rate {all_['hits'] / all_['paraphrases']:.1%} of paraphrases; error rate {all_['errors'] / all_['pairs']:.1%}"
    )
    return int(all_["errors"] > 0)


if __name__ == "__main__":
    sys.exit(main())
