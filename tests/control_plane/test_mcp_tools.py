"""What of a descriptor is a tool of its MCP server, and the JSON Schema of each kind of argument, word for word."""

from __future__ import annotations

from typing import Any

import pytest

from contract.schema import Parameter
from control_plane.tools import input_schema, served_by_mcp, tools_of
from tests.control_plane.control_plane_world import make_descriptor, raw_capability

SERVED = {"mcp": "/mcp/plants"}


def parameter(**members: Any) -> Parameter:
    return Parameter.model_validate({"name": "x", "description": "What it is.", "type": "STRING"} | members)


def schema_of(**members: Any) -> dict[str, Any]:
    """Of the only argument, without its description."""
    told: dict[str, Any] = input_schema([parameter(**members)])["properties"]["x"]
    assert told.pop("description") == "What it is."
    return told


FIELDS = [
    {"name": "batch", "type": "STRING"},
    {"name": "steps", "type": "INT64", "mode": "REPEATED"},
    {"name": "place", "type": "STRUCT", "fields": [{"name": "site", "type": "STRING"}]},
]
FORMS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a text": ({}, {"type": "string", "maxLength": 256}),
    "a short text": ({"max_length": 8}, {"type": "string", "maxLength": 8}),
    "a text of a form": (
        {"pattern": "B[0-9]{3}|C"},
        {"type": "string", "maxLength": 256, "pattern": "^(?:B[0-9]{3}|C)$"},
    ),
    "one of some": ({"values": ["a", "b"]}, {"type": "string", "maxLength": 256, "enum": ["a", "b"]}),
    "one of some or none": (
        {"values": ["a"], "nullable": True},
        {"type": ["string", "null"], "maxLength": 256, "enum": ["a", None]},
    ),
    "what is said where nothing is": (
        {"values": ["a"], "default": "a"},
        {"type": "string", "maxLength": 256, "enum": ["a"], "default": "a"},
    ),
    "a number within bounds": (
        {"type": "INT64", "minimum": 1, "maximum": 9},
        {"type": ["integer", "string"], "minimum": 1, "maximum": 9},
    ),
    "a number or none": ({"type": "FLOAT64", "nullable": True}, {"type": ["number", "null"]}),
    "an exact number": ({"type": "NUMERIC"}, {"type": ["number", "string"]}),
    "yes or no": ({"type": "BOOL"}, {"type": "boolean"}),
    "a day, of which bounds are no numbers": (
        {"type": "DATE", "minimum": "2024-01-01"},
        {"type": "string", "format": "date"},
    ),
    "an instant": ({"type": "TIMESTAMP"}, {"type": "string", "format": "date-time"}),
    "some texts": (
        {"repeated": True, "max_items": 5},
        {"type": "array", "items": {"type": "string", "maxLength": 256}, "maxItems": 5},
    ),
    "some texts or none": (
        {"repeated": True, "nullable": True, "values": ["a"]},
        {
            "type": ["array", "null"],
            "items": {"type": "string", "maxLength": 256, "enum": ["a"]},
            "maxItems": 100,
        },
    ),
    "a record": (
        {"type": "STRUCT", "fields": FIELDS, "max_length": 7, "max_items": 3},
        {
            "type": "object",
            "properties": {
                "batch": {"type": ["string", "null"], "maxLength": 7},
                "steps": {"type": "array", "items": {"type": ["integer", "string"]}, "maxItems": 3},
                "place": {
                    "type": ["object", "null"],
                    "properties": {"site": {"type": ["string", "null"], "maxLength": 7}},
                    "required": ["site"],
                    "additionalProperties": False,
                },
            },
            "required": ["batch", "steps", "place"],
            "additionalProperties": False,
        },
    ),
}


@pytest.mark.parametrize(("members", "schema"), FORMS.values(), ids=FORMS)
def test_an_argument_is_declared_as_it_is_checked(members: dict[str, Any], schema: dict[str, Any]) -> None:
    assert schema_of(**members) == schema


def test_arguments_are_those_of_the_capability_and_those_that_must_be_there_are_named() -> None:
    told = input_schema(
        [
            parameter(name="must"),
            parameter(name="may", default="a"),
            parameter(name="none", nullable=True),
            parameter(name="weight", type="FLOAT64", unit="kg"),
        ]
    )
    assert (told["type"], told["additionalProperties"], told["required"]) == ("object", False, ["must", "weight"])
    assert list(told["properties"]) == ["must", "may", "none", "weight"]
    assert told["properties"]["weight"]["description"] == "What it is. In kg."


def test_tools_are_the_capabilities_that_name_one_of_a_dataset_that_is_served_behind_mcp() -> None:
    reads = raw_capability("read", mcp_tool_name="read_plants", tool_name=None)
    computes = raw_capability("count", mcp_tool_name="count_plants", tool_name=None, effect="compute")
    writes = raw_capability("plant", mcp_tool_name="plant_plants", tool_name=None, effect="write")
    plain = raw_capability("plain")
    tools = tools_of(make_descriptor(reads, computes, writes, plain, endpoints=SERVED))
    assert {name: tool.capability.name for name, tool in tools.items()} == {
        "read_plants": "read",
        "count_plants": "count",
        "plant_plants": "plant",
    }
    assert tools["read_plants"].declaration() == {
        "name": "read_plants",
        "description": "read the rows",
        "inputSchema": {"type": "object", "properties": {}, "required": [], "additionalProperties": False},
        "annotations": {"readOnlyHint": True},
    }
    assert tools["count_plants"].declaration()["annotations"] == {"readOnlyHint": True}
    assert tools["plant_plants"].declaration()["annotations"] == {"readOnlyHint": False}


def test_a_dataset_is_served_at_its_own_address_or_not_at_all() -> None:
    named = raw_capability("read", mcp_tool_name="read_plants", tool_name=None)
    for endpoints, served in ((SERVED, True), ({}, False), ({"mcp": "/mcp/other"}, False)):
        descriptor = make_descriptor(named, endpoints=SERVED).model_copy(update={"endpoints": endpoints})
        assert served_by_mcp(descriptor) is served
        assert list(tools_of(descriptor)) == (["read_plants"] if served else [])
