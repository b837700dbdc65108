"""A meaning written out: the authority and the intent that the product is given, each time in another way.

What carries no meaning is drawn anew for every call: the grant, its ids and times, who of a class
asks, whether a restriction came from the grant or from the policy, how an argument is written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

from contract.authority import Authority
from contract.minimum_group import GroupRule
from contract.principal import Principal
from contract.result import Intent
from contract.schema import Parameter
from contract.scope import Sensitivity, rows_to_json
from control_plane.obligations import parse_annotations
from queries.bind import bind
from queries.template import Template, load_template
from tests.authority_builder import NOW, make_authority
from tests.cachelaw.oracle import RESTRICTED, Request, Rule
from tests.cachelaw.requests import ARGUMENTS, DEFAULTS, NULLABLE
from tests.queries.world import DATASET, TABLES, results

_TYPES: Mapping[str, dict[str, Any]] = {
    "text": {"type": "STRING"},
    "code": {"type": "STRING", "case": "upper"},
    "unit": {"type": "STRING", "case": "lower", "default": "G/L"},
    "pattern": {"type": "STRING", "wildcards": True},
    "whole": {"type": "INT64", "nullable": True},
    "limit": {"type": "INT64", "default": 10},
    "ratio": {"type": "FLOAT64"},
    "amount": {"type": "NUMERIC", "nullable": True},
    "exact": {"type": "BOOL", "default": False},
    "day": {"type": "DATE", "nullable": True},
    "at": {"type": "TIMESTAMP"},
    "local": {"type": "DATETIME"},
    "clock": {"type": "TIME"},
    "names": {"type": "STRING", "repeated": True, "case": "upper"},
    "numbers": {"type": "INT64", "repeated": True},
    "prices": {"type": "NUMERIC", "repeated": True},
    "moments": {"type": "TIMESTAMP", "repeated": True},
    "ranking": {"type": "INT64", "repeated": True, "ordered": True},
    "pair": {
        "type": "STRUCT",
        "fields": [{"name": "x", "type": "INT64"}, {"name": "z", "type": "STRING"}, {"name": "w", "type": "DATE"}],
    },
}
_TAG = "tag"
_ASKING = (
    "SELECT id AS id FROM orders WHERE note = @text AND note = @code AND note = @unit AND note LIKE @pattern"
    " AND id = @whole AND id < @limit AND score = @ratio AND amount = @amount AND paid = @exact AND day = @day"
    " AND at = @at AND DATETIME(at) = @local AND TIME(at) = @clock AND note IN UNNEST(@names)"
    " AND id IN UNNEST(@numbers) AND amount IN UNNEST(@prices) AND at IN UNNEST(@moments)"
    " AND id IN UNNEST(@ranking) AND id = @pair.x AND note = @pair.z AND day = @pair.w AND note = @tag ORDER BY id"
)
_TEXTS = {
    "first": "SELECT region AS region, COUNT(*) AS n FROM orders GROUP BY region ORDER BY region",
    "second": "SELECT region AS region, COUNT(*) AS n FROM orders GROUP BY region ORDER BY region DESC",
}


@dataclass(frozen=True, slots=True)
class Asked:
    """One call as the result cache is asked."""

    authority: Authority
    intent: Intent
    freshness_class: str
    media_type: str


def write(rng: Random, request: Request, tag: str) -> Asked:
    """One of the ways to ask for what ``request`` means. Equal ``tag`` belongs to the meaning."""
    authority = make_authority(
        dataset=request.dataset,
        dataset_version=request.dataset_version,
        revision=request.revision,
        schema_version=request.schema_version,
        capability=request.capability,
        sensitivity=Sensitivity(request.sensitivity),
        max_sensitivity=Sensitivity(request.ceiling),
        principal_class=request.principal_class,
        tenant=request.tenant,
        issuer=request.issuer,
        policy_id=request.policy_id,
        policy_version=request.policy_version,
        **_obliged(rng, request),
        **_of_no_meaning(rng, request),
    )
    intent = Intent(
        request.dataset,
        request.capability,
        _digest(request.template, request.group),
        bind(asking(), _arguments(rng, request, tag)).canonical,
    )
    return Asked(authority, intent, request.freshness_class, request.media_type)


def _arguments(rng: Random, request: Request, tag: str) -> dict[str, Any]:
    given: dict[str, Any] = {_TAG: tag}
    for name, kind in ARGUMENTS.items():
        value = request.arguments[name]
        left_out = (name in DEFAULTS and value == DEFAULTS[name]) or (name in NULLABLE and value is None)
        if left_out and rng.random() < 0.5:
            continue
        given[name] = None if value is None else kind.write(rng, value)
    pairs = list(given.items())
    rng.shuffle(pairs)
    return dict(pairs)


def _of_no_meaning(rng: Random, request: Request) -> dict[str, Any]:
    number = rng.randrange(1_000_000)
    subject = request.subject if request.sensitivity == RESTRICTED else f"u-{number}"
    return {
        "subject": subject,
        "name": rng.choice(["one", "another"]),
        "client": rng.choice(["urn:dataset-agent:root", "urn:another:root"]),
        "decision_id": f"dec-{number}",
        "now": NOW + rng.randrange(-50, 50),
        "txn": f"txn-{number}",
        "root_jti": f"jti-{number}",
        "leaf_jti": f"leaf-{number}",
        "leaf_digest": f"{number:064x}",
        "clearance": rng.choice(list(Sensitivity)),
        "tctx": {"intent": str(number)},
        "rctx": {"trace_id": str(number)},
    }


def _obliged(rng: Random, request: Request) -> dict[str, Any]:
    """Rows and columns come from the grant, the policy or both; what holds is what both allow."""
    policy: dict[str, Any] = {}
    grant: dict[str, Any] = {}
    for column, rule in _shuffled(rng, request.rows):
        for side, part in zip((policy, grant), _split(rng, rule), strict=True):
            if part:
                side[column] = part
    columns = request.columns
    both = (
        [None, None]
        if columns is None
        else rng.choice([[columns, None], [None, columns], [columns, columns | {"a.b"}]])
    )
    return {
        "rows": _compiled(rng, policy),
        "grant_rows": grant,
        "columns": both[0],
        "grant_columns": both[1],
        "masks": dict(_shuffled(rng, request.masks)),
    }


def _split(rng: Random, rule: Rule) -> tuple[dict[str, Any], dict[str, Any]]:
    """A restriction as two whose conjunction it is."""
    sides: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
    one, other = rng.sample(sides, 2)
    for kind in ("one_of", "not_one_of", "min", "max", "prefix"):
        value = getattr(rule, kind)
        if value is None:
            continue
        one[kind] = _listed(rng, value) if isinstance(value, frozenset) else value
        if rng.random() < 0.3:
            looser = {"one_of": lambda held: held | {"XX"}, "not_one_of": lambda held: set(list(held)[:1])}
            other[kind] = _listed(rng, looser[kind](value)) if kind in looser else value
    return sides


def _compiled(rng: Random, rows: dict[str, Any]) -> dict[str, Any]:
    """As the policy writes them, or with each set bound from an attribute of the person."""
    attributes: dict[str, tuple[str, ...]] = {}
    written: dict[str, Any] = {}
    for column, rule in rows.items():
        written[column] = dict(rule)
        held = rule.get("one_of")
        if held and all(isinstance(value, str) for value in held) and rng.random() < 0.5:
            name = f"attribute_{len(attributes)}"
            attributes[name] = tuple(held)
            written[column]["one_of"] = {"principal": name}
    if not attributes:
        return rows
    person = Principal("i", "s", "t", "n", "c", Sensitivity.PUBLIC, attributes=attributes)
    bound = parse_annotations({"rows": json.dumps(written)}).bind(person)
    return rows_to_json(bound.rows)


def _listed(rng: Random, values: Any) -> list[Any]:
    listed = sorted(values, key=repr)
    listed += rng.choices(listed, k=rng.randrange(2)) if listed else []
    rng.shuffle(listed)
    return listed


def _shuffled(rng: Random, values: Mapping[str, Any]) -> list[tuple[str, Any]]:
    pairs = sorted(values.items())
    rng.shuffle(pairs)
    return pairs


@cache
def asking() -> Template:
    """A capability with a parameter of every type, loaded as any other."""
    types = {**_TYPES, _TAG: {"type": "STRING"}}
    parameters = tuple(
        Parameter.model_validate({"name": name, "description": name, **declared}) for name, declared in types.items()
    )
    return load_template(
        _ASKING,
        name="templates/asking.sql",
        dataset=DATASET,
        tables=TABLES,
        parameters=parameters,
        results=results("id:INT64"),
        ceiling=Sensitivity.RESTRICTED,
    )


@cache
def _digest(text: str, group: tuple[int, int | None] | None) -> str:
    """The digest of a loaded template under its rule of groups: how the least size of a group reaches a key."""
    rule = None
    if group is not None:
        rule = GroupRule(subject="orders.customer", size=group[0], round_counts_to=group[1])
    return load_template(
        _TEXTS[text],
        name="templates/counting.sql",
        dataset=DATASET,
        tables=TABLES,
        parameters=(),
        results=results("region:STRING n:INT64"),
        ceiling=Sensitivity.RESTRICTED,
        minimum_group=rule,
    ).digest
