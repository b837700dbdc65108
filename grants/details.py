"""RFC 9396 ``authorization_details``: one closed type, one entry a dataset, and the scope that each is.

The constraint vocabulary is closed too (``contract.scope``); what is not understood is not permitted.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Annotated, Any, Final

import orjson
from pydantic import AfterValidator, Field, ValidatorFunctionWrapHandler, WrapValidator

from contract.ids import MAX_ID_BYTES, Slug, Version
from contract.schema import Strict
from contract.scope import Scope, ScopeError, Sensitivity, parse_rows, rows_to_json
from grants.memory import Bounded

DETAIL_TYPE: Final = "dataset-access:v1"
MAX_DETAILS: Final = 8
MAX_REMEMBERED_BYTES: Final = 1_024
MAX_NOTE: Final = 256
"""Characters of a note."""

_PRINTABLE = r"^[^\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+$"
Identifier = Annotated[str, Field(strict=True, max_length=MAX_ID_BYTES, pattern=_PRINTABLE)]
Note = Annotated[str, Field(strict=True, max_length=MAX_NOTE, pattern=_PRINTABLE)]
ColumnName = Annotated[str, Field(max_length=256, pattern=r"^[^.\s\p{Cc}]+\.[^.\s\p{Cc}]+$")]

_entries: Final = Bounded[bytes, "tuple[Detail, ...]"](256)


class UnknownConstraint(ScopeError):
    """An authorization this profile does not know; what is not understood is not permitted."""


def _unique(values: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(values)) != len(values):
        raise ValueError("names something twice")
    return values


class Detail(Strict):
    """An entry of RFC 9396 ``authorization_details``; ``columns`` absent means every column.

    Lists are read to their first fault: what a sender fills them with is worth no more.
    """

    type: Note
    locations: Annotated[
        tuple[Identifier, ...],
        Field(fail_fast=True, min_length=1, max_length=16, strict=False),
        AfterValidator(_unique),
    ]
    identifier: Slug
    dataset_version: Version
    revision: Identifier
    actions: Annotated[
        tuple[Slug, ...], Field(fail_fast=True, min_length=1, max_length=64, strict=False), AfterValidator(_unique)
    ]
    max_sensitivity: Annotated[Sensitivity, Field(strict=False)]
    columns: (
        Annotated[
            tuple[ColumnName, ...], Field(fail_fast=True, max_length=1_000, strict=False), AfterValidator(_unique)
        ]
        | None
    ) = None
    constraints: dict[str, Any] = Field(default_factory=dict, max_length=100)

    @cached_property
    def scope(self) -> Scope:
        """Raises ``UnknownConstraint`` for a type or a constraint outside the vocabulary."""
        if self.type != DETAIL_TYPE:
            raise UnknownConstraint("the grant holds an unknown type of authorization")
        try:
            constraints = parse_rows(self.constraints)
        except ScopeError as error:
            raise UnknownConstraint("the grant holds a constraint outside the vocabulary") from error
        return Scope(
            dataset=self.identifier,
            dataset_version=self.dataset_version,
            revision=self.revision,
            actions=frozenset(self.actions),
            locations=frozenset(self.locations),
            max_sensitivity=self.max_sensitivity,
            columns=None if self.columns is None else frozenset(self.columns),
            constraints=constraints,
        )


def _one_a_dataset(details: tuple[Detail, ...]) -> tuple[Detail, ...]:
    if len({detail.identifier for detail in details}) != len(details):
        raise ValueError("names a dataset twice")
    return details


def _read_once(entries: Any, read: ValidatorFunctionWrapHandler) -> Any:
    """Entries that are written alike are read once; they are values, and grant nothing by themselves."""
    try:
        written = orjson.dumps(entries)
    except orjson.JSONEncodeError:  # an integer beyond 64 bits: whatever it is for, it is read
        return read(entries)
    known = _entries.get(written)
    if known is None:
        known = read(entries)
        if len(written) <= MAX_REMEMBERED_BYTES:
            _entries.keep(written, known)
    return known


Details = Annotated[
    tuple[Detail, ...],
    Field(fail_fast=True, max_length=MAX_DETAILS, strict=False),
    AfterValidator(_one_a_dataset),
    WrapValidator(_read_once),
]


def details_of(scopes: Iterable[Scope]) -> list[dict[str, Any]]:
    """``authorization_details`` of scopes, in the order of their datasets."""
    return [_detail_of(scope) for scope in sorted(scopes, key=lambda scope: scope.dataset)]


def _detail_of(scope: Scope) -> dict[str, Any]:
    detail: dict[str, Any] = {
        "type": DETAIL_TYPE,
        "locations": sorted(scope.locations),
        "identifier": scope.dataset,
        "dataset_version": scope.dataset_version,
        "revision": scope.revision,
        "actions": sorted(scope.actions),
        "max_sensitivity": scope.max_sensitivity.value,
    }
    if scope.columns is not None:
        detail["columns"] = sorted(scope.columns)
    if scope.constraints:
        detail["constraints"] = rows_to_json(scope.constraints)
    return detail
