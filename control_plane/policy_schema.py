"""The JSON Schema of what a policy server is asked and may answer: ``docs/policy.schema.json``.

The question follows its model; the answer says what ``PolicyAnswer.from_json`` takes, and tests
hold one to the other. ``python -m control_plane.policy_schema --write docs/policy.schema.json``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from contract.scope import CONSTRAINT_KINDS, MAX_SET_SIZE, MAX_STALE_S, Mask
from control_plane.cedar_files import RULE_PREFIX
from control_plane.descriptor_schema import DIALECT
from control_plane.policy import MAX_ATTRIBUTES, Outcome
from control_plane.policy_input import PolicyInput

_NAMED: Final = (Outcome.PERMIT.value, Outcome.FORBID.value)
_NAME: Final = "[a-z][a-z0-9_-]{0,63}"
_SLUG: Final[dict[str, Any]] = {"type": "string", "pattern": f"^{_NAME}$"}
_COLUMN: Final[dict[str, Any]] = {
    "type": "string",
    "pattern": f"^{_NAME}\\.{_NAME}$",
    "description": "table.column of a base table.",
}
_VALUE: Final[dict[str, Any]] = {"type": ["string", "integer"], "minimum": 1 - 2**53, "maximum": 2**53 - 1}
_SET: Final[dict[str, Any]] = {"type": "array", "items": _VALUE, "maxItems": MAX_SET_SIZE}
_BOUND: Final[dict[str, Any]] = {**_VALUE, "description": "A number, a decimal as text, a date or a UTC timestamp."}
_KINDS: Final[dict[str, Any]] = {
    "one_of": _SET,
    "not_one_of": _SET,
    "max": _BOUND,
    "min": _BOUND,
    "prefix": {"type": "string", "minLength": 1},
}
_OBLIGATIONS: Final[dict[str, Any]] = {
    "type": "object",
    "description": "What a permit demands. All three are there, or obligations are left out: none.",
    "required": ["rows", "columns", "masks"],
    "additionalProperties": False,
    "properties": {
        "rows": {
            "type": "object",
            "description": "Only rows whose column satisfies all of it.",
            "propertyNames": _COLUMN,
            "additionalProperties": {
                "type": "object",
                "minProperties": 1,
                "additionalProperties": False,
                "properties": {kind: _KINDS[kind] for kind in CONSTRAINT_KINDS},
            },
        },
        "columns": {
            "type": ["array", "null"],
            "description": "The columns that may be read; null: every one.",
            "items": _COLUMN,
            "uniqueItems": True,
        },
        "masks": {
            "type": "object",
            "propertyNames": _COLUMN,
            "additionalProperties": {"enum": [mask.value for mask in Mask]},
        },
        "stale_s": {"type": "integer", "minimum": 0, "maximum": MAX_STALE_S},
    },
}
_NAMED_IN_EVIDENCE: Final = "(?!.*eyJ)[!-~]{1,200}$"
_RESULT: Final[dict[str, Any]] = {
    "type": "object",
    "description": "The decision document. Anything else is EVALUATOR_UNAVAILABLE, and nothing runs.",
    "required": ["outcome", "policy_id", "policy_version"],
    "additionalProperties": False,
    "properties": {
        "outcome": {"enum": [outcome.value for outcome in Outcome]},
        "policy_id": {
            "type": ["string", "null"],
            "pattern": f"^(?!{RULE_PREFIX}){_NAMED_IN_EVIDENCE}",
            "description": "Of the policy that decided; null where none did.",
        },
        "policy_version": {
            "type": "string",
            "pattern": f"^{_NAMED_IN_EVIDENCE}",
            "description": "Of the policies, on every answer.",
        },
        "obligations": _OBLIGATIONS,
        "detail": {"description": "For the operator of the server; never sent on."},
        "attributes": {
            "type": "array",
            "items": _SLUG,
            "maxItems": MAX_ATTRIBUTES,
            "description": "The attributes that are missing; their names are told to who asks.",
        },
    },
    "if": {"properties": {"outcome": {"enum": list(_NAMED)}}},
    "then": {"properties": {"policy_id": {"type": "string"}}},
    "else": {"properties": {"policy_id": {"type": "null"}}},
}


def policy_schema() -> dict[str, Any]:
    """One document: ``#/$defs/question`` is the body that is posted, ``#/$defs/answer`` what comes back."""
    asked = PolicyInput.model_json_schema(ref_template="#/$defs/{model}")
    parts = asked.pop("$defs")
    question = {"type": "object", "required": ["input"], "additionalProperties": False, "properties": {"input": asked}}
    answer = {"type": "object", "required": ["result"], "properties": {"result": _RESULT}}
    return {
        "$schema": DIALECT,
        "title": "dataset-agent policy question and answer",
        "oneOf": [{"$ref": "#/$defs/question"}, {"$ref": "#/$defs/answer"}],
        "$defs": {**parts, "question": question, "answer": answer},
    }


def schema_text() -> str:
    """The file, byte for byte."""
    return json.dumps(policy_schema(), indent=2, ensure_ascii=False) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Write the schema to the file that ``--write`` names, else to standard output."""
    if arguments and (arguments[0] != "--write" or len(arguments) != 2):
        sys.stderr.write("use: python -m control_plane.policy_schema [--write FILE]\n")
        return 2
    if arguments:
        Path(arguments[1]).write_text(schema_text(), encoding="utf-8")
    else:
        sys.stdout.write(schema_text())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
