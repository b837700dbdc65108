"""Numbers in one fixed table: which there are is known before the first request, and none is ever added.

So no label can hold what a request brought, counting is two reads and a write of memory, and a
table may lie in a file that other processes read while it is written (``folder.py``). Only one
thread of a process writes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Final

CELL: Final = 8
"""Bytes of one number, a double: whole numbers are exact up to 2^53."""

SECONDS: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
"""Upper bounds of the buckets of a histogram of times."""

Label = tuple[str, ...]


class Kind(StrEnum):
    """The type of a metric, by Prometheus' names."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """One name and all the values that its labels may have together.

    A ``common`` gauge is the same in every process of an agent, and so is not summed.
    """

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    values: tuple[Label, ...] = ((),)
    bounds: tuple[float, ...] = SECONDS
    common: bool = False

    @property
    def width(self) -> int:
        """Cells for each combination of labels; a histogram has its buckets, one for what is over them all, and the sum."""
        return len(self.bounds) + 2 if self.kind is Kind.HISTOGRAM else 1

    @classmethod
    def by(cls, name: str, kind: Kind, help: str, label: str, values: Iterable[str], *, common: bool = False) -> Metric:
        """With one label."""
        return cls(name, kind, help, (label,), tuple((value,) for value in values), common=common)


class Table:
    """The numbers of one process. ``memory`` holds as many bytes as ``size_of`` says; without it they are its own."""

    def __init__(self, metrics: Sequence[Metric], memory: memoryview | None = None) -> None:
        self.metrics = tuple(metrics)
        memory = memoryview(bytearray(size_of(metrics))) if memory is None else memory
        self.cells: memoryview[float] = memory.cast("d")
        self._starts: dict[str, int] = {}
        start = 0
        for metric in self.metrics:
            self._starts[metric.name] = start
            start += metric.width * len(metric.values)

    def numbers(self, metric: Metric) -> Numbers:
        """To count with, or to set."""
        return Numbers(self.cells, self._places(metric))

    def times(self, metric: Metric) -> Times:
        """To observe with."""
        return Times(self.cells, self._places(metric), metric.bounds)

    def zero(self, kind: Kind) -> None:
        """Begin anew with all of a kind: what a gauge said of a process is not true of the next."""
        for metric in self.metrics:
            if metric.kind is kind:
                start = self._starts[metric.name]
                for at in range(start, start + metric.width * len(metric.values)):
                    self.cells[at] = 0.0

    def _places(self, metric: Metric) -> dict[Label, int]:
        start = self._starts[metric.name]
        return {label: start + number * metric.width for number, label in enumerate(metric.values)}


class Numbers:
    """One number for each of the labels."""

    __slots__ = ("_cells", "_places")

    def __init__(self, cells: memoryview[float], places: Mapping[Label, int]) -> None:
        self._cells = cells
        self._places = places

    def add(self, label: Label = (), amount: float = 1.0) -> None:
        """A label that is none of them counts nowhere: a metric never stops what it measures."""
        place = self._places.get(label)
        if place is not None:
            self._cells[place] += amount

    def set(self, value: float, label: Label = ()) -> None:
        place = self._places.get(label)
        if place is not None:
            self._cells[place] = value


class Times:
    """A histogram of seconds for each of the labels."""

    __slots__ = ("_bounds", "_cells", "_ordered", "_places", "_total")

    def __init__(self, cells: memoryview[float], places: Mapping[Label, int], bounds: tuple[float, ...]) -> None:
        self._cells = cells
        self._places = places
        self._ordered = tuple(places.values())
        self._bounds = bounds
        self._total = len(bounds) + 1

    def observe(self, seconds: float, label: Label = ()) -> None:
        place = self._places.get(label)
        if place is not None:
            self._cells[place + bisect_left(self._bounds, seconds)] += 1.0
            self._cells[place + self._total] += seconds

    def observe_each(self, times: Sequence[float]) -> None:
        """One time for each of the labels, in their order; 0 for what took no time at all, and is not observed."""
        cells, bounds, total = self._cells, self._bounds, self._total
        for place, seconds in zip(self._ordered, times, strict=True):
            if seconds:
                cells[place + bisect_left(bounds, seconds)] += 1.0
                cells[place + total] += seconds


def size_of(metrics: Sequence[Metric]) -> int:
    """Bytes of a table."""
    return CELL * sum(metric.width * len(metric.values) for metric in metrics)


def layout_of(metrics: Sequence[Metric]) -> bytes:
    """32 bytes that differ where two tables do not mean the same."""
    told = [(m.name, m.kind.value, m.labels, m.values, m.bounds, m.common) for m in metrics]
    return sha256(repr(told).encode()).digest()


def summed(metrics: Sequence[Metric], tables: Sequence[Sequence[float]]) -> list[float]:
    """The tables of several processes as one; the first one's is that of the process that is asked."""
    total: list[float] = []
    start = 0
    for metric in metrics:
        end = start + metric.width * len(metric.values)
        for at in range(start, end):
            total.append(tables[0][at] if metric.common else sum(table[at] for table in tables))
        start = end
    return total
