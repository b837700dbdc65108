"""The annotations of a Cedar policy that oblige: ``@rows``, ``@columns``, ``@mask``; and ``@stale``, which allows.

Their text is JSON in the grant's constraint vocabulary. A value in ``@rows`` may be
``{"principal": "attribute"}``: it is bound from the principal at every evaluation. ``@stale``
is a number of seconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from contract.canonical import InvalidJson, parse_json
from contract.ids import is_slug
from contract.principal import Principal
from contract.scope import MAX_STALE_S, Mask, Obligations, RowConstraints, ScopeError, parse_rows

MAX_ANNOTATION_BYTES: Final = 64 * 1024
SET_KINDS: Final = ("one_of", "not_one_of")
_REFERENCE: Final = "principal"
_OBLIGATION_MEMBERS: Final = frozenset({"rows", "columns", "masks"})
_STALE: Final = "stale_s"
_SECONDS: Final = re.compile(r"[1-9][0-9]{0,5}")


class MissingAttribute(LookupError):
    """The principal lacks an attribute that an obligation binds."""


@dataclass(frozen=True, slots=True)
class ObligationTemplate:
    """Obligations as a policy states them. ``fixed`` holds where nothing is bound per principal."""

    raw_rows: Mapping[str, Mapping[str, Any]]
    fixed: Obligations | None
    columns: frozenset[str] | None
    masks: Mapping[str, Mask]
    stale_s: int = 0

    def mentioned(self) -> frozenset[str]:
        """Every ``table.column`` the annotations name."""
        return frozenset(self.raw_rows) | frozenset(self.masks) | (self.columns or frozenset())

    def references(self) -> Iterator[tuple[str, str]]:
        """Each attribute of the principal that is bound, and the kind of constraint it is bound to."""
        for constraint in self.raw_rows.values():
            for kind, value in constraint.items():
                if _is_reference(value):
                    yield str(value[_REFERENCE]), kind

    def bind(self, principal: Principal) -> Obligations:
        """The obligations for one principal. Raises ``MissingAttribute`` or ``ScopeError``."""
        if self.fixed is not None:
            return self.fixed
        rows = {
            column: {kind: _bound(kind, value, principal) for kind, value in constraint.items()}
            for column, constraint in self.raw_rows.items()
        }
        return Obligations(rows=parse_rows(rows), columns=self.columns, masks=self.masks, stale_s=self.stale_s)


def parse_annotations(annotations: Mapping[str, Any]) -> ObligationTemplate:
    """From a policy's annotations. Raises ``ScopeError`` naming the annotation."""
    raw_rows = _json(annotations, "rows", dict) or {}
    columns = _columns(_json(annotations, "columns", list))
    masks = _masks(_json(annotations, "mask", dict) or {})
    stale_s = _seconds(annotations["stale"]) if "stale" in annotations else 0
    bound = any(_is_reference(value) for item in raw_rows.values() if isinstance(item, dict) for value in item.values())
    checked = _checked_rows(raw_rows)
    fixed = None if bound else Obligations(rows=checked, columns=columns, masks=masks, stale_s=stale_s)
    return ObligationTemplate(MappingProxyType(raw_rows), fixed, columns, masks, stale_s)


def parse_obligations(raw: Any) -> Obligations:
    """From the JSON of ``Obligations.to_json``; an unknown member is refused, never ignored.

    Raises ``ScopeError``.
    """
    if not isinstance(raw, dict) or set(raw) - {_STALE} != _OBLIGATION_MEMBERS:
        raise ScopeError("obligations have exactly the members rows, columns and masks, and perhaps stale_s")
    columns = raw["columns"]
    if columns is not None and not isinstance(columns, list):
        raise ScopeError("columns must be a list or null")
    masks = raw["masks"]
    if not isinstance(masks, dict):
        raise ScopeError("masks must be an object")
    stale_s = raw.get(_STALE, 0)
    if type(stale_s) is not int or not 0 <= stale_s <= MAX_STALE_S:
        raise ScopeError(f"stale_s must be a number of seconds, {MAX_STALE_S} at most")
    rows = parse_rows(raw["rows"])
    for column in rows:
        _column(column, "rows")
    return Obligations(rows=rows, columns=_columns(columns), masks=_masks(masks), stale_s=stale_s)


def _checked_rows(raw_rows: Mapping[str, Any]) -> RowConstraints:
    """The rows with a stand-in for every reference, so that a bad kind is found at load."""
    rows: dict[str, Any] = {}
    for column, constraint in raw_rows.items():
        _column(column, "rows")
        if not isinstance(constraint, dict):
            raise ScopeError(f"@rows: {column} needs a constraint object")
        rows[column] = {kind: _stand_in(kind, value) for kind, value in constraint.items()}
    return parse_rows(rows)


def _stand_in(kind: str, value: Any) -> Any:
    if not _is_reference(value):
        return value
    if set(value) != {_REFERENCE} or not isinstance(value[_REFERENCE], str) or not is_slug(value[_REFERENCE]):
        raise ScopeError('@rows: a bound value is exactly {"principal": "attribute"}')
    if kind in SET_KINDS:
        return ["x"]
    return "x" if kind == "prefix" else 0


def _bound(kind: str, value: Any, principal: Principal) -> Any:
    if not _is_reference(value):
        return value
    name = value[_REFERENCE]
    if name not in principal.attributes:
        raise MissingAttribute(name)
    held = principal.attributes[name]
    if kind in SET_KINDS:
        return list(held) if isinstance(held, tuple) else [held]
    return held


def _is_reference(value: Any) -> bool:
    return isinstance(value, dict)


def _json(annotations: Mapping[str, Any], name: str, kind: type) -> Any:
    if name not in annotations:
        return None
    try:
        value = parse_json((annotations[name] or "").encode(), limit=MAX_ANNOTATION_BYTES)
    except InvalidJson as error:
        raise ScopeError(f"@{name}: {error}") from error
    if not isinstance(value, kind):
        raise ScopeError(f"@{name} must be a JSON {'object' if kind is dict else 'list'}")
    return value


def _seconds(text: str | None) -> int:
    if text is None or not _SECONDS.fullmatch(text) or int(text) > MAX_STALE_S:
        raise ScopeError(f'@stale must be a number of seconds such as "60", {MAX_STALE_S} at most')
    return int(text)


def _columns(raw: list[Any] | None) -> frozenset[str] | None:
    if raw is None:
        return None
    columns = [_column(item, "columns") for item in raw]
    if len(set(columns)) != len(columns):
        raise ScopeError("columns: a column stands twice")
    return frozenset(columns)


def _masks(raw: dict[str, Any]) -> Mapping[str, Mask]:
    try:
        return MappingProxyType({_column(column, "mask"): Mask(kind) for column, kind in raw.items()})
    except ValueError as error:
        raise error if isinstance(error, ScopeError) else ScopeError(f"mask: {error}") from error


def _column(value: Any, member: str) -> str:
    parts = value.split(".") if isinstance(value, str) else []
    if len(parts) != 2 or not all(is_slug(part) for part in parts):
        raise ScopeError(f"{member}: {str(value)[:80]!r} is not table.column")
    return str(value)
