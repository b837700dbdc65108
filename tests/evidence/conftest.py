"""A whole ledger, made once for each test file that says how many rows it has, and copied for each test."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from evidence.checkpoint import Receipt
from tests.evidence.evidence_builders import make_row, open_ledger, refused_row


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> tuple[Path, list[Receipt]]:
    """Its folder, and the receipts of its ``SIZE`` rows, of which each third is a refusal."""
    folder = tmp_path_factory.mktemp("pristine")
    ledger = open_ledger(folder)
    receipts = [ledger.append(make_row(n) if n % 3 else refused_row(n)) for n in range(request.module.SIZE)]
    ledger.close()
    return folder, receipts


@pytest.fixture
def folder(tmp_path: Path, pristine: tuple[Path, list[Receipt]]) -> Path:
    return Path(shutil.copytree(pristine[0], tmp_path / "copy"))


@pytest.fixture
def receipts(pristine: tuple[Path, list[Receipt]]) -> list[Receipt]:
    return pristine[1]
