"""What an authority leaves of the base tables, worked out row by row and without SQL."""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
from collections.abc import Iterable
from typing import Any

from contract.schema import Column, Mode, Table
from queries.template import Template
from tests.queries.world import DATASET, MASK_KEY, TABLES

AUTHORITIES: dict[str, dict[str, Any]] = {
    "one region": {"rows": {"orders.region": {"one_of": ["EU"]}}},
    "no rows at all": {"rows": {"orders.region": {"one_of": []}}},
    "all but one, on two tables": {
        "rows": {"orders.region": {"not_one_of": ["US"]}, "customers.region": {"one_of": ["EU", "US"]}}
    },
    "bounds": {
        "rows": {
            "orders.amount": {"min": "100.5", "max": 6000},
            "orders.day": {"max": "2024-09-30"},
            "lines.qty": {"min": 2},
            "orders.at": {"min": "2024-03-31T00:00:00.000000Z"},
        }
    },
    "prefix and excluded number": {
        "rows": {"lines.sku": {"prefix": "A-"}, "customers.id": {"not_one_of": [1, 2, 3]}, "orders.paid": {"one_of": ["true"]}}
    },
    "grant and policy together": {
        "rows": {"orders.region": {"one_of": ["EU", "APAC"]}},
        "grant_rows": {"orders.region": {"one_of": ["EU", "US"]}, "customers.name": {"prefix": "a"}},
    },
    "masks": {"masks": {"orders.note": "truncate", "customers.name": "hash", "orders.amount": "null", "orders.day": "truncate"}},
    "masked keys": {"masks": {"orders.customer": "hash", "customers.id": "hash", "orders.region": "hash", "customers.region": "null"}},
    "rows and masks on one column": {
        "rows": {"orders.region": {"one_of": ["EU", "US"]}, "orders.note": {"not_one_of": ["x"]}},
        "masks": {"orders.region": "truncate", "orders.note": "null", "orders.at": "truncate", "orders.score": "hash"},
    },
}  # fmt: skip


def _keeps(value: Any, constraint: dict[str, Any]) -> bool:
    if value is None:
        return False
    return all(_holds(kind, value, bound) for kind, bound in constraint.items())


def _holds(kind: str, value: Any, bound: Any) -> bool:
    """Whether a stored value that is not NULL meets one member of a constraint, by the type that it has."""
    if kind == "prefix":
        return bool(value.startswith(bound))
    if kind in ("one_of", "not_one_of"):
        return (value in {_read(value, item) for item in bound}) == (kind == "one_of")
    return bool(value <= _read(value, bound) if kind == "max" else value >= _read(value, bound))


def _read(value: Any, text: Any) -> Any:
    """A constraint's value as one of the type of ``value``."""
    if isinstance(value, bool):
        return text == "true"
    if isinstance(value, (str, int)):
        return text
    if isinstance(value, dt.datetime):
        return dt.datetime.fromisoformat(text)
    if isinstance(value, dt.date):
        return dt.date.fromisoformat(text)
    return type(value)(text)


def _shown(value: Any, column: Column, mask: str, key: str) -> Any:
    if column.mode is Mode.REPEATED:
        return []
    if value is None or mask == "null":
        return None
    kind = column.type.value
    if mask == "hash":
        digest = hashlib.sha256((key + str(value)).encode()).hexdigest()
        return {"STRING": digest[:32], "INT64": int(digest[:15], 16)}.get(kind)
    if kind == "STRING":
        return value[: min(4, len(value) // 2)]
    if kind == "DATE":
        return value.replace(month=1, day=1)
    if kind in ("TIMESTAMP", "DATETIME"):
        return value.replace(month=1, day=1, hour=0, minute=0, second=0, microsecond=0)
    return None


def oracle(
    data: dict[str, list[dict[str, Any]]],
    case: dict[str, Any],
    tables: tuple[Table, ...] = TABLES,
    dataset: str = DATASET,
) -> dict[str, list[dict[str, Any]]]:
    """The rows of the base tables as a case leaves them: filtered, then masked, with nothing of the product."""
    wanted = [*case.get("rows", {}).items(), *case.get("grant_rows", {}).items()]
    key = hmac.new(MASK_KEY, b"dataset-agent/mask/dataset/" + dataset.encode(), hashlib.sha256).hexdigest()
    out = {}
    for table in tables:
        conditions = [(name.split(".")[1], rule) for name, rule in wanted if name.startswith(f"{table.name}.")]
        kept = [row for row in data[table.name] if all(_keeps(row[column], rule) for column, rule in conditions)]
        masks = {
            name.split(".")[1]: mask
            for name, mask in case.get("masks", {}).items()
            if name.startswith(f"{table.name}.")
        }
        columns = {column.name: column for column in table.columns}
        out[table.name] = (
            kept
            if not masks
            else [
                {
                    name: _shown(value, columns[name], masks[name], key) if name in masks else value
                    for name, value in row.items()
                }
                for row in kept
            ]
        )
    return out


def narrowed_by(names: Iterable[str]) -> tuple[Table, ...]:
    """The tables with each ``table.column`` declared an attribute of its own, which a holder may narrow by."""
    wanted = {name: name.replace(".", "_") for name in names}
    return tuple(
        table.model_copy(
            update={
                "columns": tuple(
                    column.model_copy(update={"attribute": wanted.get(f"{table.name}.{column.name}")})
                    for column in table.columns
                )
            }
        )
        for table in TABLES
    )


def reaching(case: dict[str, Any], loaded: Template) -> dict[str, Any]:
    """The case without constraints on what the template does not read: those are refused."""
    kinds = {kind: case[kind] for kind in ("rows", "grant_rows") if kind in case}
    kept = {
        kind: {name: value for name, value in rows.items() if name.split(".")[0] in loaded.tables_read}
        for kind, rows in kinds.items()
    }
    return case | kept
