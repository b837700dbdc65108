"""The form of what a model may propose, as JSON Schema: one listed dataset, one listed capability, their parameters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from control_plane.descriptor import DatasetDescriptor
from control_plane.tools import input_schema


def intent_schema(descriptors: Sequence[DatasetDescriptor]) -> dict[str, Any]:
    """For a model's structured output. It is a help for the model and no check: code confirms what comes.

    Nothing is required, for ``{}`` says that no capability fits.
    """
    arguments: dict[str, list[Any]] = {}
    for name, schema in _parameters(descriptors):
        held = arguments.setdefault(name, [])
        if schema not in held:
            held.append(schema)
    return {
        "type": "object",
        "properties": {
            "dataset": {"type": "string", "enum": _sorted(item.dataset for item in descriptors)},
            "capability": {
                "type": "string",
                "enum": _sorted(item.name for descriptor in descriptors for item in descriptor.capabilities),
            },
            "arguments": {
                "type": "object",
                "properties": {
                    name: schemas[0] if len(schemas) == 1 else {"anyOf": schemas} for name, schemas in arguments.items()
                },
                "additionalProperties": False,
            },
        },
        "additionalProperties": False,
    }


def _parameters(descriptors: Iterable[DatasetDescriptor]) -> Iterator[tuple[str, Any]]:
    for descriptor in descriptors:
        for capability in descriptor.capabilities:
            yield from input_schema(capability.parameters)["properties"].items()
            for period in capability.periods:
                yield period.name, {"type": "string"}


def _sorted(names: Iterable[str]) -> list[str]:
    return sorted(set(names))
