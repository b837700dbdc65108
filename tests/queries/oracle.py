"""What an authority leaves of the base tables, worked out row by row and without SQL."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from contract.schema import Table
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
    text = value.strftime("%Y-%m-%dT%H:%M:%S.%fZ") if hasattr(value, "hour") else str(value)
    if isinstance(value, bool):
        text = str(value).lower()
    same = value if isinstance(value, int) and not isinstance(value, bool) else text
    number = isinstance(value, (int, Decimal)) and not isinstance(value, bool)

    def order(bound: Any) -> Any:
        return Decimal(bound) if number else bound

    compared = Decimal(value) if number else text
    return (
        ("one_of" not in constraint or same in constraint["one_of"])
        and ("not_one_of" not in constraint or same not in constraint["not_one_of"])
        and ("max" not in constraint or compared <= order(constraint["max"]))
        and ("min" not in constraint or compared >= order(constraint["min"]))
        and ("prefix" not in constraint or text.startswith(constraint["prefix"]))
    )


def _shown(value: Any, kind: str, mask: str) -> Any:
    if value is None or mask == "null":
        return None
    if mask == "hash":
        key = hmac.new(MASK_KEY, b"dataset-agent/mask/dataset/" + DATASET.encode(), hashlib.sha256).hexdigest()
        digest = hashlib.sha256((key + str(value)).encode()).hexdigest()
        return {"STRING": digest[:32], "INT64": int(digest[:15], 16)}.get(kind)
    if kind == "STRING":
        return value[: min(4, len(value) // 2)]
    if kind == "DATE":
        return value.replace(month=1, day=1)
    if kind == "TIMESTAMP":
        return value.replace(month=1, day=1, hour=0, minute=0, second=0, microsecond=0)
    return None


def oracle(data: dict[str, list[dict[str, Any]]], case: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The rows of the base tables as a case leaves them: filtered, then masked, with nothing of the product."""
    wanted = [*case.get("rows", {}).items(), *case.get("grant_rows", {}).items()]
    out = {}
    for table in TABLES:
        conditions = [(name.split(".")[1], rule) for name, rule in wanted if name.startswith(f"{table.name}.")]
        kept = [row for row in data[table.name] if all(_keeps(row[column], rule) for column, rule in conditions)]
        masks = {
            name.split(".")[1]: mask
            for name, mask in case.get("masks", {}).items()
            if name.startswith(f"{table.name}.")
        }
        kinds = {column.name: column.type.value for column in table.columns}
        out[table.name] = [
            {name: _shown(value, kinds[name], masks[name]) if name in masks else value for name, value in row.items()}
            for row in kept
        ]
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
