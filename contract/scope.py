"""What may be done: sensitivity, row constraints, obligations, and the scope of a grant.

The constraint vocabulary is closed: ``one_of``, ``not_one_of``, ``max``, ``min``,
``prefix``. Row constraints and masks are keyed by ``table.column`` and hold at every
base table of that name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

ConstraintValue = str | int

CONSTRAINT_KINDS: Final = ("one_of", "not_one_of", "max", "min", "prefix")
MAX_SET_SIZE: Final = 1_000
MAX_STALE_S: Final = 86_400 * 7
"""For how long past its time a stored result may be answered at most, in seconds."""
_DECIMAL: Final = re.compile(r"-?[0-9]{1,38}(\.[0-9]{1,38})?")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIMESTAMP: Final = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]\.[0-9]{6}Z")
_COLUMN: Final = re.compile(r"[^.\s\x00-\x1f\x7f-\x9f]+\.[^.\s\x00-\x1f\x7f-\x9f]+")
MAX_COLUMN: Final = 256


class ScopeError(ValueError):
    """A scope that is not well formed, or that would widen; the message names the member."""


class Sensitivity(StrEnum):
    PUBLIC = "public"
    INTERNAL = "internal"
    CONFIDENTIAL = "confidential"
    RESTRICTED = "restricted"

    @property
    def rank(self) -> int:
        """0 for PUBLIC to 3 for RESTRICTED."""
        return _RANKS[self]

    def within(self, ceiling: Sensitivity) -> bool:
        """Whether who is cleared up to ``ceiling`` may see it."""
        return _RANKS[self] <= _RANKS[ceiling]


_RANKS: Final = {level: rank for rank, level in enumerate(Sensitivity)}


class Mask(StrEnum):
    """How a column is shown: a typed NULL, a keyed hash of equal type, or a shortened value."""

    NULL = "null"
    HASH = "hash"
    TRUNCATE = "truncate"


_MASK_STRENGTH: Final = {Mask.TRUNCATE: 0, Mask.HASH: 1, Mask.NULL: 2}


@dataclass(frozen=True, slots=True)
class Constraint:
    """A conjunction of restrictions on one column; ``None`` means unrestricted.

    Values are text or integers of the column's own type (dates and decimals as text).
    Bounds order as numbers or as time, never as text. A NULL never satisfies a constraint.
    """

    one_of: frozenset[ConstraintValue] | None = None
    not_one_of: frozenset[ConstraintValue] | None = None
    max: ConstraintValue | None = None
    min: ConstraintValue | None = None
    prefix: str | None = None

    def __post_init__(self) -> None:
        if all(getattr(self, kind) is None for kind in CONSTRAINT_KINDS):
            raise ScopeError("a constraint must restrict something")

    @classmethod
    def parse(cls, raw: Any) -> Constraint:
        """From JSON; an unknown kind, an empty object or a wrong type raises ``ScopeError``."""
        if not isinstance(raw, dict) or not raw:
            raise ScopeError("a constraint is a non-empty object")
        unknown = sorted(set(raw) - set(CONSTRAINT_KINDS))
        if unknown:
            raise ScopeError(f"unknown constraint {str(unknown[0])[:40]!r}")
        sets = {kind: _value_set(kind, raw[kind]) for kind in ("one_of", "not_one_of") if kind in raw}
        bounds = {kind: _value(kind, raw[kind]) for kind in ("max", "min") if kind in raw}
        for bound in bounds.values():
            _order_key(bound)
        prefix = raw.get("prefix")
        if "prefix" in raw and not (isinstance(prefix, str) and prefix):
            raise ScopeError("prefix must be non-empty text")
        return cls(**sets, **bounds, prefix=prefix)  # type: ignore[arg-type]

    def to_json(self) -> dict[str, Any]:
        """JSON with sets sorted (integers before text), so that equal constraints are equal bytes."""
        out: dict[str, Any] = {}
        for kind in CONSTRAINT_KINDS:
            value = getattr(self, kind)
            if value is not None:
                out[kind] = _ordered(value) if isinstance(value, frozenset) else value
        return out

    def meet(self, other: Constraint) -> Constraint:
        """The conjunction of two constraints.

        Raises ``ScopeError`` where one cannot be written in the vocabulary (two prefixes
        neither of which extends the other, bounds of different types).
        """
        both = [c.one_of for c in (self, other) if c.one_of is not None]
        one_of = frozenset.intersection(*both) if both else None
        excluded = [c.not_one_of for c in (self, other) if c.not_one_of is not None]
        return Constraint(
            one_of=one_of,
            not_one_of=frozenset.union(*excluded) if excluded else None,
            max=_tighter(self.max, other.max, smaller=True),
            min=_tighter(self.min, other.min, smaller=False),
            prefix=_longer(self.prefix, other.prefix),
        )

    def covers(self, child: Constraint) -> bool:
        """Whether ``child`` is at least as narrow in every member (structurally, never guessed)."""
        if self.one_of is not None and (child.one_of is None or not child.one_of <= self.one_of):
            return False
        if self.not_one_of is not None and (child.not_one_of is None or not self.not_one_of <= child.not_one_of):
            return False
        if self.max is not None and not (child.max is not None and _at_most(child.max, self.max)):
            return False
        if self.min is not None and not (child.min is not None and _at_most(self.min, child.min)):
            return False
        return self.prefix is None or (child.prefix is not None and child.prefix.startswith(self.prefix))


RowConstraints = Mapping[str, Constraint]


@dataclass(frozen=True, slots=True)
class Obligations:
    """What a granting policy demands: row constraints, permitted columns, masks.

    ``columns`` is ``None`` where every column is permitted; names are ``table.column``. For
    ``stale_s`` seconds past its time a stored result may be answered while it is refreshed;
    who permits it says so, hence 0.
    """

    rows: RowConstraints = field(default_factory=lambda: MappingProxyType({}))
    columns: frozenset[str] | None = None
    masks: Mapping[str, Mask] = field(default_factory=lambda: MappingProxyType({}))
    stale_s: int = 0

    def meet(self, other: Obligations) -> Obligations:
        """Both at once: constraints conjoin, columns intersect, the stronger mask and the shorter time win."""
        masks = dict(self.masks)
        for column, mask in other.masks.items():
            held = masks.get(column)
            masks[column] = mask if held is None or _MASK_STRENGTH[mask] > _MASK_STRENGTH[held] else held
        return Obligations(
            rows=meet_rows(self.rows, other.rows),
            columns=meet_columns(self.columns, other.columns),
            masks=MappingProxyType(masks),
            stale_s=min(self.stale_s, other.stale_s),
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "rows": rows_to_json(self.rows),
            "columns": None if self.columns is None else sorted(self.columns),
            "masks": {column: mask.value for column, mask in sorted(self.masks.items())},
        } | ({"stale_s": self.stale_s} if self.stale_s else {})


@dataclass(frozen=True, slots=True)
class Scope:
    """One entry of a grant's ``authorization_details``: a dataset and what may be done with it.

    ``locations`` are the ids of agents that may serve it. ``columns`` is ``None`` for all.
    """

    dataset: str
    dataset_version: str
    revision: str
    actions: frozenset[str]
    locations: frozenset[str]
    max_sensitivity: Sensitivity
    columns: frozenset[str] | None = None
    constraints: RowConstraints = field(default_factory=lambda: MappingProxyType({}))

    def widening(self, child: Scope) -> str | None:
        """The first member in which ``child`` is wider than this scope, or ``None``.

        Dataset, version and revision must be equal; sets only shrink; a constraint is
        never dropped; sensitivity never rises.
        """
        if child.dataset != self.dataset:
            return "identifier"
        if child.dataset_version != self.dataset_version:
            return "dataset_version"
        if child.revision != self.revision:
            return "revision"
        if not child.actions <= self.actions:
            return "actions"
        if not child.locations <= self.locations:
            return "locations"
        if not child.max_sensitivity.within(self.max_sensitivity):
            return "max_sensitivity"
        if self.columns is not None and (child.columns is None or not child.columns <= self.columns):
            return "columns"
        for column, constraint in self.constraints.items():
            narrowed = child.constraints.get(column)
            if narrowed is None or not constraint.covers(narrowed):
                return "constraints"
        return None


def widening(above: Sequence[Scope], below: Sequence[Scope]) -> str | None:
    """The first member in which scopes derived from ``above`` are wider, or ``None``.

    Each has at most one scope a dataset. A dataset may be dropped and never added; the last
    one is not dropped, because a grant of none asks what may be asked, whatever it is.
    """
    if above and not below:
        return "authorization_details"
    held = {scope.dataset: scope for scope in above}
    for scope in below:
        parent = held.get(scope.dataset)
        if parent is scope:
            continue
        try:
            member = "identifier" if parent is None else parent.widening(scope)
        except ScopeError:  # bounds that cannot be compared
            return "constraints"
        if member is not None:
            return member
    return None


def meet_rows(left: RowConstraints, right: RowConstraints) -> RowConstraints:
    """The conjunction of two sets of row constraints."""
    rows = dict(left)
    for column, constraint in right.items():
        rows[column] = rows[column].meet(constraint) if column in rows else constraint
    return MappingProxyType(rows)


def meet_columns(left: frozenset[str] | None, right: frozenset[str] | None) -> frozenset[str] | None:
    """The intersection of two column lists, where ``None`` means every column."""
    if left is None or right is None:
        return right if left is None else left
    return left & right


def rows_to_json(rows: RowConstraints) -> dict[str, Any]:
    """The inverse of ``parse_rows``, in the order of the columns."""
    return {column: constraint.to_json() for column, constraint in sorted(rows.items())}


def parse_rows(raw: Any) -> RowConstraints:
    """Row constraints from JSON, keyed ``table.column``. Raises ``ScopeError``."""
    if not isinstance(raw, dict):
        raise ScopeError("constraints must be an object")
    for column in raw:
        if len(column) > MAX_COLUMN or not _COLUMN.fullmatch(column):
            raise ScopeError(f"{column[:80]!r} is not table.column")
    return MappingProxyType({column: Constraint.parse(value) for column, value in raw.items()})


def _value(kind: str, raw: Any) -> ConstraintValue:
    if isinstance(raw, bool) or not isinstance(raw, (str, int)):
        raise ScopeError(f"{kind} must hold text or integers")
    if isinstance(raw, int) and abs(raw) > 2**53 - 1:
        raise ScopeError(f"{kind} holds an integer beyond 2**53-1")
    return raw


def _value_set(kind: str, raw: Any) -> frozenset[ConstraintValue]:
    if not isinstance(raw, list) or len(raw) > MAX_SET_SIZE:
        raise ScopeError(f"{kind} must be a list of at most {MAX_SET_SIZE}")
    return frozenset(_value(kind, item) for item in raw)


def _ordered(values: frozenset[ConstraintValue]) -> list[ConstraintValue]:
    return sorted(values, key=lambda value: (isinstance(value, str), value))


def _order_key(value: ConstraintValue) -> tuple[str, Decimal | str]:
    """The kind of a bound and its order within the kind.

    Integers and decimal text order as numbers, dates and UTC timestamps as time. Other
    text has no order an engine and this module would agree on, so it is no bound.
    """
    if isinstance(value, int) or _DECIMAL.fullmatch(value):
        return "number", Decimal(value)
    if _DATE.fullmatch(value) and _is_day(value):
        return "date", value
    moment = _TIMESTAMP.fullmatch(value)
    if moment and _is_day(moment[1]):
        return "timestamp", value
    raise ScopeError("a bound is an integer, a decimal, an ISO date or a UTC timestamp with microseconds")


def _is_day(text: str) -> bool:
    """Whether the calendar has it: engines refuse, or move, what it has not."""
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _at_most(left: ConstraintValue, right: ConstraintValue) -> bool:
    """Whether two bounds are of one kind and ``left <= right``."""
    (left_kind, left_key), (right_kind, right_key) = _order_key(left), _order_key(right)
    return left_kind == right_kind and left_key <= right_key  # type: ignore[operator]


def _tighter(left: ConstraintValue | None, right: ConstraintValue | None, *, smaller: bool) -> ConstraintValue | None:
    if left is None or right is None:
        return right if left is None else left
    if _order_key(left)[0] != _order_key(right)[0]:
        raise ScopeError("bounds of different types cannot be combined")
    return left if _at_most(left, right) == smaller else right


def _longer(left: str | None, right: str | None) -> str | None:
    if left is None or right is None:
        return right if left is None else left
    if left.startswith(right):
        return left
    if right.startswith(left):
        return right
    raise ScopeError("two prefixes exclude one another")
