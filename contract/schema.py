"""Typed tables, parameters and result columns, in GoogleSQL's type names."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, model_serializer, model_validator

from contract.ids import Slug
from contract.pattern import check_pattern
from contract.scope import Mask, Sensitivity


class Strict(BaseModel):
    """Frozen, closed, no coercion: the base of every model that reads a file or the wire."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class SqlType(StrEnum):
    """GoogleSQL types that have one meaning on every engine: scalars, and ``STRUCT`` with named fields.

    An ARRAY is no type here: as in a BigQuery schema it is the mode REPEATED.
    """

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
    STRUCT = "STRUCT"


PERIOD_TYPES: Final = frozenset({SqlType.DATE, SqlType.DATETIME, SqlType.TIMESTAMP})


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


MAX_STRUCT_DEPTH: Final = 5


class Typed(Strict):
    """A name and a GoogleSQL type; ``fields`` are there exactly where the type is STRUCT, at most five deep."""

    name: Slug
    type: _Type
    fields: tuple[StructField, ...] = Field(default=(), strict=False)

    @model_validator(mode="after")
    def _fields_of_struct(self) -> Self:
        if (self.type is SqlType.STRUCT) != bool(self.fields):
            raise ValueError(f"{self.name}: fields and the type STRUCT go together")
        names = [field.name.lower() for field in self.fields]
        if len(set(names)) != len(names):
            raise ValueError(f"{self.name} names a field twice")
        if self.depth > MAX_STRUCT_DEPTH:
            raise ValueError(f"{self.name} is nested more than {MAX_STRUCT_DEPTH} deep")
        return self

    @property
    def depth(self) -> int:
        """How many STRUCTs lie in one another: 0 for a scalar."""
        return 1 + max(field.depth for field in self.fields) if self.fields else 0


class StructField(Typed):
    """A field of a STRUCT. REQUIRED is no mode of a field: no engine keeps it in a query's result."""

    mode: _Mode = Mode.NULLABLE
    description: str = ""

    @model_validator(mode="after")
    def _not_required(self) -> Self:
        if self.mode is Mode.REQUIRED:
            raise ValueError(f"the field {self.name} is NULLABLE or REPEATED")
        return self


class Column(Typed):
    """A column of a base table.

    ``attribute`` names what rows may be narrowed by (a site, a tenant): a holder may constrain
    such a column although a capability does not show it, and a row constraint on one column
    must stand on each of the same attribute that a capability reads.
    """

    mode: _Mode = Mode.NULLABLE
    sensitivity: _Sensitivity = Sensitivity.INTERNAL
    attribute: Slug | None = None
    description: str = ""


_BigQueryTable = Annotated[
    str, Field(max_length=1_100, pattern=r"^[a-z][a-z0-9:.-]{4,61}[a-z0-9]\.[A-Za-z0-9_]{1,300}\.[A-Za-z0-9_-]{1,300}$")
]


class Table(Strict):
    """A base table: a ``file`` relative to the dataset's folder, or a table of BigQuery.

    ``file`` is Parquet (``.parquet``), CSV with a header (``.csv``) or a DuckDB database
    (``.duckdb``), in which ``relation`` names the table (default: the table's own name).
    ``bigquery`` is ``project.dataset.table``.
    """

    name: Slug
    file: Text | None = None
    relation: Text | None = None
    bigquery: _BigQueryTable | None = None
    columns: tuple[Column, ...] = Field(min_length=1, strict=False)
    description: str = ""

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.file is None) == (self.bigquery is None):
            raise ValueError(f"table {self.name} has either a file or a bigquery table")
        if self.relation is not None and not (self.file or "").endswith(".duckdb"):
            raise ValueError(f"table {self.name}: relation names a table inside a .duckdb file")
        return self

    @model_validator(mode="after")
    def _unique_columns(self) -> Self:
        names = [column.name for column in self.columns]
        if len(set(names)) != len(names):
            raise ValueError(f"table {self.name} names a column twice")
        return self

    @property
    def source(self) -> str:
        """What messages call the place its rows come from."""
        return self.file or self.bigquery or self.name

    def column(self, name: str) -> Column | None:
        return next((column for column in self.columns if column.name == name), None)


class Parameter(Typed):
    """A typed parameter of a capability.

    ``pattern`` is a regular expression (``contract.pattern`` says which) the whole text must
    match; the interpreter also uses it to find the argument in a question. ``values`` closes
    the domain; ``synonyms`` maps a value to other words for it. ``minimum`` and ``maximum`` are inclusive, as
    numbers or ISO text. ``repeated`` makes it an ARRAY whose order and duplicates carry
    no meaning; with ``ordered`` they do, as they always do in an ARRAY of STRUCT and in a field.
    ``wildcards`` makes a STRING a pattern of LIKE, in which ``%`` and ``_`` stand for any text.
    Of a STRUCT, ``max_length`` bounds each text and ``max_items`` each list. A parameter with neither ``default`` nor
    ``nullable`` is required.
    """

    description: Text
    repeated: bool = False
    ordered: bool = False
    wildcards: bool = False
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
        if self.ordered and not self.repeated:
            raise ValueError(f"parameter {self.name}: ordered is for a repeated parameter")
        if self.wildcards and (self.type is not SqlType.STRING or self.repeated):
            raise ValueError(f"parameter {self.name}: wildcards is for one STRING")
        if set(self.synonyms) - set(self.values):
            raise ValueError(f"parameter {self.name}: synonyms name a value that is not in values")
        if self.name.startswith("__"):
            raise ValueError(f"parameter {self.name}: names starting '__' are reserved")
        return self

    @property
    def required(self) -> bool:
        return self.default is None and not self.nullable


class Period(Strict):
    """A half-open range of time, by the parameters that bound it: ``from`` is in it, ``to`` is not.

    It is said in a question, or by its name in a call to a root agent, which resolves it to its
    bounds before the call is made. It is no parameter itself.
    """

    name: Slug
    from_: Slug = Field(alias="from")
    to: Slug

    @model_serializer
    def _as_written(self) -> dict[str, str]:
        return {"name": self.name, "from": self.from_, "to": self.to}


def check_periods(capability: str, parameters: Sequence[Parameter], periods: Sequence[Period]) -> None:
    """Each period has a name, and two bounds of one type, of its own. Raises ``ValueError``."""
    declared = {parameter.name: parameter for parameter in parameters}
    names, bounds = set(declared), set[str]()
    for period in periods:
        if period.name in names:
            raise ValueError(f"capability {capability} has two parameters or periods named {period.name}")
        first, last = declared.get(period.from_), declared.get(period.to)
        if first is None or last is None or first.type is not last.type or first.type not in PERIOD_TYPES:
            raise ValueError(
                f"capability {capability}: the period {period.name} lies between two parameters of one type, "
                "DATE, DATETIME or TIMESTAMP"
            )
        if first.repeated or last.repeated or first is last or bounds & {first.name, last.name}:
            raise ValueError(
                f"capability {capability}: the period {period.name} has two bounds of its own, one value each"
            )
        names.add(period.name)
        bounds |= {first.name, last.name}


class ResultColumn(Typed):
    """A column of a capability's result, in order."""

    mode: _Mode = Mode.NULLABLE
    description: str = ""
    unit: str | None = None


def schema_member(column: ResultColumn | StructField) -> dict[str, Any]:
    """What a result document says of a column or field: name, type, mode, and a STRUCT's ``fields``."""
    member: dict[str, Any] = {"name": column.name, "type": column.type.value, "mode": column.mode.value}
    if column.fields:
        member["fields"] = [schema_member(field) for field in column.fields]
    return member
