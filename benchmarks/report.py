"""What every section reports in: sides measured, ratios against a goal, and the machine they were measured on."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True)
class Side:
    """The times of one side, in blocks; the unit is the section's."""

    name: str
    blocks: tuple[tuple[float, ...], ...]

    @property
    def p50(self) -> float:
        """The median over blocks of each block's median: one disturbed block does not move it."""
        return statistics.median(percentile(block, 50) for block in self.blocks)

    @property
    def p99(self) -> float:
        return statistics.median(percentile(block, 99) for block in self.blocks)

    def to_json(self) -> dict[str, Any]:
        return {
            "p50": round(self.p50, 4),
            "p99": round(self.p99, 4),
            "p50_blocks": [round(percentile(block, 50), 4) for block in self.blocks],
            "calls_of_a_block": len(self.blocks[0]),
        }


@dataclass(frozen=True, slots=True)
class Figure:
    """A ratio, a time or a rate, and the most or the least that it may be; with neither it is only reported."""

    what: str
    value: float
    unit: str = "x"
    most: float | None = None
    least: float | None = None

    @property
    def goal(self) -> str:
        bounds = (("<=", self.most), (">=", self.least))
        return " ".join(f"{sign} {bound:g}" for sign, bound in bounds if bound is not None)

    @property
    def met(self) -> bool | None:
        """``None`` where there is no goal."""
        if not self.goal:
            return None
        return (self.most is None or self.value <= self.most) and (self.least is None or self.value >= self.least)

    def to_json(self) -> dict[str, Any]:
        measured = round(self.value, 3)
        return {"what": self.what, "measured": measured, "unit": self.unit, "goal": self.goal or None, "met": self.met}


@dataclass(frozen=True, slots=True)
class Section:
    """One part of a report. ``unit`` is of the sides' times; ``facts`` say what was measured on."""

    title: str
    unit: str
    sides: Sequence[Side]
    figures: Sequence[Figure]
    facts: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "unit": self.unit,
            "sides": {side.name: side.to_json() for side in self.sides},
            "figures": [figure.to_json() for figure in self.figures],
            "facts": self.facts,
        }

    def show(self, console: Console) -> None:
        digits = 1 if self.unit == "us" else 2
        sides = Table("side", f"p50 {self.unit}", f"p99 {self.unit}", title=self.title)
        for side in self.sides:
            sides.add_row(side.name, f"{side.p50:.{digits}f}", f"{side.p99:.{digits}f}")
        figures = Table("figure", "measured", "goal", "met")
        for figure in self.figures:
            met = {None: "", True: "yes", False: "no"}[figure.met]
            figures.add_row(figure.what, f"{figure.value:.2f} {figure.unit}", figure.goal, met)
        for table in (sides, figures):
            if table.row_count:
                console.print(table)


def percentile(values: Sequence[float], rank: int) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[rank - 1]


def machine() -> dict[str, Any]:
    """What stands beside every ratio: two machines are compared by ratios only."""
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "load_average": round(os.getloadavg()[0], 2),
        "measured_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
