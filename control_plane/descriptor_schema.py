"""The JSON Schema of ``descriptor.yaml``, for editors: names, types, allowed values, and what each member means.

It follows the models. What concerns several members at once (a confidential capability names its
policy, fields go with STRUCT) is no matter of a schema: ``dataset-agent datasets validate`` says it.
"""

from __future__ import annotations

import json
from typing import Any, Final

from control_plane.manifest import DatasetManifest

SCHEMA_FILE: Final = "descriptor.schema.json"
DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
TITLE: Final = "dataset-agent descriptor"

_SAID: Final[dict[str, dict[str, str]]] = {
    "": {
        "dataset": "The dataset's name in calls, grants and keys: a-z, 0-9, _ and -.",
        "description": "What the data is about, in the words of those who ask.",
        "tenant": "Whose data it is; people of other tenants are refused.",
        "version": "Of the publication: change it with what is offered.",
        "revision": "Of the data: auto (or absent) takes it from the source.",
        "schema_version": "Of the data's shape: change it with columns and types.",
        "as_of": "When the data was last true, RFC 3339: auto (or absent) takes it from the source.",
        "revision_command": "A command, word by word, that prints the revision and perhaps as_of; the operator must allow it.",
        "sensitivity": "A restricted dataset is on no public card.",
        "prohibited": "Operations that nobody may run, whatever a policy permits.",
        "freshness": "How old data and stored results may be.",
        "provenance": "Where the data comes from: signed beside every result.",
        "policies": "Ids (@id) of the Cedar policies that capabilities name.",
        "schemas": "Names by which people know the tables' schemas.",
        "tables": "The base tables: none of this leaves the service.",
        "capabilities": "What may be asked.",
        "bigquery": "How tables of BigQuery are asked.",
    },
    "Freshness": {
        "maximum_age_s": "Seconds: the age of the data that the publisher promises not to exceed.",
        "reuse_s": "Seconds from its execution for which a stored result may be reused; reading it lengthens nothing.",
        "stale_s": "Seconds after that for which it may still be answered, said to be STALE, while it is refreshed: where @stale of a policy allows it.",
        "class": "A name for that, such as daily: operators list and purge stored results by it.",
    },
    "CapabilityManifest": {
        "name": "The capability's name in calls and policies.",
        "description": "What it answers: shown on the card, and read when a question is interpreted.",
        "effect": "read and compute are ordinary; write and external must be held by the principal.",
        "policy_id": "The policy that governs it; needed where it is confidential or restricted.",
        "tool_name": "A name of your own for the template, in traces.",
        "template": "A GoogleSQL file relative to the dataset's folder.",
        "max_rows": "The most rows of a result.",
        "keywords": "Words of questions that mean this capability.",
        "examples": "Whole questions that mean it.",
        "parameters": "What it takes.",
        "periods": "Half-open ranges of time that questions and callers of a root agent may say in words.",
        "results": "What it returns, in order: exactly the template's output.",
        "cacheable": "false: never answered from stored results.",
        "requires_review": "true: a person must approve each call.",
        "supply": "The rows of another agent that the template reads.",
        "delegates": "What is asked of another dataset agent.",
        "rollup": "Which result columns are groups and which add up: narrower and coarser calls are then computed from stored results.",
    },
    "Parameter": {
        "description": "What it is, with an example.",
        "repeated": "true: an ARRAY; order and duplicates mean nothing.",
        "nullable": "true: may be left out, and is then NULL.",
        "default": "The value where none is given.",
        "values": "The only values there are (STRING).",
        "synonyms": "Other words for a value, in questions.",
        "pattern": "A regular expression that the whole text must match (STRING).",
        "minimum": "Inclusive; a number, or ISO text.",
        "maximum": "Inclusive; a number, or ISO text.",
        "case": "How the case of a text is treated before it is compared.",
        "unit": "For people.",
    },
    "Period": {
        "name": "What the period is of, in questions and calls: such as produced.",
        "from": "The parameter that is its beginning: inclusive.",
        "to": "The parameter that is its end: exclusive, of the same type (DATE, DATETIME or TIMESTAMP).",
    },
    "Table": {
        "name": "What templates call it.",
        "file": "A .parquet, .csv or .duckdb file inside the dataset's folder.",
        "relation": "The table inside a .duckdb file, where it has another name.",
        "bigquery": "project.dataset.table.",
        "columns": "The columns that templates may read, in any order; others of the file are left out.",
    },
    "Column": {
        "type": "A GoogleSQL type.",
        "mode": "REQUIRED: never NULL. REPEATED: an ARRAY.",
        "sensitivity": "A template may not read a column that is more sensitive than its capability.",
        "attribute": "What rows may be narrowed by, such as site.",
        "fields": "The fields of a STRUCT.",
    },
}


def descriptor_schema() -> dict[str, Any]:
    """The schema as a JSON value."""
    schema = DatasetManifest.model_json_schema()
    members = schema["properties"]
    members["revision"] = {"type": "string", "pattern": members["revision"]["pattern"], "default": "auto"}
    members["as_of"] = {
        "anyOf": [{"type": "string", "format": "date-time"}, {"const": "auto"}],
        "default": "auto",
    }
    for model, said in _SAID.items():
        told = schema["$defs"][model] if model else schema
        for name, text in said.items():
            told["properties"][name]["description"] = text
    _plain(schema)
    return {"$schema": DIALECT, "title": TITLE, **schema}


def schema_text() -> str:
    """The file that is published."""
    return json.dumps(descriptor_schema(), indent=2, ensure_ascii=False) + "\n"


def _plain(node: Any) -> None:
    """Names as titles, notes for those who write the models, and patterns that not every editor reads, go out."""
    if isinstance(node, list):
        for item in node:
            _plain(item)
    if not isinstance(node, dict):
        return
    if "properties" in node:
        node.pop("description", None)
    node.pop("title", None)
    if "\\p{" in str(node.get("pattern", "")):
        node.pop("pattern")
    if "patternProperties" in node:
        node["additionalProperties"] = False
    for name, item in node.items():
        if name == "properties":
            for member in item.values():
                _plain(member)
        else:
            _plain(item)
