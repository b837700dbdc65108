"""What a question, or a model, seems to ask for: a call, and what it misses. It authorizes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from contract.schema import Parameter, SqlType
from control_plane.descriptor import DatasetCapability, DatasetDescriptor


@dataclass(frozen=True, slots=True)
class Missing:
    """A parameter a call still needs, as it may be told to the asker; ``is_silent`` where nothing is said of it."""

    name: str
    type: SqlType
    values: tuple[str, ...]
    description: str
    repeated: bool = False
    is_silent: bool = True

    @classmethod
    def of(cls, parameter: Parameter, problem: str = "") -> Missing:
        """``problem`` says what of the question was looked at and did not fit; it comes first."""
        told = ". ".join(part for part in (problem, parameter.description) if part)
        return cls(parameter.name, parameter.type, parameter.values, told, parameter.repeated, not problem)


@dataclass(frozen=True, slots=True)
class Proposal:
    """A call that a question seems to ask for. ``missing`` is empty where it is complete.

    ``capability`` may be an operation the dataset prohibits: admission refuses it by name. ``left`` are the words of the
    question that it does not account for; with ``is_far`` they are most of it, and it is good for telling them only.
    """

    dataset: str
    capability: str
    arguments: Mapping[str, Any]
    missing: tuple[Missing, ...]
    score: float
    left: tuple[str, ...] = ()
    is_far: bool = False


def proposed(
    descriptor: DatasetDescriptor,
    capability: DatasetCapability,
    arguments: Mapping[str, Any],
    unsettled: frozenset[str],
    problems: Mapping[str, str],
) -> Proposal:
    """A proposal of this call, its arguments in declared order.

    Missing is what is required, or ``unsettled``, and not among the ``arguments``; ``problems`` say why, by parameter.
    """
    missing = tuple(
        Missing.of(parameter, problems.get(parameter.name, ""))
        for parameter in capability.parameters
        if parameter.name not in arguments and (parameter.required or parameter.name in unsettled)
    )
    ordered = {item.name: arguments[item.name] for item in capability.parameters if item.name in arguments}
    return Proposal(descriptor.dataset, capability.name, MappingProxyType(ordered), missing, 1.0)
