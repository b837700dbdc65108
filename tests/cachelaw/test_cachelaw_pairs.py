"""A sample of what ``make test-cache`` does a hundred thousand times: the real cache against the oracle."""

from __future__ import annotations

import ast
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from cache.result_cache import ResultCache
from tests.cachelaw import oracle
from tests.cachelaw.judging import KINDS, Tally, judge, pairs, stores, valkey
from tests.cachelaw.requests import request
from tests.cachelaw.spelling import write

SAMPLE = 400


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with valkey() as url:
        yield url


@pytest.fixture
async def caches(tmp_path: Path, server: str) -> AsyncIterator[dict[str, ResultCache]]:
    async with stores(tmp_path, server) as opened:
        yield opened


@pytest.mark.parametrize("kind", KINDS)
async def test_the_cache_shares_an_answer_exactly_where_the_oracle_does(
    caches: dict[str, ResultCache], kind: str
) -> None:
    rng, tally = Random(kind), Tally()
    for number, pair in enumerate(pairs(kind, SAMPLE, rng)):
        await judge(pair, number, caches, rng, tally)
    assert {name for _, name in tally} == set(KINDS[kind])
    assert [place for place, count in tally.items() if not count.holds(kind)] == []
    assert sum(count.pairs for count in tally.values()) == SAMPLE


def test_the_oracle_imports_nothing_of_the_product() -> None:
    tree = ast.parse(Path(oracle.__file__).read_text(encoding="utf-8"))
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    imported |= {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    assert imported == {"__future__", "collections.abc", "dataclasses"}


def test_the_least_size_of_a_group_and_its_rounding_reach_the_template_s_digest() -> None:
    rng, digests = Random(7), set()
    base = request(rng)
    groups = (None, (5, None), (6, None), (5, 10), (5, 20))
    for group in groups:
        digests.add(write(rng, replace(base, group=group), "t").intent.template_digest)
    assert len(digests) == len(groups)
