"""Chromatography runs of the polishing steps: preparative cycles, fraction analytics, column tests."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Final
from zoneinfo import ZoneInfo

from generate_batches import Batch, Row, decimal
from generate_process import ZONES

FRACTIONS: Final = 8
PACKED_LIFE: Final = 150
HPLC_LIFE: Final = 900
TEST_EVERY: Final = 20
CHANNELLED: Final = 17


@dataclass(frozen=True, slots=True)
class Peak:
    """Nominal retention and width at half height (min), asymmetry, and share of the area (%)."""

    name: str
    retention: float
    width: float
    asymmetry: float
    share: float


METHODS: Final = {
    "SEC-HPLC": (
        Peak("multimer", 6.62, 0.34, 1.15, 0.15),
        Peak("dimer", 7.43, 0.30, 1.10, 1.2),
        Peak("main", 8.64, 0.28, 1.12, 98.2),
        Peak("fragment", 10.12, 0.33, 1.05, 0.45),
    ),
    "IEX-HPLC": (
        Peak("acidic_2", 11.9, 0.55, 1.05, 6.0),
        Peak("acidic_1", 13.6, 0.52, 1.05, 14.0),
        Peak("main", 15.2, 0.46, 1.10, 66.0),
        Peak("basic_1", 16.9, 0.50, 1.15, 9.5),
        Peak("basic_2", 18.2, 0.56, 1.20, 4.5),
    ),
    "preparative CEX": (
        Peak("flow_through", 38.0, 9.0, 1.6, 1.5),
        Peak("wash", 84.0, 6.0, 1.4, 0.8),
        Peak("pre_shoulder", 138.0, 5.5, 1.1, 2.4),
        Peak("main", 151.0, 9.5, 1.35, 91.5),
        Peak("post_shoulder", 170.0, 7.0, 1.5, 2.6),
        Peak("strip", 205.0, 6.0, 1.7, 1.2),
    ),
    "preparative AEX": (
        Peak("main", 46.0, 30.0, 1.2, 97.4),
        Peak("wash", 98.0, 8.0, 1.4, 1.1),
        Peak("strip", 131.0, 6.5, 1.7, 1.5),
    ),
}
MEDIA: Final = {"cex_polishing": "Capto S ImpAct", "aex_polishing": "Capto Q"}
REMARKS: Final = (
    "Peak fronting; injection volume checked.",
    "Baseline drift after lamp change.",
    "Pressure spike during load; inlet filter replaced.",
    "Late eluting shoulder; pooling narrowed by 0.3 CV.",
    "Retention shift after new mobile phase lot.",
    "Tailing on the main peak; guard column exchanged.",
)


@dataclass(frozen=True, slots=True)
class _Run:
    batch: Batch
    step: str
    method: str
    fraction: str | None
    started: datetime
    shares: dict[str, float]


def build_runs(seed: int, batches: Sequence[Batch]) -> dict[str, list[Row]]:
    """Rows per table of chromatography-results, runs numbered in order of time."""
    rng = Random(seed)
    planned = sorted(
        (run for batch in batches for run in _plan(rng, batch)), key=lambda run: (run.started, run.batch.number)
    )
    tables: dict[str, list[Row]] = {"chromatography_run": [], "peak_table": [], "column_performance": []}
    used: dict[str, int] = {}
    for number, run in enumerate(planned, start=1):
        column, cycle = _column(run, used)
        peaks = _peaks(rng, f"R{number:06d}", run, cycle)
        tables["peak_table"].extend(peaks)
        tables["chromatography_run"].append(_record(rng, f"R{number:06d}", run, column, cycle, peaks))
        if run.fraction is None and (cycle % TEST_EVERY == 1 or run.batch.number == CHANNELLED):
            tables["column_performance"].append(_test(rng, run, column, cycle))
    return tables


def _plan(rng: Random, batch: Batch) -> Iterator[_Run]:
    for step, method in (("cex_polishing", "preparative CEX"), ("aex_polishing", "preparative AEX")):
        row = batch.steps.get(step)
        if row is None:
            continue
        cycles = row["cycles"]
        span = (row["ended_at"] - row["started_at"]) / cycles
        for cycle in range(cycles):
            yield _Run(batch, step, method, None, _minute(row["started_at"] + cycle * span), {})
        names = [f"F{index}" for index in range(1, FRACTIONS + 1)] if step == "cex_polishing" else []
        started = row["ended_at"] + timedelta(minutes=rng.randint(60, 240))
        for index, fraction in enumerate([*names, "pool"]):
            yield _Run(batch, step, "SEC-HPLC", fraction, started, _sec_shares(rng, batch, index, fraction))
            if fraction == "pool" or index < 6:
                yield _Run(batch, step, "IEX-HPLC", fraction, started, _iex_shares(rng, index, fraction))
            started += timedelta(minutes=rng.randint(24, 30))


def _minute(instant: datetime) -> datetime:
    return instant.replace(second=0, microsecond=0)


def _sec_shares(rng: Random, batch: Batch, index: int, fraction: str) -> dict[str, float]:
    """Aggregates elute late on CEX: they rise over the fractions."""
    trend = 1.0 if fraction == "pool" else math.exp(0.32 * (index - 4.5))
    dimer = batch.hmw_pct * 0.9 * trend * rng.gauss(1, 0.08)
    return {"dimer": dimer, "multimer": dimer * rng.uniform(0.08, 0.16)}


def _iex_shares(rng: Random, index: int, fraction: str) -> dict[str, float]:
    """Acidic variants elute first, basic ones last."""
    trend = 0.0 if fraction == "pool" else 0.18 * (index - 2.5)
    return {
        "acidic_2": 6.0 * math.exp(-trend) * rng.gauss(1, 0.08),
        "acidic_1": 14.0 * math.exp(-trend) * rng.gauss(1, 0.06),
        "basic_1": 9.5 * math.exp(trend) * rng.gauss(1, 0.06),
        "basic_2": 4.5 * math.exp(trend) * rng.gauss(1, 0.08),
    }


def _column(run: _Run, used: dict[str, int]) -> tuple[str, int]:
    """The column in use for a run and the cycle this run is on it; worn columns are replaced."""
    prefix = f"{run.method.removeprefix('preparative ').removesuffix('-HPLC')}-{run.batch.site[:3].upper()}"
    life = PACKED_LIFE if run.method.startswith("preparative") else HPLC_LIFE
    count = used[prefix] = used.get(prefix, 0) + 1
    return f"{prefix}-{(count - 1) // life + 1:02d}", (count - 1) % life + 1


def _peaks(rng: Random, run_id: str, run: _Run, cycle: int) -> list[Row]:
    nominal = METHODS[run.method]
    life = PACKED_LIFE if run.method.startswith("preparative") else HPLC_LIFE
    wear = 1 + 0.22 * (cycle / life) ** 2
    channelled = 1.8 if run.batch.number == CHANNELLED and run.method == "preparative CEX" else 1.0
    shares = {peak.name: run.shares.get(peak.name, peak.share * math.exp(rng.gauss(0, 0.10))) for peak in nominal}
    shares["main"] = 100 - sum(share for name, share in shares.items() if name != "main")
    percent = {name: decimal(share, 2) for name, share in shares.items()}
    percent["main"] += Decimal(100) - sum(percent.values())
    total = rng.gauss(2150, 60) if life == HPLC_LIFE else rng.gauss(46_000, 1_500)
    shift = rng.gauss(0, 0.004)
    rows: list[Row] = []
    for number, peak in enumerate(nominal, start=1):
        share = float(percent[peak.name])
        faint = share < 0.10
        retention = peak.retention * (1 + shift + rng.gauss(0, 0.0008))
        width = peak.width * wear * channelled * rng.gauss(1, 0.02)
        rows.append(
            {
                "run_id": run_id,
                "peak_no": number,
                "peak_name": peak.name,
                "retention_min": round(retention, 2),
                "width_half_min": None if faint else round(width, 3),
                "area_mau_min": round(total * share / 100, 1),
                "area_pct": percent[peak.name],
                "asymmetry": None if faint else round(peak.asymmetry * wear * channelled * rng.gauss(1, 0.03), 2),
                "resolution": _resolution(rows, retention, None if faint else width),
                "signal_to_noise": round(share * 41 * math.exp(rng.gauss(0, 0.15)), 0),
            }
        )
    return rows


def _resolution(before: list[Row], retention: float, width: float | None) -> float | None:
    """USP <621> at half height: 1.18 (t2 - t1) / (w1 + w2)."""
    if not before or width is None or before[-1]["width_half_min"] is None:
        return None
    gap = retention - float(before[-1]["retention_min"])
    return round(1.18 * gap / (float(before[-1]["width_half_min"]) + width), 2)


def _record(rng: Random, run_id: str, run: _Run, column: str, cycle: int, peaks: list[Row]) -> Row:
    zone = ZONES[run.batch.site]
    preparative = run.fraction is None
    remark = rng.choice(REMARKS) if rng.random() < 0.04 else None
    if run.batch.number == CHANNELLED and run.method == "preparative CEX":
        remark = "Peak fronting and split elution; column channelled, repacked after the batch."
    start_cv = rng.gauss(6.2, 0.15)
    binds = run.method == "preparative CEX"
    return {
        "run_id": run_id,
        "batch_id": run.batch.batch_id,
        "step_name": run.step,
        "method": run.method,
        "fraction": run.fraction,
        "column_id": column,
        "cycle_no": cycle,
        "site": run.batch.site,
        "site_timezone": zone,
        "started_at": run.started,
        "run_date": run.started.astimezone(ZoneInfo(zone)).date(),
        "pooling_decision": _decision(run, peaks),
        "pool_start_cv": decimal(start_cv, 2) if binds else None,
        "pool_end_cv": decimal(start_cv + rng.gauss(3.4, 0.2), 2) if binds else None,
        "comment": "Preparative cycle of the polishing step." if preparative and remark is None else remark,
    }


def _decision(run: _Run, peaks: list[Row]) -> str | None:
    """Fractions are pooled on SEC purity; charge variants are monitored and decide nothing."""
    if run.method == "IEX-HPLC":
        return None
    if run.method != "SEC-HPLC":
        return "pooled"
    main = next(row["area_pct"] for row in peaks if row["peak_name"] == "main")
    if main >= Decimal("97.0"):
        return "pooled"
    return "rework" if main >= Decimal("95.5") else "discarded"


def _test(rng: Random, run: _Run, column: str, cycle: int) -> Row:
    wear = cycle / PACKED_LIFE
    failed = 3.2 if run.batch.number == CHANNELLED and run.step == "cex_polishing" else 1.0
    return {
        "column_id": column,
        "step_name": run.step,
        "medium": MEDIA[run.step],
        "site": run.batch.site,
        "cycle_no": cycle,
        "tested_at": run.started - timedelta(minutes=rng.randint(120, 600)),
        "bed_height_cm": decimal(rng.gauss(20, 0.3), 1),
        "hetp_cm": round((0.034 + 0.016 * wear) * failed * rng.gauss(1, 0.05), 4),
        "asymmetry": round((1.05 + 0.35 * wear) * rng.gauss(1, 0.04), 2),
        "pressure_drop_bar": None if rng.random() < 0.04 else round((1.3 + 0.7 * wear) * rng.gauss(1, 0.05), 2),
    }
