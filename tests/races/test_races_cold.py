"""64 equal cold calls in four processes are one execution, also where its process is killed; ``make races`` runs 200 rounds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.races.cold_race import KILLS, race_cold, race_killed

pytestmark = pytest.mark.live

CALLS = 3


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
def test_of_64_equal_cold_calls_in_four_processes_one_executes_and_each_has_a_row(tmp_path: Path, kind: str) -> None:
    race = race_cold(kind, tmp_path, CALLS)
    assert race.outcomes == {"PRINCIPAL_AUTHORIZED": 64 * CALLS}
    assert race.further["executions"] == CALLS + race.further["executions_alone"]
    assert race.further["evidence_rows"] == 64 * CALLS


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
def test_where_the_process_that_executes_is_killed_the_others_finish_with_one_execution_more(
    tmp_path: Path, kind: str
) -> None:
    race = race_killed(kind, tmp_path, KILLS)
    assert race.outcomes == {"PRINCIPAL_AUTHORIZED": 48 + 32 + 16}
    assert race.further["executions"] == 2 * KILLS + race.further["executions_alone"]
    assert race.further["evidence_rows"] == 48 + 32 + 16
