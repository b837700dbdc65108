"""Of 64 concurrent uses of one leaf in four processes exactly one executes; ``make races`` runs 500 rounds of this."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.races.racing import Race, RaceLost
from tests.races.served_race import race_served
from tests.races.store_race import race_stores

pytestmark = pytest.mark.live

ROUNDS, CALLS = 20, 3


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
def test_of_64_spends_in_four_processes_exactly_one_wins(tmp_path: Path, kind: str) -> None:
    race = race_stores(kind, tmp_path, ROUNDS)
    assert race.outcomes == {"SPENT": ROUNDS, "GRANT_REPLAYED": 63 * ROUNDS}


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
def test_of_64_calls_to_four_serving_processes_one_runs_one_query_and_each_leaves_a_row(
    tmp_path: Path, kind: str
) -> None:
    race = race_served(kind, tmp_path, CALLS)
    assert race.outcomes == {"PRINCIPAL_AUTHORIZED": CALLS, "GRANT_REPLAYED": 63 * CALLS}
    assert race.further == {"executions": CALLS, "evidence_rows": 64 * CALLS}


@pytest.mark.parametrize(
    "outcomes",
    [{"SPENT": 2, "GRANT_REPLAYED": 62}, {"GRANT_REPLAYED": 64}, {"SPENT": 1, "GRANT_REPLAYED": 62, "OTHER": 1}],
)
def test_a_round_with_another_end_is_a_race_lost(outcomes: dict[str, int]) -> None:
    with pytest.raises(RaceLost, match="round 1"):
        Race("a race").judge(Counter(outcomes), "SPENT")
