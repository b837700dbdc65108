"""Random requests, and the request that differs from one in a single named dimension."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from random import Random
from typing import Any

from tests.cachelaw.oracle import RESTRICTED, Request, Rule, differing
from tests.cachelaw.values import (
    BOOL,
    DATE,
    DATETIME,
    FLOAT64,
    INT64,
    LOWER,
    NUMERIC,
    PATTERN,
    STRING,
    TIME,
    TIMESTAMP,
    UPPER,
    Kind,
    list_of,
    record,
    set_of,
)

LEVELS = ("public", "internal", "confidential", RESTRICTED)
COLUMNS = ("orders.region", "orders.customer", "orders.day", "lines.sku", "customers.region")
MASKS = ("null", "hash", "truncate")
DEFAULTS: Mapping[str, Hashable] = {"limit": 10, "exact": False, "unit": "g/l"}
NULLABLE = ("whole", "amount", "day")

ARGUMENTS: Mapping[str, Kind] = {
    "text": STRING,
    "code": UPPER,
    "unit": LOWER,
    "pattern": PATTERN,
    "whole": INT64,
    "limit": INT64,
    "ratio": FLOAT64,
    "amount": NUMERIC,
    "exact": BOOL,
    "day": DATE,
    "at": TIMESTAMP,
    "local": DATETIME,
    "clock": TIME,
    "names": set_of(UPPER),
    "numbers": set_of(INT64),
    "prices": set_of(NUMERIC),
    "moments": set_of(TIMESTAMP),
    "ranking": list_of(INT64),
    "pair": record(x=INT64, z=STRING, w=DATE),
}

# Values that look alike, so that a key which forgets where one ends would mix them.
_ALIKE: Mapping[str, tuple[Any, ...]] = {
    "issuer": ("https://a.example", "https://b.example", "https://a.example/"),
    "tenant": ("acme", "acme2", "a", "cme", "{acme}", "ac:me", "Acme"),
    "dataset": ("purification-batches", "purification", "batches"),
    "dataset_version": ("1.0.0", "1.0.1", "1.0", "1", "2026.08.31"),
    "revision": ("r1", "r2", "1", "s3-etag-4c1f9a", "*"),
    "schema_version": ("1", "2", "r1"),
    "capability": ("batch_yield", "batch", "yield"),
    "template": ("first", "second"),
    "group": (None, (5, None), (6, None), (5, 10), (5, 20)),
    "principal_class": ("process-engineer", "analyst", "process", "engineer"),
    "sensitivity": LEVELS,
    "ceiling": LEVELS,
    "policy_id": ("BPD-DATA-001", "BPD-DATA-014", "BPD-DATA-0141"),
    "policy_version": ("2026.1", "2026.2", "2026.1:1", ""),
    "freshness_class": ("60s", "3600s", "strict"),
    "media_type": ("application/json", "application/vnd.apache.arrow.stream"),
    "subject": ("u-eng-01", "u-eng-02", "u-eng-0"),
}
DIMENSIONS = (*_ALIKE, "rows", "bound attribute", "columns", "masks")


def request(rng: Random) -> Request:
    """One of very many; its sensitivity is within its ceiling."""
    held = {name: rng.choice(values) for name, values in _ALIKE.items()}
    if LEVELS.index(held["sensitivity"]) > LEVELS.index(held["ceiling"]):
        held["sensitivity"], held["ceiling"] = held["ceiling"], held["sensitivity"]
    return Request(
        **held,
        rows=_rows(rng),
        columns=rng.choice([None, frozenset(rng.sample(COLUMNS, rng.randrange(len(COLUMNS) + 1)))]),
        masks={column: rng.choice(MASKS) for column in rng.sample(COLUMNS, rng.randrange(3))},
        arguments={name: _argument(rng, name, kind) for name, kind in ARGUMENTS.items()},
    )


def _argument(rng: Random, name: str, kind: Kind) -> Hashable:
    if name in NULLABLE and rng.random() < 0.15:
        return None
    return DEFAULTS[name] if name in DEFAULTS and rng.random() < 0.5 else kind.draw(rng)


def _rows(rng: Random) -> dict[str, Rule]:
    return {column: _rule(rng) for column in rng.sample(COLUMNS, rng.randrange(4))}


def _rule(rng: Random) -> Rule:
    kind = rng.choice(["one_of", "not_one_of", "min", "max", "prefix", "both"])
    values = frozenset(rng.sample(["EU", "US", "E", "U", "EU,US", "1", 1, 2023], rng.randrange(1, 4)))
    low, high = rng.choice([(2023, 2024), ("2023-01-01", "2024-01-01"), ("0.5", "7.25"), ("2023", "2024")])
    if kind == "both":
        return Rule(one_of=values, min=low, max=high)
    return Rule(**{kind: {"min": low, "max": high, "prefix": rng.choice(["EU", "E", "U"])}.get(kind, values)})


def altered(rng: Random, base: Request, dimension: str) -> tuple[Request, Request]:
    """``base`` and a request that differs from it in ``dimension`` alone.

    The base is moved first where it has nothing to differ in, as an open capability has no person.
    """
    while True:
        left, right = _altered(rng, base, dimension)
        if differing(left, right) == {"rows" if dimension == "bound attribute" else dimension}:
            return left, right
        base = request(rng)


def _altered(rng: Random, base: Request, dimension: str) -> tuple[Request, Request]:
    if dimension.startswith("argument "):
        name = dimension.removeprefix("argument ")
        held, kind = base.arguments[name], ARGUMENTS[name]
        changed = kind.draw(rng) if held is None or rng.random() < 0.1 else kind.alter(rng, held)
        return base, replace(base, arguments={**base.arguments, name: changed})
    if dimension == "subject":
        base = replace(base, sensitivity=RESTRICTED, ceiling=RESTRICTED)
    if dimension == "ceiling":
        base = replace(base, sensitivity="public")
    if dimension == "sensitivity":
        base = replace(base, ceiling=RESTRICTED)
    return base, replace(base, **{_FIELD.get(dimension, dimension): _others(dimension)(rng, base)})


_FIELD = {"bound attribute": "rows"}


def _others(dimension: str) -> Callable[[Random, Request], Any]:
    if dimension in _ALIKE:
        return lambda rng, base: rng.choice(_ALIKE[dimension])
    return {"rows": _other_rows, "bound attribute": _other_attribute, "columns": _other_columns, "masks": _other_masks}[
        dimension
    ]


def _other_rows(rng: Random, base: Request) -> dict[str, Rule]:
    rows = dict(base.rows)
    if rows and rng.random() < 0.5:
        gone = rng.choice(sorted(rows))
        rule = rows.pop(gone)
        return rows if rng.random() < 0.5 else {**rows, rng.choice(COLUMNS): rule}
    return {**rows, rng.choice(COLUMNS): _rule(rng)}


def _other_attribute(rng: Random, base: Request) -> dict[str, Rule]:
    """The same policy binds another person's site."""
    return {**base.rows, "orders.region": Rule(one_of=frozenset({rng.choice(["EU", "US", "APAC"])}))}


def _other_columns(rng: Random, base: Request) -> frozenset[str] | None:
    if base.columns is None:
        return frozenset(rng.sample(COLUMNS, rng.randrange(len(COLUMNS) + 1)))
    return rng.choice([None, base.columns ^ {rng.choice(COLUMNS)}])


def _other_masks(rng: Random, base: Request) -> dict[str, str]:
    masks = dict(base.masks)
    if masks and rng.random() < 0.5:
        masks.pop(rng.choice(sorted(masks)))
        return masks
    return {**masks, rng.choice(COLUMNS): rng.choice(MASKS)}
