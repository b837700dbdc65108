"""A datasets folder whose one dataset lies in BigQuery: the shipped batches with one capability."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import yaml

from contract.settings import SHIPPED_DATASETS

DATASET = "purification-batches"
CAPABILITY = "calculate_yield"
FIELDS = [
    {"name": name, "type": kind, "mode": "NULLABLE"}
    for name, kind in {
        "batch_id": "STRING", "step_no": "INTEGER", "step_name": "STRING", "medium": "STRING", "started_at": "TIMESTAMP",
        "site_timezone": "STRING", "load_mass_g": "NUMERIC", "pool_mass_g": "NUMERIC", "step_yield_pct": "FLOAT",
        "transfer_loss_pct": "FLOAT", "cumulative_recovery_pct": "FLOAT",
    }.items()
]  # fmt: skip
ROW = ["B001", "1", "capture", None, "1711846800000000", "Europe/Zurich", "1234.5", "1111.05", "90.0", None, "90.0"]


def datasets_in_bigquery(folder: Path, **options: Any) -> Path:
    """The folder below ``folder``; ``options`` are further members of the descriptor's ``bigquery``."""
    held = folder / "datasets"
    held.mkdir()
    for name in ("policies", DATASET):
        shutil.copytree(SHIPPED_DATASETS / name, held / name, ignore=shutil.ignore_patterns("data"))
    shutil.copy(SHIPPED_DATASETS / "principals.yaml", held)
    descriptor = held / DATASET / "descriptor.yaml"
    raw = yaml.safe_load(descriptor.read_text(encoding="utf-8"))
    raw["bigquery"] = {"project": "billing", "location": "EU", "maximum_bytes_billed": 50 * 2**20, **options}
    for table in raw["tables"]:
        del table["file"]
        table["bigquery"] = f"data-project.batches.{table['name']}"
    raw["capabilities"] = [item for item in raw["capabilities"] if item["name"] == CAPABILITY]
    raw["capabilities"][0]["maximum_bytes_billed"] = 20 * 2**20
    descriptor.write_text(yaml.safe_dump(raw, sort_keys=False), encoding="utf-8")
    return held
