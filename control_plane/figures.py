"""The numbers of a question and their units: which of them a call accounts for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from contract.schema import Parameter
from control_plane.arguments import Found
from control_plane.asked_units import is_asked_unit, unit_of
from control_plane.confirm import NUMERIC
from control_plane.descriptor import DatasetCapability
from control_plane.memo_terms import side
from control_plane.memo_words import number
from control_plane.spoken import Spoken


class Figures:
    """What is ``said``, held against the ``arguments`` of a call and what was ``found``. Places are those of tokens."""

    def __init__(self, said: Spoken, capability: DatasetCapability, arguments: Mapping[str, Any], found: Found) -> None:
        self._said, self._capability, self._arguments, self._found = said, capability, arguments, found
        self._told = frozenset(map(number, found.numbers))

    def is_settled(self, at: int) -> bool:
        """A number that is an argument, on the side that the words say, or is told; its unit, where it is the parameter's."""
        token = self._said.tokens[at]
        if token.kind == "unit":
            of = self._takers(at - 1) if at and self._said.tokens[at - 1].kind == "number" else []
            is_of_number = any(item.unit is not None and unit_of(item.unit) == token.text for item in of)
            is_told = at > 0 and self.is_told(at - 1) and self._is_of_open(token.text)
            return is_of_number or is_told or is_asked_unit(self._said.tokens, at, self._capability)
        if self.is_told(at):
            return True
        return any(side(parameter.name) == self._said.side_of(at) for parameter in self._takers(at))

    def is_told(self, at: int) -> bool:
        """Whether it is a number that could be an argument and is none: who asks is told."""
        token = self._said.tokens[at] if at < len(self._said.tokens) else None
        return token is not None and token.kind == "number" and token.text in self._told

    def _is_of_open(self, unit: str) -> bool:
        parameters = self._capability.parameters
        open_ = [item for item in parameters if item.type in NUMERIC and item.name not in self._arguments]
        return any(item.unit is not None and unit_of(item.unit) == unit for item in open_)

    def _takers(self, at: int) -> list[Parameter]:
        return [
            parameter
            for parameter in self._capability.parameters
            if parameter.name in self._arguments
            and parameter.type in NUMERIC
            and self._said.text(at) in self._numbers(parameter)
        ]

    def _numbers(self, parameter: Parameter) -> set[str]:
        """The numbers that are said where an argument is: *more than 3* of the least value 4."""
        said = self._found.figures.get(parameter.name)
        return {number(str(item)) for item in ([said] if said else items(self._arguments[parameter.name]))}


def items(value: Any) -> list[Any]:
    """The items of an argument, or the one that it is."""
    return value if isinstance(value, list) else [value]
