"""Pairs of calls over the shipped datasets that differ in one small thing: another number, word, day, dataset or person."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from contract.schema import Parameter, SqlType
from control_plane.manifest import DatasetManifest

WORKLOAD = Path(__file__).resolve().parents[2] / "benchmarks" / "cache_workload.json"
BATCHES = (("B001", "B002"), ("B010", "B100"), ("B012", "B021"), ("B033", "B003"), ("B120", "B121"), ("B199", "B200"))
TEXTS = (
    ("yield above 95", "yield below 95"),
    ("2023", "2024"),
    ("with resin fouling", "without resin fouling"),
    ("resin fouling", "resin"),
    ("b001", "b002"),
    ("released", "rejected"),
    ("released", "not released"),
    ("basel", "dublin"),
    ("ph excursion", "ph  excursion"),
    ("fouling", "fouling "),
    ("95 %", "95 g"),
    ("1.0", "10"),
    ("cex", "aex"),
    ("pooled", "pool"),
    ("50%", "50_"),
    ("air entrainment", "air"),
    ("day 28", "day 29"),
    ("more than 5", "less than 5"),
    ("before june", "after june"),
    ("é", "e\u0301 "),
)
DAYS = (date(2024, 2, 29), date(2024, 12, 31), date(2023, 6, 1))
PEOPLE = {
    "purification-batches": ("process_engineer", "analyst"),
    "chromatography-results": ("process_engineer", "analyst"),
    "clinical-private": ("clinical_reviewer",),
}


@dataclass(frozen=True, slots=True)
class Asked:
    """A call of a person, as JSON that can be compared."""

    person: str
    dataset: str
    capability: str
    arguments: str

    @classmethod
    def of(cls, person: str, dataset: str, capability: str, arguments: Mapping[str, Any]) -> Asked:
        return cls(person, dataset, capability, json.dumps(arguments, sort_keys=True))

    def given(self) -> dict[str, Any]:
        return dict(json.loads(self.arguments))


Pair = tuple[Asked, Asked]


def pairs(datasets: Mapping[str, DatasetManifest]) -> list[Pair]:
    """Every pair once; both are calls that their person may make."""
    found = [*_of_arguments(datasets), *_of_people(), *_of_datasets(), *_of_order(), *_of_questions()]
    return list(dict.fromkeys(found))


def _of_arguments(datasets: Mapping[str, DatasetManifest]) -> Iterator[Pair]:
    for dataset, manifest in datasets.items():
        person = PEOPLE[dataset][0]
        for capability in manifest.capabilities:
            base = {item.name: _some(item) for item in capability.parameters if item.required}
            for parameter in capability.parameters:
                for left, right in _close(parameter):
                    yield (
                        Asked.of(person, dataset, capability.name, {**base, parameter.name: left}),
                        Asked.of(person, dataset, capability.name, {**base, parameter.name: right}),
                    )


def _some(parameter: Parameter) -> Any:
    return _close(parameter)[0][0]


def _close(parameter: Parameter) -> list[tuple[Any, Any]]:
    """Pairs of values of a parameter that are easily taken for one another."""
    if parameter.repeated:
        members = list(parameter.values) or ["a", "b", "c"]
        return [([], members[:1]), (members[:1], members[:2]), (members[:1], members[1:2]), (members, members[1:])]
    if parameter.values:
        return list(itertools.pairwise(parameter.values))
    if parameter.pattern is not None:
        return list(BATCHES)
    if parameter.type is SqlType.DATE:
        steps = (timedelta(days=1), timedelta(days=366))
        return [(day.isoformat(), (day + step).isoformat()) for day in DAYS for step in steps]
    return list(TEXTS)


def _of_people() -> Iterator[Pair]:
    """The same call by two people whose classes differ."""
    for left, right in BATCHES:
        given = {"batch_a": left, "batch_b": right}
        one, other = (
            Asked.of(who, "purification-batches", "compare_batches", given) for who in PEOPLE["purification-batches"]
        )
        yield one, other
    for text, _ in TEXTS:
        one, other = (
            Asked.of(who, "purification-batches", "search", {"query": text})
            for who in ("process_engineer", "clinical_reviewer")
        )
        yield one, other


def _of_datasets() -> Iterator[Pair]:
    """The same words to two datasets that have a capability of one name."""
    for text, _ in TEXTS:
        yield (
            Asked.of("process_engineer", "purification-batches", "search", {"query": text}),
            Asked.of("process_engineer", "chromatography-results", "search", {"query": text}),
        )


def _of_order() -> Iterator[Pair]:
    for left, right in BATCHES:
        for swapped in ({"batch_a": right, "batch_b": left}, {"batch_a": left, "batch_b": left}):
            yield (
                Asked.of(
                    "process_engineer", "purification-batches", "compare_batches", {"batch_a": left, "batch_b": right}
                ),
                Asked.of("process_engineer", "purification-batches", "compare_batches", swapped),
            )


def _of_questions() -> Iterator[Pair]:
    for person, (_, call), (_, near) in questions():
        yield tuple(Asked.of(person, item["dataset"], item["capability"], item["arguments"]) for item in (call, near))  # type: ignore[misc]


def questions() -> Iterator[tuple[str, tuple[str, dict[str, Any]], tuple[str, dict[str, Any]]]]:
    """A person, a question with the call that it means, and one that differs in a word."""
    for group in json.loads(WORKLOAD.read_text(encoding="utf-8"))["groups"]:
        for near in group["near"]:
            yield group["as"], (group["asked"][0], group["call"]), (near["question"], near["call"])
