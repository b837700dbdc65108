"""The stores a ledger may lie in, by one contract."""

from __future__ import annotations

from pathlib import Path

import pytest

from evidence.sqlite_store import SqliteStore
from evidence.subjects import SubjectKeys
from tests.evidence.store_contract import Place, StoreContract


class TestSqlite(StoreContract):
    @pytest.fixture
    def make_place(self, tmp_path: Path) -> Place:
        return Place(lambda: SqliteStore(tmp_path / "ledger.db"), lambda: SubjectKeys(tmp_path / "subjects.db"))
