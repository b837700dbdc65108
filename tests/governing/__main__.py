"""``make test-governing``: random (template, scope, arguments) triples over every shipped and every hostile template."""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from queries.template import TemplateError
from tests.governing.escapes import ESCAPES, REFUSED
from tests.governing.judging import Count, Judge, triples
from tests.governing.nested import nested
from tests.governing.worlds import World, shipped, shop
from tests.queries.world import template

_DATASETS = ("purification-batches", "chromatography-results", "clinical-private")


def worlds(seed: int, rounds: int) -> Iterator[tuple[World, int]]:
    """A world and how many scopes and arguments each of its templates gets."""
    for place in range(rounds):
        yield shop(seed + place, size=(25, 40, 60, 0)[place % 4]), 4
        yield nested(seed + place), 4
        for dataset in _DATASETS:
            yield shipped(dataset, seed + place), 20


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m tests.governing", description=__doc__)
    options.add_argument("--seed", type=int, default=1, help="another seed is another run")
    options.add_argument("--rounds", type=int, default=4, help="each is a new set of data and some 880 triples")
    chosen = options.parse_args()
    loaded = _refused_at_load()
    print(f"hostile templates: {len(ESCAPES)} load, {loaded} of {len(REFUSED)} are refused at load as they must be")
    total = asyncio.run(_judge_all(chosen.seed, chosen.rounds))
    _report(total)
    return 0 if not total.disagree and loaded == len(REFUSED) else 1


def _refused_at_load() -> int:
    refused = 0
    for sql in REFUSED:
        try:
            template(sql, "id:INT64")
        except TemplateError:
            refused += 1
        else:
            print(f"LOADED: {sql}")
    return refused


async def _judge_all(seed: int, rounds: int) -> Count:
    total = Count()
    for world, times in worlds(seed, rounds):
        started, before = time.perf_counter(), total.agree + total.refused + len(total.disagree)
        with tempfile.TemporaryDirectory() as folder:
            judge = Judge(world, Path(folder))
            try:
                for triple in triples(world, random.Random(f"{seed}/{world.dataset}/{before}"), times):
                    await judge.judge(triple, total)
            finally:
                await judge.close()
        judged = total.agree + total.refused + len(total.disagree) - before
        print(
            f"{world.dataset}: {len(world.entries)} templates, {judged} triples, {time.perf_counter() - started:.0f} s"
        )
    return total


def _report(total: Count) -> None:
    for kind, number in sorted(Counter(total.kinds).items()):
        print(f"  {kind:32} {number:6} agree")
    print(
        f"agree               {total.agree}  ({total.rows} with rows, {total.plain} as plain text too, {total.failed} both failed)"
    )
    print(f"refused at the call {total.refused}")
    print(f"disagree            {len(total.disagree)}")
    for triple in total.disagree[:5]:
        print(f"DISAGREE {triple}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
