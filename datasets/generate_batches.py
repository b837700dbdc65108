"""Purification batches: mass balance, operating conditions and in-process controls."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_EVEN, Decimal
from random import Random
from typing import Any, Final
from zoneinfo import ZoneInfo

from generate_process import CONTROLS, EVENTS, HMW_FACTOR, PRODUCTS, REMARKS, STEPS, ZONES, Event, Product, Step

Row = dict[str, Any]

BATCHES: Final = 240
PENDING_FROM: Final = 238
ALWAYS_COMPLETE: Final = frozenset({1, 2, 3})


@dataclass(frozen=True, slots=True)
class Batch:
    """What chromatography needs to know of a batch."""

    number: int
    batch_id: str
    product: Product
    site: str
    steps: Mapping[str, Row]
    hmw_pct: float


def decimal(value: float, places: int) -> Decimal:
    """``value`` rounded to ``places``, as NUMERIC."""
    return Decimal(repr(value)).quantize(Decimal(1).scaleb(-places), ROUND_HALF_EVEN)


def local(day: date, hours: float, zone: str) -> datetime:
    """UTC instant of ``hours`` after midnight of ``day`` in ``zone``, to the minute."""
    wall = datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(zone)) + timedelta(minutes=round(hours * 60))
    return wall.astimezone(UTC)


def build_batches(seed: int) -> tuple[dict[str, list[Row]], list[Batch]]:
    """Rows per table of purification-batches, and the batches themselves."""
    rng = Random(seed)
    tables: dict[str, list[Row]] = {"batch_record": [], "step_condition": [], "in_process_control": []}
    batches: list[Batch] = []
    day = date(2023, 1, 9)
    for number in range(1, BATCHES + 1):
        product = PRODUCTS[0] if number <= 2 else rng.choices(PRODUCTS, (5, 4, 3))[0]
        site = product.sites[0] if number <= 2 else rng.choice(product.sites)
        record, steps, controls, batch = _batch(rng, number, product, site, day)
        tables["batch_record"].append(record)
        tables["step_condition"].extend(steps)
        tables["in_process_control"].extend(controls)
        batches.append(batch)
        day += timedelta(days=rng.choice((3, 4, 5, 5, 6, 7, 8)))
    return tables, batches


def _batch(rng: Random, number: int, product: Product, site: str, day: date) -> tuple[Row, list[Row], list[Row], Batch]:
    event = EVENTS.get(number, Event(""))
    batch_id = f"B{number:03d}"
    titre = product.titre * math.exp(rng.gauss(0, 0.11)) * event.titre
    harvest_l = product.scale_l * rng.gauss(0.95, 0.015)
    done = STEPS if number < PENDING_FROM else STEPS[: BATCHES + 2 - number]
    steps, controls = [], []
    mass, start = titre * harvest_l, local(day, rng.uniform(6, 20), ZONES[site])
    for position, step in enumerate(done, start=1):
        row, mass = _step(rng, number, batch_id, product, position, step, mass, harvest_l, event, start)
        steps.append(row)
        controls.append(_controls(rng, number, batch_id, product, position, step, event, row["ended_at"]))
        mass *= 1 - rng.uniform(0.001, 0.006)
        start = row["ended_at"] + timedelta(minutes=rng.randint(90, 1080))
    record = _record(rng, number, batch_id, product, site, day, titre, steps, event)
    hmw = controls[2]["hmw_pct"] if len(controls) > 2 and controls[2]["hmw_pct"] is not None else product.hmw
    return (
        record,
        steps,
        controls,
        Batch(number, batch_id, product, site, {s["step_name"]: s for s in steps}, float(hmw)),
    )


def _record(
    rng: Random,
    number: int,
    batch_id: str,
    product: Product,
    site: str,
    day: date,
    titre: float,
    steps: list[Row],
    event: Event,
) -> Row:
    complete = len(steps) == len(STEPS)
    first, last = steps[0]["load_mass_g"], steps[-1]["pool_mass_g"] if complete else None
    recovery = None if first is None or last is None else (100 * last / first).quantize(Decimal("0.01"))
    remark = rng.choice(REMARKS) if rng.random() < 0.35 else None
    campaign = f"{product.code}-{day.year}Q{(day.month + 2) // 3}"
    return {
        "batch_id": batch_id,
        "product": product.code,
        "modality": product.modality,
        "campaign": campaign,
        "site": site,
        "site_timezone": ZONES[site],
        "scale_l": product.scale_l,
        "harvest_date": day,
        "started_at": steps[0]["started_at"],
        "completed_at": steps[-1]["ended_at"] if complete else None,
        "titre_g_l": decimal(titre, 3),
        "recovery_pct": recovery,
        "disposition": event.disposition or ("released" if complete else "pending"),
        "title": f"{product.modality} {product.code}, {product.scale_l} L at {site}, campaign {campaign}",
        "notes": event.note or remark,
    }


def _step(
    rng: Random, number: int, batch_id: str, product: Product, position: int, step: Step,
    mass: float, harvest_l: float, event: Event, start: datetime,
) -> tuple[Row, float]:  # fmt: skip
    """One step's row and the true mass of its pool in g."""
    factors = event.conditions.get(step.name, {})
    unit = None if step.density is None else max(1, round(mass / (step.density * _medium_size(product, step))))
    density = None if unit is None else mass / (unit * _medium_size(product, step)) * factors.get("load_density_g_l", 1)
    conductivity = rng.gauss(step.conductivity, step.conductivity * 0.05) * factors.get("conductivity_ms_cm", 1)
    efficiency = rng.gauss(product.cex if step.name == "cex_polishing" else step.yield_mean, step.yield_sd)
    if step.name == "protein_a_capture" and density is not None:
        efficiency -= 0.004 * max(0.0, density - 46)
    efficiency = min(0.999, efficiency) * event.step_yield.get(step.name, 1.0)
    pool = mass * efficiency
    load_l = harvest_l if position == 1 else mass / rng.gauss(STEPS[position - 2].pool_g_l * 0.97, 0.3)
    residence = None if step.residence_min is None else rng.gauss(step.residence_min, step.residence_min * 0.05)
    row: Row = {
        "batch_id": batch_id,
        "step_no": position,
        "step_name": step.name,
        "medium": step.medium,
        "started_at": start,
        "ended_at": start + timedelta(minutes=round(60 * step.hours * rng.uniform(0.85, 1.25))),
        "load_mass_g": decimal(mass * rng.gauss(1, 0.004), 1),
        "pool_mass_g": decimal(pool * rng.gauss(1, 0.004), 1),
        "load_volume_l": decimal(load_l, 1),
        "pool_volume_l": decimal(pool / rng.gauss(step.pool_g_l, step.pool_g_l * 0.04), 1),
        "load_density_g_l": None if density is None or step.per_membrane else decimal(density, 1),
        "membrane_load_g_m2": decimal(density, 0) if density is not None and step.per_membrane else None,
        "cycles": unit if unit is not None and not step.per_membrane else 1,
        "operating_ph": round(rng.gauss(step.ph, step.ph_sd) * factors.get("operating_ph", 1), 2),
        "conductivity_ms_cm": round(conductivity, 2),
        "temperature_c": round(rng.gauss(20.5, 0.7), 1),
        "residence_min": None if residence is None else round(residence * factors.get("residence_min", 1), 1),
    }
    for column, rate in (("load_mass_g", 0.006), ("pool_mass_g", 0.006), ("temperature_c", 0.03)):
        if rng.random() < rate and number not in ALWAYS_COMPLETE and number not in EVENTS:
            row[column] = None
    return row, pool


