"""``make test-oracle``: the corpus through ZetaSQL and the product, with the counts and every difference."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.oracle import compare, corpus, world
from tests.oracle.compare import Case, Tally
from tests.oracle.corpus import Item
from tests.oracle.generate import Generator
from tests.oracle.product import Product
from tests.oracle.reference import Reference

PARTS = ("expressions", "columns", "templates")
LETTERS = "letters"
RANDOM = "random"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.oracle", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write ZetaSQL's answers as vectors for the default suite")
    parser.add_argument("--json", action="store_true", help="the counts as JSON")
    parser.add_argument("--random", type=int, default=0, metavar="N", help="N random expressions over columns as well")
    parser.add_argument("--seed", type=int, default=1, help="what the random expressions are made from")
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help=f"of {', '.join((*PARTS, LETTERS))}; all where none is named"
    )
    asked = parser.parse_args()
    if not set(asked.parts) <= {*PARTS, LETTERS}:
        parser.error(f"the parts are {', '.join((*PARTS, LETTERS))}")
    logging.disable(logging.WARNING)
    items = {
        part: list(getattr(corpus, part)()) for part in asked.parts or (PARTS if asked.write else (*PARTS, LETTERS))
    }
    if asked.random:
        items[RANDOM] = list(Generator(asked.seed).items(asked.random))
    if asked.write and set(items) != set(PARTS):
        parser.error("vectors are written of all parts, and of nothing random")
    return asyncio.run(_run(items, write=asked.write, as_json=asked.json))


async def _run(items: Mapping[str, Sequence[Item]], *, write: bool, as_json: bool) -> int:
    reference = Reference(world.reference_tables())
    vectors: dict[str, Any] = {}
    tallies: dict[str, Tally] = {}
    with tempfile.TemporaryDirectory() as folder:
        product = Product(world.write(Path(folder)), world.tables())
        try:
            for part, asked in items.items():
                tallies[part] = Tally()
                by_row = part in ("columns", RANDOM)
                cases = [compare.ask(reference, item, rows_alone=by_row) for item in asked]
                vectors[part] = await _judge(product, [case for case in cases if case is not None], tallies[part])
        finally:
            await product.engine.close()
    counts = {part: tally.counts() for part, tally in tallies.items()}
    for tally in tallies.values():
        print("\n".join(tally.notes), file=sys.stderr)
    print(json.dumps(counts) if as_json else "\n".join(f"{part:12} {held}" for part, held in counts.items()))
    if write:
        corpus.VECTORS.write_text(corpus.dump(vectors))
    return int(any(_is_bad(part, held) for part, held in counts.items()))


def _is_bad(part: str, held: Mapping[str, int]) -> bool:
    """Nothing is ever different; of the corpus nothing is spared, and nothing fails that has a value."""
    strict = part != RANDOM
    return bool(held[compare.DIFFERENT] or (strict and (held[compare.SPARED] or held[compare.FAILED])))


async def _judge(product: Product, cases: list[Case], tally: Tally) -> list[Any]:
    out = []
    for case in cases:
        verdict, why = await compare.judge(product, case)
        tally.add(case, verdict, why)
        out.append(corpus.vector(case, verdict))
    return out


if __name__ == "__main__":
    sys.exit(main())
