"""Templates on plain DuckDB, against computations in Python from the base tables."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from statistics import fmean, median, stdev
from typing import Any

import pytest

Rows = list[dict[str, Any]]
Run = Callable[..., Rows]
Table = Callable[[str, str], Rows]
PURIFICATION, CHROMATOGRAPHY, CLINICAL = "purification-batches", "chromatography-results", "clinical-private"
METRICS = ("recovery", "capture_yield", "cex_yield", "titre", "hcp", "residual_dna", "hmw", "monomer")
CAUSED = {
    "recovery": {"B017", "B043", "B088", "B119", "B187", "B205"},
    "capture_yield": {"B043"},
    "cex_yield": {"B017", "B205"},
    "titre": {"B101", "B133"},
    "hcp": {"B076", "B164"},
    "residual_dna": {"B076", "B221"},
    "hmw": {"B058", "B152"},
    "monomer": {"B058", "B152"},
}


def _yield(row: dict[str, Any]) -> float | None:
    if row["pool_mass_g"] is None or row["load_mass_g"] is None:
        return None
    return 100 * float(row["pool_mass_g"]) / float(row["load_mass_g"])


@pytest.mark.parametrize("batch_id", ["B001", "B002", "B003", "B017", "B187"])
def test_calculate_yield_is_the_mass_balance(batch_id: str, run: Run, table: Table) -> None:
    steps = [row for row in table(PURIFICATION, "step_condition") if row["batch_id"] == batch_id]
    rows = run(PURIFICATION, "calculate_yield", batch_id=batch_id)
    assert [row["step_no"] for row in rows] == [1, 2, 3, 4, 5, 6]
    product = 1.0
    for row, step, before in zip(rows, steps, [None, *steps], strict=False):
        assert row["step_yield_pct"] == pytest.approx(_yield(step), abs=0.006)
        if before is not None:
            kept = float(step["load_mass_g"]) / float(before["pool_mass_g"])
            assert row["transfer_loss_pct"] == pytest.approx(100 * (1 - kept), abs=0.006)
            product *= kept
        product *= float(step["pool_mass_g"]) / float(step["load_mass_g"])
        assert row["cumulative_recovery_pct"] == pytest.approx(100 * product, abs=0.006)


def test_a_mass_that_was_not_measured_gives_no_yield(run: Run, table: Table) -> None:
    missing = next(row for row in table(PURIFICATION, "step_condition") if row["pool_mass_g"] is None)
    rows = run(PURIFICATION, "calculate_yield", batch_id=missing["batch_id"])
    assert rows[missing["step_no"] - 1]["step_yield_pct"] is None
    assert rows[missing["step_no"] - 1]["cumulative_recovery_pct"] is None


def test_a_running_batch_shows_the_steps_it_has(run: Run) -> None:
    assert 0 < len(run(PURIFICATION, "calculate_yield", batch_id="B240")) < 6


def test_an_unknown_batch_has_no_rows(run: Run) -> None:
    assert run(PURIFICATION, "calculate_yield", batch_id="B999") == []


def test_compare_shows_the_two_batches_beside_one_another(run: Run) -> None:
    rows = run(PURIFICATION, "compare_batches", batch_a="B002", batch_b="B001")
    assert [row["batch_id"] for row in rows] == ["B001", "B002"]
    for row in rows:
        last = run(PURIFICATION, "calculate_yield", batch_id=row["batch_id"])[-1]
        assert row["overall_recovery_pct"] == last["cumulative_recovery_pct"]
        assert all(value is not None for value in row.values())


def _measured(metric: str, table: Table) -> dict[str, tuple[str, float]]:
    """Product and value of each batch, read without SQL."""
    records = {row["batch_id"]: row for row in table(PURIFICATION, "batch_record")}
    steps = {(row["batch_id"], row["step_name"]): row for row in table(PURIFICATION, "step_condition")}
    controls = {(row["batch_id"], row["step_name"]): row for row in table(PURIFICATION, "in_process_control")}
    final = {"hcp": "hcp_ppm", "residual_dna": "dna_ppb", "hmw": "hmw_pct", "monomer": "monomer_pct"}
    step = {"capture_yield": "protein_a_capture", "cex_yield": "cex_polishing"}
    found: dict[str, tuple[str, float]] = {}
    for batch_id, record in records.items():
        if metric in step:
            held = steps.get((batch_id, step[metric]))
            value = None if held is None else _yield(held)
        elif metric in final:
            value = controls.get((batch_id, "uf_df"), {}).get(final[metric])
        else:
            value = record["recovery_pct" if metric == "recovery" else "titre_g_l"]
        if value is not None:
            found[batch_id] = (record["product"], float(value))
    return found


@pytest.mark.parametrize("metric", METRICS)
def test_outliers_are_those_of_the_modified_z_score(metric: str, run: Run, table: Table) -> None:
    scale = math.log if metric in ("hcp", "residual_dna") else float
    groups: dict[str, dict[str, float]] = defaultdict(dict)
    for batch_id, (product, value) in _measured(metric, table).items():
        groups[product][batch_id] = scale(value)
    expected: dict[str, float] = {}
    for history in groups.values():
        centre = median(history.values())
        mad = median(abs(x - centre) for x in history.values())
        scores = {batch_id: 0.6745 * (x - centre) / mad for batch_id, x in history.items()}
        expected.update({batch_id: score for batch_id, score in scores.items() if abs(score) > 3.5})
    rows = run(PURIFICATION, "detect_outliers", metric=metric)
    assert {row["batch_id"]: row["modified_z_score"] for row in rows} == {
        batch_id: pytest.approx(score, abs=0.0006) for batch_id, score in expected.items()
    }
    assert all(row["batches_compared"] == len(groups[row["product"]]) for row in rows)


@pytest.mark.parametrize("metric", METRICS)
def test_every_deviation_with_a_cause_is_found(metric: str, run: Run) -> None:
    rows = run(PURIFICATION, "detect_outliers", metric=metric)
    found = {row["batch_id"] for row in rows}
    assert found >= CAUSED[metric]
    assert len(found - CAUSED[metric]) <= 3


@pytest.mark.parametrize("metric", METRICS)
def test_a_flagged_value_lies_outside_its_limits(metric: str, run: Run) -> None:
    for row in run(PURIFICATION, "detect_outliers", metric=metric):
        assert row["lower_limit"] < row["median"] < row["upper_limit"]
        outside = row["value"] < row["lower_limit"] if row["direction"] == "low" else row["value"] > row["upper_limit"]
        assert outside


@pytest.mark.parametrize(
    ("dataset", "query"), [(PURIFICATION, "fouling"), (CHROMATOGRAPHY, "fronting"), (CLINICAL, "dizziness")]
)
def test_search_does_not_mind_case(dataset: str, query: str, run: Run) -> None:
    rows = run(dataset, "search", query=query)
    assert rows and rows == run(dataset, "search", query=query.upper())


@pytest.mark.parametrize(
    ("dataset", "query"),
    [
        (PURIFICATION, "resin fouling"),
        (PURIFICATION, "air entrainment"),
        (PURIFICATION, "ph excursion"),
        (CHROMATOGRAPHY, "peak fronting"),
        (CHROMATOGRAPHY, "b017"),
        (CLINICAL, "dizziness"),
        (CLINICAL, "haemolysed sample"),
    ],
)
def test_the_examples_of_search_find_something(dataset: str, query: str, run: Run) -> None:
    assert run(dataset, "search", query=query)


@pytest.mark.parametrize("dataset", [PURIFICATION, CHROMATOGRAPHY, CLINICAL])
@pytest.mark.parametrize("query", ["", "100%sure", "_____", "no such words"])
def test_search_takes_the_text_literally(dataset: str, query: str, run: Run) -> None:
    assert run(dataset, "search", query=query) == []


def test_search_finds_a_percent_sign(run: Run) -> None:
    assert [row["batch_id"] for row in run(PURIFICATION, "search", query="70 %")] == ["B088"]


def test_search_tells_how_many_it_left_out(run: Run, table: Table) -> None:
    rows = run(CHROMATOGRAPHY, "search", query="hplc")
    matches = sum(row["method"].endswith("HPLC") for row in table(CHROMATOGRAPHY, "chromatography_run"))
    assert len(rows) == 500 < matches
    assert {row["total_matches"] for row in rows} == {matches}


def test_subjects_cannot_be_searched(run: Run, table: Table) -> None:
    subject = table(CLINICAL, "subject_observation")[0]["subject_id"]
    assert run(CLINICAL, "search", query=subject) == []


def test_chromatography_statistics_are_those_of_python(run: Run, table: Table) -> None:
    runs = {row["run_id"]: row for row in table(CHROMATOGRAPHY, "chromatography_run")}
    groups: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for peak in table(CHROMATOGRAPHY, "peak_table"):
        if peak["resolution"] is not None:
            held = runs[peak["run_id"]]
            groups[held["step_name"], held["method"], peak["peak_name"]].append(peak["resolution"])
    rows = run(CHROMATOGRAPHY, "aggregate", metric="resolution")
    assert [(row["step_name"], row["method"], row["peak_name"]) for row in rows] == sorted(groups)
    for row in rows:
        values = groups[row["step_name"], row["method"], row["peak_name"]]
        assert row["runs"] == len(values)
        assert row["mean"] == pytest.approx(fmean(values), abs=6e-5)
        assert row["standard_deviation"] == pytest.approx(stdev(values), abs=6e-5)
        assert (row["minimum"], row["maximum"]) == (min(values), max(values))
        assert row["median"] == pytest.approx(median(values), abs=6e-5)


def test_a_channelled_column_shows_in_its_plate_height(run: Run) -> None:
    rows = {row["step_name"]: row for row in run(CHROMATOGRAPHY, "aggregate", metric="hetp")}
    assert rows["cex_polishing"]["maximum"] > 2 * rows["cex_polishing"]["median"]
    assert rows["aex_polishing"]["maximum"] < 2 * rows["aex_polishing"]["median"]


@pytest.mark.parametrize("metric", ["recovery_index", "crp", "haemoglobin", "neutrophils", "six_minute_walk"])
def test_clinical_means_are_those_of_python(metric: str, run: Run, table: Table) -> None:
    groups: dict[tuple[str, str, str], dict[str, float]] = defaultdict(dict)
    for row in table(CLINICAL, "subject_observation"):
        if row["endpoint"] == metric and row["value"] is not None:
            groups[row["study_id"], row["arm"], row["visit"]][row["subject_id"]] = float(row["value"])
    rows = {(row["study_id"], row["arm"], row["visit"]): row for row in run(CLINICAL, "aggregate", metric=metric)}
    assert rows.keys() == groups.keys()
    for key, row in rows.items():
        assert row["subjects"] == len(groups[key])
        assert row["mean"] == pytest.approx(fmean(groups[key].values()), abs=6e-4)


def test_an_aggregate_names_no_subject(run: Run, table: Table) -> None:
    subjects = {row["subject_id"] for row in table(CLINICAL, "subject_observation")}
    for row in run(CLINICAL, "aggregate", metric="crp"):
        assert not subjects & {value for value in row.values() if isinstance(value, str)}
