"""``make test-oracle``: the corpus through ZetaSQL and the product, with the counts and every difference."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.oracle import compare, corpus, world
from tests.oracle.compare import Case, Tally
from tests.oracle.product import Product
from tests.oracle.reference import Reference

PARTS = ("expressions", "columns", "templates")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.oracle", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write ZetaSQL's answers as vectors for the default suite")
    parser.add_argument("--json", action="store_true", help="the counts as JSON")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; all where none is named")
    asked = parser.parse_args()
    if not set(asked.parts) <= set(PARTS):
        parser.error(f"the parts are {', '.join(PARTS)}")
    logging.disable(logging.WARNING)
    return asyncio.run(_run(asked.parts or PARTS, write=asked.write, as_json=asked.json))


async def _run(parts: Iterable[str], *, write: bool, as_json: bool) -> int:
    reference = Reference(world.reference_tables())
    vectors: dict[str, Any] = {}
    tallies: dict[str, Tally] = {}
    with tempfile.TemporaryDirectory() as folder:
        product = Product(world.write(Path(folder)), world.tables())
        try:
            for part in parts:
                tallies[part] = Tally()
                cases = [compare.ask(reference, item, rows_alone=part == "columns") for item in getattr(corpus, part)()]
                vectors[part] = await _judge(product, [case for case in cases if case is not None], tallies[part])
        finally:
            await product.engine.close()
    counts = {part: tally.counts() for part, tally in tallies.items()}
    for tally in tallies.values():
        print("\n".join(tally.notes), file=sys.stderr)
    print(json.dumps(counts) if as_json else "\n".join(f"{part:12} {held}" for part, held in counts.items()))
    if write:
        corpus.VECTORS.write_text(corpus.dump(vectors))
    return int(any(held[compare.DIFFERENT] for held in counts.values()))


async def _judge(product: Product, cases: list[Case], tally: Tally) -> list[Any]:
    out = []
    for case in cases:
        verdict, why = await compare.judge(product, case)
        tally.add(case, verdict, why)
        out.append(corpus.vector(case, verdict))
    return out


if __name__ == "__main__":
    sys.exit(main())
