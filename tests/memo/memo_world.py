"""The committed pairs of questions, the datasets they are about, and what the memo makes of each."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from control_plane.descriptor import DatasetDescriptor
from control_plane.memo import alike, as_kept
from control_plane.memo_likeness import likeness
from control_plane.memo_words import normalised
from control_plane.registry import load_registry

HERE = Path(__file__).parent
DATASETS = HERE.parents[1] / "datasets"


@dataclass(frozen=True)
class Meaning:
    """A call, as JSON text: comparable, and printed where a test fails."""

    dataset: str
    capability: str
    arguments: str

    @classmethod
    def of(cls, dataset: str, capability: str, arguments: Mapping[str, Any]) -> Meaning:
        return cls(dataset, capability, json.dumps(dict(arguments), sort_keys=True))


@dataclass(frozen=True)
class Kept:
    """A question and the call it was read as, as a memo keeps it."""

    words: str
    dataset: str
    capability: str
    arguments: Mapping[str, Any]

    @property
    def meaning(self) -> Meaning:
        return Meaning.of(self.dataset, self.capability, self.arguments)


@dataclass(frozen=True)
class Pair:
    """``means`` is what ``question`` means, ``None`` where no call of these datasets says it."""

    kind: str
    earlier: Kept
    question: str
    means: Meaning | None

    @property
    def is_paraphrase(self) -> bool:
        return self.means == self.earlier.meaning


@cache
def offered() -> tuple[DatasetDescriptor, ...]:
    own = json.loads((HERE / "bioreactor-samples.json").read_text(encoding="utf-8"))
    found = load_registry(DATASETS).datasets
    shipped = [found[name].published() for name in ("purification-batches", "chromatography-results")]
    return (*shipped, DatasetDescriptor.model_validate(own))


@cache
def pairs() -> tuple[Pair, ...]:
    found: list[Pair] = []
    means = earlier = None
    for line in (HERE / "pairs.txt").read_text(encoding="utf-8").splitlines():
        mark, _, rest = line.partition(" ")
        if mark == "@":
            dataset, capability, arguments = rest.split(" ", 2)
            means = (dataset, capability, json.loads(arguments))
        elif mark == "?":
            assert means is not None
            earlier = Kept(normalised(rest), *means)
        elif mark in ("=", "!"):
            assert earlier is not None
            parts = [part.strip() for part in rest.split("|")]
            changed = parts[2] if mark == "!" else "{}"
            found.append(Pair(parts[0], earlier, parts[1], _changed(earlier, changed)))
    return tuple(found)


def kept() -> tuple[Kept, ...]:
    """Every question that was read, once: more than one partition would hold, and all of them likely."""
    return tuple({pair.earlier.words: pair.earlier for pair in pairs()}.values())


def recalled(question: str, held: Sequence[Kept]) -> Meaning | None:
    """What the memo makes of a question: by its exact words, else by proof from one written alike."""
    words = normalised(question)
    exact = next((item for item in held if item.words == words), None)
    found = as_kept(exact, offered()) if exact else alike(words, held, offered())
    return None if found is None else Meaning.of(found.dataset, found.capability, found.arguments)


def nearest(question: str, held: Sequence[Kept], *, least: float) -> Meaning | None:
    """What likeness alone would make of it, for comparison: the most alike, where it is alike enough."""
    words = normalised(question)
    best = max(held, key=lambda item: likeness(words, item.words))
    return best.meaning if likeness(words, best.words) >= least else None


def _changed(earlier: Kept, text: str) -> Meaning | None:
    if text == "-":
        return None
    head, brace, body = text.partition("{")
    changes = json.loads(brace + body)
    if head.strip():
        dataset, capability = head.split()
        return Meaning.of(dataset, capability, changes)
    arguments = {name: value for name, value in {**earlier.arguments, **changes}.items() if value is not None}
    return Meaning.of(earlier.dataset, earlier.capability, arguments)
