"""How a step of the kit is put to the product: words, or a typed call with arguments of the world that ships."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

_BATCH: Final = re.compile(r"\bB[0-9]{3}\b")
_WORDS: Final = re.compile(r"[a-z0-9]+")


def wanted(step: Mapping[str, Any]) -> dict[str, Any]:
    """A step as the root agent is asked.

    Words alone are asked as words. With a dataset named, it is a typed call: of the capability that is
    named, else of an operation by the name that the words make.
    """
    stated = {"max_age_s": step.get("freshness"), "schema_version": step.get("expected_schema_version")}
    asked = {name: value for name, value in stated.items() if value is not None}
    if step.get("dataset") is None:
        return {"question": step["text"], **asked}
    capability = step.get("capability") or "_".join(_WORDS.findall(step["text"].lower()))
    arguments = arguments_of(step["dataset"], capability, step["text"])
    return {"call": {"dataset": step["dataset"], "capability": capability, "arguments": arguments}, **asked}


def arguments_of(dataset: str, capability: str, text: str, *, fresh: int | None = None) -> dict[str, Any]:
    """Typed arguments for a capability of the kit's world: of the words, or batch ``fresh`` and the one after it."""
    batches = _BATCH.findall(text) if fresh is None else [f"B{fresh:03}", f"B{fresh + 1:03}"]
    batches = [*batches, "B001", "B002"]
    return {
        "search": {"query": text or "fouling"},
        "compare_batches": {"batch_a": batches[0], "batch_b": batches[1]},
        "calculate_yield": {"batch_id": batches[0]},
        "detect_outliers": {"metric": "recovery"},
        "aggregate": {"metric": "crp" if dataset == "clinical-private" else "resolution"},
    }.get(capability, {})
