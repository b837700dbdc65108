"""Synthetic clinical observations; no person stands behind any row."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date, timedelta
from random import Random
from typing import Final

from generate_batches import Row, decimal, local

ZONES: Final = {
    "Leeds": "Europe/London",
    "Boston": "America/New_York",
    "Osaka": "Asia/Tokyo",
    "Porto Alegre": "America/Sao_Paulo",
    "Adelaide": "Australia/Adelaide",
}
VISITS: Final = (("baseline", 1), ("week 2", 15), ("week 4", 29), ("week 8", 57), ("week 12", 85))
# ACM-110 is a pilot: its high dose arm is smaller than the group size of the aggregate.
STUDIES: Final = {
    "ACM-110": {"placebo": 6, "high dose": 3},
    "ACM-201": {"placebo": 28, "low dose": 27, "high dose": 29},
    "ACM-305": {"placebo": 34, "high dose": 35},
}
EFFECT: Final = {"placebo": 0.35, "low dose": 0.7, "high dose": 1.0}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """``gain`` is the change at week 12 under full effect; a log endpoint changes by exp(gain)."""

    name: str
    unit: str
    mean: float
    between: float
    within: float
    gain: float
    places: int
    log: bool = False


ENDPOINTS: Final = (
    Endpoint("recovery_index", "points", 41, 8, 4, 27, 1),
    Endpoint("crp", "mg/L", math.log(18), 0.5, 0.35, -1.6, 2, log=True),
    Endpoint("haemoglobin", "g/dL", 12.4, 1.2, 0.35, 0.9, 1),
    Endpoint("neutrophils", "10^9/L", math.log(5.6), 0.25, 0.20, -0.35, 2, log=True),
    Endpoint("six_minute_walk", "m", 362, 62, 22, 74, 0),
)
REMARKS: Final = (
    "Haemolysed sample; redraw requested.",
    "Dizziness reported after the visit; resolved.",
    "Visit outside window by two days.",
    "Device battery replaced during walk test.",
    "Mild nausea reported; no action.",
    "Concomitant antibiotic started last week.",
)


def build_subjects(seed: int) -> dict[str, list[Row]]:
    """Rows of clinical-private, in an order that tells nothing of subjects."""
    rng = Random(seed)
    groups = [(study, arm) for study, arms in STUDIES.items() for arm, size in arms.items() for _ in range(size)]
    numbers = rng.sample(range(10_000, 99_999), len(groups))
    rows: list[Row] = []
    for (study, arm), number in zip(groups, numbers, strict=True):
        rows.extend(_subject(rng, f"S-{number}", study, arm))
    rng.shuffle(rows)
    for row, number in zip(rows, rng.sample(range(100_000, 999_999), len(rows)), strict=True):
        row["observation_id"] = f"O-{number}"
    return {"subject_observation": rows}


def _subject(rng: Random, subject_id: str, study: str, arm: str) -> list[Row]:
    site = rng.choice(tuple(ZONES))
    enrolled = date(2025, 3, 3) + timedelta(days=rng.randint(0, 380))
    levels = {endpoint.name: rng.gauss(endpoint.mean, endpoint.between) for endpoint in ENDPOINTS}
    response = EFFECT[arm] * max(0.0, rng.gauss(1, 0.3))
    stays = len(VISITS) if rng.random() > 0.12 else rng.randint(2, len(VISITS) - 1)
    baseline: dict[str, float] = {}
    rows: list[Row] = []
    for visit, day in VISITS[:stays]:
        on = enrolled + timedelta(days=day - 1 + (rng.randint(-2, 2) if day > 1 else 0))
        at = local(on, rng.uniform(7.5, 16.5), ZONES[site])
        for endpoint in ENDPOINTS:
            value = _measure(rng, endpoint, levels[endpoint.name], response * (1 - math.exp(-day / 35)), day)
            if value is not None:
                baseline.setdefault(endpoint.name, value)
            first = baseline.get(endpoint.name)
            change = None if value is None or first is None or day == 1 else value - first
            rows.append(
                {
                    "observation_id": "",
                    "subject_id": subject_id,
                    "study_id": study,
                    "site": site,
                    "site_timezone": ZONES[site],
                    "arm": arm,
                    "visit": visit,
                    "visit_day": day,
                    "observed_on": on,
                    "observed_at": at,
                    "endpoint": endpoint.name,
                    "value": None if value is None else decimal(value, endpoint.places),
                    "change_from_baseline": None if change is None else decimal(change, endpoint.places),
                    "unit": endpoint.unit,
                    "comment": rng.choice(REMARKS) if rng.random() < 0.06 else None,
                }
            )
    return rows


def _measure(rng: Random, endpoint: Endpoint, level: float, effect: float, day: int) -> float | None:
    """A value rounded as it is reported, or ``None`` where the measurement was missed."""
    raw = level + (endpoint.gain * effect if day > 1 else 0.0) + rng.gauss(0, endpoint.within)
    missed = day > 1 and rng.random() < 0.04
    value = math.exp(raw) if endpoint.log else raw
    if endpoint.name == "recovery_index":
        value = min(100.0, max(0.0, value))
    return None if missed else round(value, endpoint.places)
