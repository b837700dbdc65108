"""The committed answers of ZetaSQL against the product, without ZetaSQL; ``make test-oracle`` asks it anew.

Each question of the corpus (``tests/oracle/corpus``) gives ZetaSQL's answer, type included, fails
where ZetaSQL fails, or is refused when it is loaded. What was accepted stays accepted.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.oracle import compare, corpus, world
from tests.oracle.compare import DIFFERENT, REFUSED, SAME, Case
from tests.oracle.product import Product

VECTORS = json.loads(corpus.VECTORS.read_text())
ITEMS = {part: {item.name: item for item in getattr(corpus, part)()} for part in VECTORS}
TOGETHER = 30
# How many gave ZetaSQL's answer when this was written: fewer is a loss.
ACCEPTED = {"expressions": 1620, "columns": 371, "templates": 165}


def cases(part: str, half: int) -> list[tuple[Case, str]]:
    """Every second vector of a part with the verdict that was written down."""
    return [
        (Case(ITEMS[part][one["name"]], one["names"], one["types"], one.get("rows"), one.get("by_row")), one["verdict"])
        for one in VECTORS[part][half::2]
    ]


@pytest.fixture
async def product(tmp_path: Path) -> AsyncIterator[Product]:
    held = Product(world.write(tmp_path), world.tables())
    yield held
    await held.engine.close()


async def judged(product: Product, part: str, half: int) -> dict[str, str]:
    """The verdict of each vector now. Expressions that have a value are asked many at a time."""
    out: dict[str, str] = {}
    alone = []
    together = []
    for case, before in cases(part, half):
        is_value = part == "expressions" and before == SAME and case.rows is not None
        (together if is_value else alone).append(case)
    for start in range(0, len(together), TOGETHER):
        chunk = together[start : start + TOGETHER]
        if not await same_together(product, chunk):
            alone.extend(chunk)
        else:
            out.update(dict.fromkeys((case.item.name for case in chunk), SAME))
    for case in alone:
        out[case.item.name], why = await compare.judge(product, case)
        assert out[case.item.name] in (SAME, REFUSED), f"{case.item.name}: {why}"
    return out


async def same_together(product: Product, chunk: list[Case]) -> bool:
    """Whether one query of all these expressions gives the values of each; where not, each is asked alone."""
    columns = {f"x{index}": case.types[0] for index, case in enumerate(chunk)}
    select = ", ".join(f"{case.item.name} AS x{index}" for index, case in enumerate(chunk))
    outcome = await product.run(f"SELECT {select}", columns)
    wanted = [[case.rows[0][0] for case in chunk if case.rows is not None]]
    return outcome.kind == "rows" and compare.exactly(outcome.rows) == compare.exactly(wanted)


@pytest.mark.parametrize("half", [0, pytest.param(1, marks=pytest.mark.live)])
@pytest.mark.parametrize("part", list(ACCEPTED))
async def test_every_question_of_the_corpus_has_zetasqls_answer_or_is_refused(
    product: Product, part: str, half: int
) -> None:
    now = await judged(product, part, half)
    before = {case.item.name: verdict for case, verdict in cases(part, half)}
    assert now == before


@pytest.mark.parametrize("part", list(ACCEPTED))
def test_what_was_accepted_is_written_down_as_accepted(part: str) -> None:
    assert Counter(one["verdict"] for one in VECTORS[part])[SAME] >= ACCEPTED[part]


def test_the_vectors_are_of_this_corpus() -> None:
    for part, items in ITEMS.items():
        written = [one["name"] for one in VECTORS[part]]
        assert len(set(written)) == len(written)
        # Those without a vector have a type that no template has, such as INTERVAL.
        assert set(written) <= set(items)
        assert len(items) - len(written) <= len(items) // 100
        assert not any(one["verdict"] == DIFFERENT for one in VECTORS[part])


def test_a_value_of_another_type_is_another_value() -> None:
    pairs: Iterable[tuple[Any, Any]] = [(1, 1.0), (1, True), ("1", 1), ([1], [1.0]), ({"a": 1}, {"a": 1.0}), (None, 0)]
    assert not any(compare.exactly(one) == compare.exactly(other) for one, other in pairs)
