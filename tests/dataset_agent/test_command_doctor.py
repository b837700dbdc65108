"""``doctor`` says broken for whatever could not be served, and what is wrong with it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from contract.settings import SHIPPED_DATASETS
from tests.dataset_agent.command_line import CommandLine

pytestmark = pytest.mark.live


def test_doctor_makes_no_home(tmp_path: Path, command: CommandLine) -> None:
    run = command("doctor", "--json")
    found = {finding["check"]: finding["status"] for finding in run.json["findings"]}
    assert run.code == 1
    assert (found["trust file"], found["state store"], found["cache store"]) == ("broken", "absent", "absent")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def command(tmp_path: Path) -> CommandLine:
    """Of somebody who has no keys and serves nothing."""
    return CommandLine({"HOME": str(tmp_path / "home"), "URL": "http://127.0.0.1:1"})


@pytest.fixture
def datasets(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SHIPPED_DATASETS, tmp_path / "datasets"))


def _garbage(descriptor: Path) -> None:
    descriptor.write_bytes(b"\xff\x00 not: [a descriptor")


def _folder(descriptor: Path) -> None:
    descriptor.unlink()
    descriptor.mkdir()


@pytest.mark.parametrize("breaking", [_garbage, _folder], ids=["garbage", "folder"])
def test_an_unreadable_descriptor_is_named_with_its_dataset_and_stops_no_other(
    command: CommandLine, datasets: Path, breaking: Callable[[Path], None]
) -> None:
    breaking(datasets / "chromatography-results" / "descriptor.yaml")
    run = command("doctor", "--json", DATASETS=str(datasets))
    assert run.code == 1
    found = {finding["check"]: finding for finding in run.json["findings"]}
    assert found["dataset purification-batches"]["status"] == "ok"
    broken = found["dataset chromatography-results"]
    assert broken["status"] == "broken"
    assert "descriptor.yaml" in broken["advice"]
    assert "\n" not in broken["advice"]


def _no_column(dataset: Path) -> None:
    (dataset / "templates" / "search.sql").write_text("SELECT no_such_column FROM chromatography_run")


def _no_file(dataset: Path) -> None:
    next(dataset.rglob("*.parquet")).unlink()


def _not_parquet(dataset: Path) -> None:
    next(dataset.rglob("*.parquet")).write_bytes(b"not a Parquet file")


def _other_columns(dataset: Path) -> None:
    pq.write_table(pa.table({"colour": ["red"]}), next(dataset.rglob("*.parquet")))


@pytest.mark.parametrize("breaking", [_no_column, _no_file, _not_parquet, _other_columns])
def test_doctor_finds_broken_what_could_not_be_served(
    command: CommandLine, datasets: Path, breaking: Callable[[Path], None]
) -> None:
    breaking(datasets / "chromatography-results")
    run = command("doctor", "--json", DATASETS=str(datasets))
    assert run.code == 1
    found = {finding["check"]: finding for finding in run.json["findings"]}
    assert found["dataset purification-batches"]["status"] == "ok"
    broken = found["dataset chromatography-results"]
    assert broken["status"] == "broken"
    assert ".sql:1: " in broken["advice"] or ".parquet: " in broken["advice"]
