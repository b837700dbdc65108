"""What is governed equals what an oracle leaves: a slice of ``make test-governing``, and proof that it can see."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from queries import duckdb_text
from queries.govern import rewrite
from queries.template import TemplateError
from tests.governing.escapes import ESCAPES, REFUSED
from tests.governing.faults import FAULTS, OF_GROUPS, Rewriter
from tests.governing.judging import Count, Judge, Triple, triples
from tests.governing.nested import nested
from tests.governing.worlds import World, shipped, shop
from tests.queries.world import template

SHOP = shop(1)


async def _judged(world: World, folder: Path, seed: int, times: int) -> Count:
    count, judge = Count(), Judge(world, folder)
    try:
        for triple in triples(world, random.Random(seed), times):
            await judge.judge(triple, count)
    finally:
        await judge.close()
    return count


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shop's files, and the database that the first judge of it builds."""
    return tmp_path_factory.mktemp("shop")


def test_there_are_enough_hostile_templates() -> None:
    assert len(ESCAPES) >= 80
    assert len({escape.sql for escape in ESCAPES}) == len(ESCAPES)


@pytest.mark.parametrize("sql", REFUSED)
def test_what_no_rewriting_could_be_trusted_with_never_loads(sql: str) -> None:
    with pytest.raises(TemplateError):
        template(sql, "id:INT64")


async def test_hostile_templates_answer_as_over_tables_filtered_and_masked_beforehand(folder: Path) -> None:
    count = await _judged(SHOP, folder, seed=11, times=1)
    assert not count.disagree, str(count.disagree[0])
    assert count.agree + count.refused == len(SHOP.entries)
    assert count.rows > count.agree / 2


async def test_arrays_and_structs_answer_as_over_tables_filtered_and_masked_beforehand(tmp_path: Path) -> None:
    count = await _judged(nested(1), tmp_path, seed=14, times=2)
    assert not count.disagree, str(count.disagree[0])
    assert count.rows > count.agree / 2


@pytest.mark.parametrize("dataset", ["purification-batches", "chromatography-results", "clinical-private"])
async def test_shipped_templates_answer_as_over_tables_filtered_and_masked_beforehand(
    dataset: str, tmp_path: Path
) -> None:
    count = await _judged(shipped(dataset, 1), tmp_path, seed=12, times=4)
    assert not count.disagree, str(count.disagree[0])
    assert count.rows


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
async def test_a_careless_rewriter_answers_and_is_seen(
    fault: Rewriter, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duckdb_text, "_check", lambda *_: None)
    monkeypatch.setattr(duckdb_text, "rewrite", fault)
    groups = tuple(entry for entry in SHOP.entries if entry.template.minimum_group is not None)
    world = replace(SHOP, entries=groups) if fault in OF_GROUPS else SHOP
    assert await _first_silent(world, folder, most=2_000) is not None


async def test_the_rewriter_itself_is_not_seen_where_careless_ones_are(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duckdb_text, "_check", lambda *_: None)
    monkeypatch.setattr(duckdb_text, "rewrite", rewrite)
    assert await _first_silent(SHOP, folder, most=100) is None


async def _first_silent(world: World, folder: Path, most: int) -> Triple | None:
    """The first triple to which the product gives another answer than the oracle."""
    rng, count, judge = random.Random(13), Count(), Judge(world, folder)
    try:
        while most > 0:
            every = list(triples(world, rng, 1))
            for triple in rng.sample(every, min(most, len(every))):
                await judge.judge(triple, count)
                if count.silent:
                    return count.silent[0]
            most -= len(every)
    finally:
        await judge.close()
    return None
