"""What the targets of the cache judge can fail."""

from __future__ import annotations

import pytest

from tests.cachefaults.bounds import LIMIT, LOG, SLACK, held

SQLITE = {"failed": 0, "highest_file_bytes": LIMIT, "highest_wal_bytes": LOG}
REDIS = {"failed": 0, "entries": 1, "highest_used_memory": LIMIT + SLACK}


@pytest.mark.parametrize("row", [SQLITE, REDIS], ids=["sqlite", "redis"])
def test_a_store_within_its_bounds_holds(row: dict[str, int]) -> None:
    assert held(row)


@pytest.mark.parametrize(
    "row",
    [
        SQLITE | {"failed": 1},
        SQLITE | {"highest_file_bytes": LIMIT + 1},
        SQLITE | {"highest_wal_bytes": LOG + 1},
        REDIS | {"failed": 1},
        REDIS | {"entries": 0},
        REDIS | {"highest_used_memory": LIMIT + SLACK + 1},
    ],
)
def test_a_store_that_refuses_or_outgrows_its_bound_does_not(row: dict[str, int]) -> None:
    assert not held(row)
