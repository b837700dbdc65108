"""The relation that a call supplies: rows another dataset agent returned, which a template reads like a table.

It is no base table. The other agent applied its own row constraints, columns and masks; those of
this agent's authority govern base tables only, and one that names this relation is refused. Its
rows are bound as one parameter, an array of structs, and never written into the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

from sqlglot import exp

from contract.result import ResultDocument
from contract.schema import ResultColumn, SqlType
from contract.verdict import NotGranted, Reason
from queries.decode import decode
from queries.encode import ResultInvalid, ResultTooLarge
from queries.typed import Type, declared_type, set_type

if TYPE_CHECKING:
    from queries.template import Template

# No template can say a name that starts with an underscore.
SUPPLIED: Final = "__supplied"
MAX_SUPPLIED_ROWS: Final = 10_000
MAX_SUPPLIED_BYTES: Final = 4 * 2**20
_ROW: Final = "_b"
_ONE: Final = ("_one", Type(SqlType.INT64))


@dataclass(frozen=True, slots=True)
class SuppliedRelation:
    """Its name in the template, and the columns that the other capability returns, in order."""

    name: str
    columns: tuple[ResultColumn, ...]

    def column(self, name: str) -> ResultColumn | None:
        return next((column for column in self.columns if column.name == name), None)

    def problem(self, tables: Sequence[str]) -> str | None:
        """Why it cannot stand beside ``tables``, or ``None``. BigQuery's CTEs ignore case, so names do here."""
        names = [column.name for column in self.columns]
        if self.name.lower() in {table.lower() for table in tables}:
            return f"the supplied relation {self.name} has the name of a declared table"
        if not names:
            return f"the supplied relation {self.name} has no columns"
        if len(set(names)) != len(names):
            return f"the supplied relation {self.name} names a column twice"
        return None

    def facts(self) -> dict[str, Any]:
        """Its declaration, for a digest."""
        return {"name": self.name, "columns": [column.model_dump(mode="json") for column in self.columns]}


def bound_fields(template: Template) -> tuple[tuple[str, Type], ...]:
    """The fields of the structs that are bound: the columns that the template reads, in declared order."""
    relation = template.supplied
    if relation is None:
        return ()
    read = [
        (column.name, declared_type(column)) for column in relation.columns if column.name in template.supplied_read
    ]
    return tuple(read) or (_ONE,)


def attach(tree: exp.Query, fields: Sequence[tuple[str, Type]]) -> None:
    """Give ``tree`` its first common table expression: ``(SELECT _b.c AS c, … FROM UNNEST(@__supplied) AS _b)``."""
    held = exp.Parameter(this=exp.Var(this=SUPPLIED))
    set_type(held, Type(SqlType.STRUCT, array=True, fields=tuple(fields)))
    row = exp.TableAlias(columns=[exp.to_identifier(_ROW, quoted=True)])
    source = exp.Unnest(expressions=[held], alias=row, offset=False)
    select = exp.Select(expressions=[_shown(name, kind) for name, kind in fields], from_=exp.From(this=source))
    common = exp.CTE(this=select, alias=exp.TableAlias(this=exp.to_identifier(SUPPLIED, quoted=True)))
    written = tree.args.get("with_")
    tree.set("with_", exp.With(expressions=[common, *(written.expressions if written is not None else ())]))


def _shown(name: str, kind: Type) -> exp.Alias:
    column = exp.Column(this=exp.to_identifier(name, quoted=True), table=exp.to_identifier(_ROW, quoted=True))
    set_type(column, kind)
    return exp.Alias(this=column, alias=exp.to_identifier(name, quoted=True))


def reference(alias: str) -> exp.Table:
    """What a template's reading of the relation becomes."""
    return exp.Table(
        this=exp.to_identifier(SUPPLIED, quoted=True),
        alias=exp.TableAlias(this=exp.to_identifier(alias, quoted=True)),
    )


def check_supplied(template: Template, supplied: ResultDocument | None) -> None:
    """Raise ``NotGranted(EXECUTION_FAILED)`` unless rows are supplied exactly where the template reads some."""
    if template.supplied is not None and supplied is None:
        raise NotGranted(Reason.EXECUTION_FAILED, "the capability reads another agent's rows, and none were supplied")
    if template.supplied is None and supplied is not None:
        raise NotGranted(Reason.EXECUTION_FAILED, "the capability reads no other agent's rows, and some were supplied")


def bound_rows(template: Template, supplied: ResultDocument | None) -> list[tuple[Any, ...]] | None:
    """The value of the one parameter: a tuple for each row, of the values of ``bound_fields``; ``None`` without one.

    Every declared column is checked, read or not. Raises ``NotGranted`` with RESULT_INVALID, or
    RESULT_TOO_LARGE beyond ``MAX_SUPPLIED_ROWS`` or ``MAX_SUPPLIED_BYTES``.
    """
    relation = template.supplied
    if relation is None or supplied is None:
        return None
    try:
        columns = decode(supplied, relation.columns, max_rows=MAX_SUPPLIED_ROWS, max_bytes=MAX_SUPPLIED_BYTES)
    except ResultInvalid as error:
        raise NotGranted(Reason.RESULT_INVALID, str(error)) from None
    except ResultTooLarge:
        raise NotGranted(Reason.RESULT_TOO_LARGE, "the supplied rows are more rows or bytes than allowed") from None
    read = [
        values
        for column, values in zip(relation.columns, columns, strict=True)
        if column.name in template.supplied_read
    ]
    return list(zip(*read, strict=True)) if read else [(1,)] * supplied.row_count


def is_finite(kind: Type, value: Any) -> bool:
    """Whether a decoded value holds no FLOAT64 that is NaN or an infinity."""
    if value is None:
        return True
    if kind.array:
        return all(is_finite(kind.element, item) for item in value)
    if kind.name is SqlType.STRUCT:
        return all(is_finite(inner, value[name]) for name, inner in kind.fields)
    return kind.name is not SqlType.FLOAT64 or isfinite(value)