def _medium_size(product: Product, step: Step) -> float:
    """Litres of resin, or m2 of membrane, installed for a product's scale."""
    size = {
        "protein_a_capture": 50.0,
        "cex_polishing": 58.0,
        "aex_polishing": 28.0,
        "viral_filtration": 2.0,
        "uf_df": 5.0,
    }
    return size[step.name] * product.scale_l / 2000


def _controls(
    rng: Random, number: int, batch_id: str, product: Product, position: int, step: Step, event: Event, ended: datetime
) -> Row:
    row: Row = {
        "batch_id": batch_id,
        "step_no": position,
        "step_name": step.name,
        "sampled_at": ended + timedelta(minutes=rng.randint(5, 40)),
    }
    boost = event.final if step.name == "uf_df" else {}
    for control, after in CONTROLS.items():
        median, spread = after.get(step.name, (0.0, 0.0))
        value = median * math.exp(rng.gauss(0, spread)) * boost.get(control, 1.0)
        row[control] = decimal(value, 3) if median and not _missed(rng, number) else None
    factor = HMW_FACTOR.get(step.name)
    hmw = product.hmw * (factor or 1.0) * rng.gauss(1, 0.10) * boost.get("hmw_pct", 1.0)
    tested = factor is not None and not _missed(rng, number)
    row["hmw_pct"] = decimal(hmw, 2) if tested else None
    row["monomer_pct"] = decimal(100 - hmw - rng.uniform(0.25, 0.75), 2) if tested else None
    return row


def _missed(rng: Random, number: int) -> bool:
    """Whether a test result is absent (sample lost, assay invalid)."""
    return rng.random() < 0.03 and number not in ALWAYS_COMPLETE and number not in EVENTS
