"""The conditions of a Cedar policy, clause by clause, in its JSON form: what each says, and with what it compares."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import cedarpy

Node = Mapping[str, Any]

_INFIX: Final = frozenset({"==", "!=", "<", "<=", ">", ">=", "&&", "||", "+", "-", "*", "in"})
_METHODS: Final = frozenset({"contains", "containsAll", "containsAny"})
_UNSPLIT: Final = frozenset({"&&", "||"})


@dataclass(frozen=True, slots=True)
class Clause:
    """One condition that must hold, as Cedar text. ``condition`` is its JSON form, alone."""

    text: str
    condition: Mapping[str, Any]


def clauses(document: Mapping[str, Any]) -> tuple[Clause, ...]:
    """What must hold beside the scope: every ``&&`` of a ``when`` by itself, every ``unless`` as a whole."""
    found: list[Clause] = []
    for condition in document["conditions"]:
        if condition["kind"] == "when":
            found += [Clause(text_of(node), {"kind": "when", "body": node}) for node in _conjuncts(condition["body"])]
        else:
            found.append(Clause(f"unless {text_of(condition['body'])}", condition))
    return tuple(found)


def literals(document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Each value that a condition compares a fact of the principal with: ``("attributes.level", 3)``.

    Values of sets come one by one. What is computed, or compared with another fact, is not there.
    """
    for condition in document["conditions"]:
        yield from _compared(condition["body"])


def text_of(node: Any) -> str:
    """A condition as Cedar text, without the parentheses that Cedar's own printer puts around everything."""
    (name, held), *_ = node.items()
    if name == "Var":
        return str(held)
    if name == "Value":
        return _value(held)
    if name == "Set":
        return f"[{', '.join(text_of(item) for item in held)}]"
    if name == ".":
        return f"{_tight(held['left'])}.{held['attr']}"
    if name == "has":
        return f"{_tight(held['left'])} has {held['attr']}"
    if name == "!":
        return f"!{_tight(held['arg'])}"
    if name in _METHODS:
        return f"{_tight(held['left'])}.{name}({text_of(held['right'])})"
    if name in _INFIX:
        return f"{_tight(held['left'], beside=name)} {name} {_tight(held['right'], beside=name)}"
    return _printed(node)


def _tight(node: Any, *, beside: str = "") -> str:
    """In parentheses where what stands beside it could bind tighter."""
    name = next(iter(node))
    text = text_of(node)
    is_plain = name in {"Var", "Value", "Set", "."} | _METHODS or (name == beside and name in _UNSPLIT)
    return text if is_plain else f"({text})"


def _value(held: Any) -> str:
    if isinstance(held, Mapping) and "__entity" in held:
        return f"{held['__entity']['type']}::{json.dumps(held['__entity']['id'], ensure_ascii=False)}"
    return json.dumps(held, ensure_ascii=False)


def _printed(node: Any) -> str:
    """By Cedar's printer: what is rare here (``like``, ``if``, records, extension functions)."""
    scope = {"op": "All"}
    body = {"effect": "permit", "principal": scope, "action": scope, "resource": scope}
    policy = body | {"conditions": [{"kind": "when", "body": node}]}
    parsed = {"templates": {}, "staticPolicies": {"p": policy}, "templateLinks": []}
    text = cedarpy.policies_from_json_str(json.dumps(parsed))
    return " ".join(text.partition(" when {")[2].rpartition("}")[0].split())


def _conjuncts(node: Node) -> Iterator[Node]:
    if "&&" in node:
        yield from _conjuncts(node["&&"]["left"])
        yield from _conjuncts(node["&&"]["right"])
    else:
        yield node


def _compared(node: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(node, list):
        for item in node:
            yield from _compared(item)
    elif isinstance(node, dict):
        for held in node.values():
            if isinstance(held, dict) and "left" in held and "right" in held:
                for one, other in (("left", "right"), ("right", "left")):
                    if (fact := _fact(held[one])) is not None:
                        yield from ((fact, value) for value in _values(held[other]))
            yield from _compared(held)


def _fact(node: Any) -> str | None:
    """``principal.x`` or ``principal.attributes.x``, without ``principal.``."""
    path: list[str] = []
    while isinstance(node, dict) and isinstance(node.get("."), dict):
        path.insert(0, str(node["."]["attr"]))
        node = node["."]["left"]
    return ".".join(path) if node == {"Var": "principal"} and path else None


def _values(node: Any) -> Iterator[Any]:
    if not isinstance(node, dict):
        return
    if isinstance(node.get("Set"), list):
        for item in node["Set"]:
            yield from _values(item)
    elif isinstance(node.get("Value"), (str, int)):
        yield node["Value"]
