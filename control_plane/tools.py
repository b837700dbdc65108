"""What of a dataset is a tool of its MCP server, and the JSON Schema of each tool's arguments.

Both sides make them of the same published descriptor: the server declares them, and whoever asks
compares what is declared with the verified card. Nothing is in a declaration but the name, the
description and the arguments: no dataset, policy, version or grant.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from contract.mcp import MCP_ENDPOINT, mcp_path
from contract.schema import Mode, Parameter, SqlType, StructField
from control_plane.descriptor import DatasetCapability, DatasetDescriptor, Effect

_READS: Final = (Effect.READ, Effect.COMPUTE)
_FORMS: Final[Mapping[SqlType, Mapping[str, Any]]] = {
    SqlType.STRING: {"type": "string"},
    SqlType.INT64: {"type": ["integer", "string"]},  # beyond 2**53-1 as text
    SqlType.FLOAT64: {"type": "number"},
    SqlType.NUMERIC: {"type": ["number", "string"]},
    SqlType.BOOL: {"type": "boolean"},
    SqlType.DATE: {"type": "string", "format": "date"},
    SqlType.DATETIME: {"type": "string"},
    SqlType.TIME: {"type": "string"},
    SqlType.TIMESTAMP: {"type": "string", "format": "date-time"},
    SqlType.BYTES: {"type": "string"},
}


@dataclass(frozen=True, slots=True)
class Tool:
    """One capability as a tool of its dataset's MCP server."""

    name: str
    capability: DatasetCapability

    def declaration(self) -> dict[str, Any]:
        """The tool as ``tools/list`` tells it."""
        return {
            "name": self.name,
            "description": self.capability.description,
            "inputSchema": input_schema(self.capability.parameters),
            "annotations": {"readOnlyHint": self.capability.effect in _READS},
        }


def served_by_mcp(descriptor: DatasetDescriptor) -> bool:
    """Whether the dataset says of itself that it is served behind MCP."""
    return descriptor.endpoints.get(MCP_ENDPOINT) == mcp_path(descriptor.dataset)


def tools_of(descriptor: DatasetDescriptor) -> dict[str, Tool]:
    """The tools of the dataset's MCP server by name: each capability that names one, and no other."""
    if not served_by_mcp(descriptor):
        return {}
    named = (Tool(c.mcp_tool_name, c) for c in descriptor.capabilities if c.mcp_tool_name is not None)
    return {tool.name: tool for tool in named}


def input_schema(parameters: Iterable[Parameter]) -> dict[str, Any]:
    """The JSON Schema (2020-12) of a call's arguments. What it allows is checked once more, and more strictly, when a call arrives."""
    listed = tuple(parameters)
    return {
        "type": "object",
        "properties": {parameter.name: _of_parameter(parameter) for parameter in listed},
        "required": [parameter.name for parameter in listed if parameter.required],
        "additionalProperties": False,
    }


def _of_parameter(parameter: Parameter) -> dict[str, Any]:
    item = _bounded(parameter)
    schema = {"type": "array", "items": item, "maxItems": parameter.max_items} if parameter.repeated else item
    if parameter.nullable:
        schema = {**schema, "type": [*_types(schema), "null"]}
        if parameter.values and not parameter.repeated:
            schema["enum"] = [*parameter.values, None]
    unit = f" In {parameter.unit}." if parameter.unit else ""
    schema = {**schema, "description": f"{parameter.description}{unit}"}
    return schema if parameter.default is None else {**schema, "default": parameter.default}


def _bounded(parameter: Parameter) -> dict[str, Any]:
    if parameter.type is SqlType.STRUCT:
        return _of_fields(parameter, parameter.fields)
    schema = dict(_FORMS[parameter.type])
    if parameter.type is SqlType.STRING:
        schema["maxLength"] = parameter.max_length
        if parameter.pattern is not None:
            schema["pattern"] = f"^(?:{parameter.pattern})$"
        if parameter.values:
            schema["enum"] = list(parameter.values)
    for name, bound in (("minimum", parameter.minimum), ("maximum", parameter.maximum)):
        if isinstance(bound, int | float):
            schema[name] = bound
    return schema


def _of_fields(parameter: Parameter, fields: Iterable[StructField]) -> dict[str, Any]:
    listed = tuple(fields)
    return {
        "type": "object",
        "properties": {field.name: _of_field(parameter, field) for field in listed},
        "required": [field.name for field in listed],
        "additionalProperties": False,
    }


def _of_field(parameter: Parameter, field: StructField) -> dict[str, Any]:
    if field.type is SqlType.STRUCT:
        schema = _of_fields(parameter, field.fields)
    else:
        schema = dict(_FORMS[field.type])
        if field.type is SqlType.STRING:
            schema["maxLength"] = parameter.max_length
    if field.mode is Mode.REPEATED:
        return {"type": "array", "items": schema, "maxItems": parameter.max_items}
    return {**schema, "type": [*_types(schema), "null"]}


def _types(schema: Mapping[str, Any]) -> list[str]:
    kinds = schema["type"]
    return [kinds] if isinstance(kinds, str) else list(kinds)
