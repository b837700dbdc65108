"""Typed tables, parameters and result columns, in GoogleSQL's type names."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from contract.ids import Slug
from contract.pattern import check_pattern
from contract.scope import Mask, Sensitivity


class Strict(BaseModel):
    """Frozen, closed, no coercion: the base of every model that reads a file or the wire."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class SqlType(StrEnum):
    """Scalar GoogleSQL types that have one meaning on every engine."""

    STRING = "STRING"
    INT64 = "INT64"
    FLOAT64 = "FLOAT64"
    NUMERIC = "NUMERIC"
    BOOL = "BOOL"
    DATE = "DATE"
    DATETIME = "DATETIME"
    TIME = "TIME"
    TIMESTAMP = "TIMESTAMP"
    BYTES = "BYTES"


class Mode(StrEnum):
    """BigQuery's column modes."""

    NULLABLE = "NULLABLE"
    REQUIRED = "REQUIRED"
    REPEATED = "REPEATED"


class Case(StrEnum):
    """How the case of a text argument is treated before it is compared, bound and keyed."""

    KEEP = "keep"
    UPPER = "upper"
    LOWER = "lower"


_Type = Annotated[SqlType, Field(strict=False)]
_Mode = Annotated[Mode, Field(strict=False)]
_Sensitivity = Annotated[Sensitivity, Field(strict=False)]
_Mask = Annotated[Mask, Field(strict=False)]
_Case = Annotated[Case, Field(strict=False)]
Text = Annotated[str, Field(min_length=1, max_length=2_000)]


class Column(Strict):
    """A column of a base table.

    ``attribute`` names what rows may be narrowed by (a site, a tenant): a holder may constrain
    such a column although a capability does not show it, and a row constraint on one column
    must stand on each of the same attribute that a capability reads.
    """

    name: Slug
    type: _Type
    mode: _Mode = Mode.NULLABLE
    sensitivity: _Sensitivity = Sensitivity.INTERNAL
    attribute: Slug | None = None
    description: str = ""


class Table(Strict):
    """A base table; ``file`` is relative to the dataset's folder."""

    name: Slug
    file: Text
    columns: tuple[Column, ...] = Field(min_length=1, strict=False)
    description: str = ""

    @model_validator(mode="after")
    def _unique_columns(self) -> Self:
        names = [column.name for column in self.columns]
        if len(set(names)) != len(names):
            raise ValueError(f"table {self.name} names a column twice")
        return self

    def column(self, name: str) -> Column | None:
        return next((column for column in self.columns if column.name == name), None)


class Parameter(Strict):
    """A typed parameter of a capability.

    ``pattern`` is a regular expression (``contract.pattern`` says which) the whole text must
    match; the interpreter also uses it to find the argument in a question. ``values`` closes
    the domain; ``synonyms`` maps a value to other words for it. ``minimum`` and ``maximum`` are inclusive, as
    numbers or ISO text. ``repeated`` makes it an ARRAY whose order and duplicates carry
    no meaning. A parameter with neither ``default`` nor ``nullable`` is required.
    """

    name: Slug
    type: _Type
    description: Text
    repeated: bool = False
    nullable: bool = False
    default: Any = None
    values: tuple[str, ...] = Field(default=(), strict=False)
    synonyms: dict[str, Annotated[tuple[str, ...], Field(strict=False)]] = Field(default_factory=dict, strict=False)
    pattern: str | None = None
    minimum: int | float | str | None = None
    maximum: int | float | str | None = None
    max_length: int = Field(default=256, ge=1, le=4_096)
    max_items: int = Field(default=100, ge=1, le=1_000)
    case: _Case = Case.KEEP
    unit: str | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.pattern is not None:
            try:
                check_pattern(self.pattern)
            except ValueError as error:
                raise ValueError(f"parameter {self.name}: pattern: {error}") from error
        if (self.pattern is not None or self.values) and self.type is not SqlType.STRING:
            raise ValueError(f"parameter {self.name}: pattern and values are for STRING")
        if set(self.synonyms) - set(self.values):
            raise ValueError(f"parameter {self.name}: synonyms name a value that is not in values")
        if self.name.startswith("__"):
            raise ValueError(f"parameter {self.name}: names starting '__' are reserved")
        return self

    @property
    def required(self) -> bool:
        return self.default is None and not self.nullable


class ResultColumn(Strict):
    """A column of a capability's result, in order."""

    name: Slug
    type: _Type
    mode: _Mode = Mode.NULLABLE
    description: str = ""
    unit: str | None = None
