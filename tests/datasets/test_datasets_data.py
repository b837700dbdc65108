from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow.parquet as pq

from control_plane.manifest import DatasetManifest

DATASETS = Path(__file__).resolve().parents[2] / "datasets"
Table = Callable[[str, str], list[dict[str, Any]]]


def test_the_generator_makes_the_committed_tables(generator: ModuleType) -> None:
    for name, made in generator.build().items():
        assert pq.read_table(DATASETS / name).equals(made), name


def test_the_generator_writes_what_it_makes(generator: ModuleType, tmp_path: Path) -> None:
    tables = generator.build()
    assert generator.write(tables, tmp_path) == sum(p.stat().st_size for p in tmp_path.rglob("*.parquet"))


def test_another_seed_makes_other_tables(generator: ModuleType) -> None:
    name = "purification-batches/data/batch_record.parquet"
    assert not generator.build(1)[name].equals(pq.read_table(DATASETS / name))


def test_the_data_is_at_most_two_megabytes() -> None:
    assert sum(path.stat().st_size for path in DATASETS.rglob("*.parquet")) <= 2_000_000


def test_the_data_is_as_large_as_promised(table: Table) -> None:
    assert len(table("purification-batches", "batch_record")) >= 200
    assert len(table("chromatography-results", "peak_table")) >= 20_000
    assert len(table("clinical-private", "subject_observation")) >= 2_000


def test_required_columns_hold_no_null(manifests: dict[str, DatasetManifest], table: Table) -> None:
    for name, manifest in manifests.items():
        for declared in manifest.tables:
            required = [column.name for column in declared.columns if column.mode.value == "REQUIRED"]
            assert all(row[column] is not None for row in table(name, declared.name) for column in required)


def test_nothing_happened_after_as_of(manifests: dict[str, DatasetManifest], table: Table) -> None:
    for name, manifest in manifests.items():
        for declared in manifest.tables:
            stamps = [column.name for column in declared.columns if column.type.value == "TIMESTAMP"]
            assert all(
                row[c] <= manifest.as_of for row in table(name, declared.name) for c in stamps if row[c] is not None
            )


def test_the_first_batches_are_complete(table: Table) -> None:
    for name in ("B001", "B002", "B003"):
        steps = [row for row in table("purification-batches", "step_condition") if row["batch_id"] == name]
        assert [row["step_no"] for row in steps] == [1, 2, 3, 4, 5, 6]
        assert all(row["load_mass_g"] and row["pool_mass_g"] and row["ended_at"] for row in steps)
        (record,) = [row for row in table("purification-batches", "batch_record") if row["batch_id"] == name]
        assert record["recovery_pct"] and record["completed_at"]


def test_some_measurements_are_missing(table: Table) -> None:
    steps = table("purification-batches", "step_condition")
    assert 0 < sum(row["pool_mass_g"] is None for row in steps) < 0.03 * len(steps)
    observations = table("clinical-private", "subject_observation")
    assert 0 < sum(row["value"] is None for row in observations) < 0.1 * len(observations)
    assert any(row["resolution"] is None for row in table("chromatography-results", "peak_table"))


def test_the_recorded_recovery_is_the_mass_balance(table: Table) -> None:
    masses: dict[str, dict[int, tuple[Decimal | None, Decimal | None]]] = defaultdict(dict)
    for row in table("purification-batches", "step_condition"):
        masses[row["batch_id"]][row["step_no"]] = (row["load_mass_g"], row["pool_mass_g"])
    for record in table("purification-batches", "batch_record"):
        load, pool = masses[record["batch_id"]][1][0], masses[record["batch_id"]].get(6, (None, None))[1]
        expected = None if load is None or pool is None else (100 * pool / load).quantize(Decimal("0.01"))
        assert record["recovery_pct"] == expected


def test_ordinary_values_are_physically_plausible(table: Table) -> None:
    records = table("purification-batches", "batch_record")
    assert all(Decimal("0.5") < row["titre_g_l"] < 9 for row in records)
    assert all(55 < row["recovery_pct"] < 101 for row in records if row["recovery_pct"] is not None)
    for row in table("purification-batches", "step_condition"):
        assert (
            row["pool_mass_g"] is None
            or row["load_mass_g"] is None
            or row["pool_mass_g"] < 1.3 * float(row["load_mass_g"])
        )
    for row in table("purification-batches", "in_process_control"):
        if row["monomer_pct"] is not None:
            assert 85 < row["monomer_pct"] + row["hmw_pct"] <= 100


def test_steps_follow_one_another_in_time(table: Table) -> None:
    ended: dict[str, Any] = {}
    for row in table("purification-batches", "step_condition"):
        before = ended.get(row["batch_id"])
        assert before is None or before < row["started_at"] < row["ended_at"]
        ended[row["batch_id"]] = row["ended_at"]


def test_every_run_belongs_to_a_batch_of_the_same_site(table: Table) -> None:
    sites = {row["batch_id"]: row["site"] for row in table("purification-batches", "batch_record")}
    assert all(sites[row["batch_id"]] == row["site"] for row in table("chromatography-results", "chromatography_run"))


def test_peak_areas_of_a_run_sum_to_one_hundred_percent(table: Table) -> None:
    totals: dict[str, Decimal] = defaultdict(Decimal)
    for row in table("chromatography-results", "peak_table"):
        totals[row["run_id"]] += row["area_pct"]
    assert set(totals.values()) == {Decimal(100)}
    assert set(totals) == {row["run_id"] for row in table("chromatography-results", "chromatography_run")}


def test_dates_are_those_of_the_sites_zone(table: Table) -> None:
    runs = table("chromatography-results", "chromatography_run")
    assert len({row["site_timezone"] for row in runs}) == 4
    assert all(row["started_at"].astimezone(ZoneInfo(row["site_timezone"])).date() == row["run_date"] for row in runs)
    assert any(row["started_at"].date() != row["run_date"] for row in runs)


def test_subjects_stay_in_one_study_arm_and_site(table: Table) -> None:
    homes: dict[str, set[tuple[str, str, str]]] = defaultdict(set)
    for row in table("clinical-private", "subject_observation"):
        homes[row["subject_id"]].add((row["study_id"], row["arm"], row["site"]))
    assert all(len(home) == 1 for home in homes.values())
