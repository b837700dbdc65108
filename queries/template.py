"""A capability's template: GoogleSQL that was read, settled, typed and found governable, once.

A template that loads can be governed: every base table it reads is known by node, every
construct has one meaning on both engines, every parameter and result column is declared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlglot import exp

# The rules of types register themselves when they are imported.
from queries import aggregates, call_types, casts, functions, moments, nested, numbers, operators  # noqa: F401  isort: skip
from contract.canonical import InvalidJson, digest
from contract.minimum_group import GroupRule
from contract.schema import Parameter, ResultColumn, SqlType, Table
from contract.scope import Sensitivity
from queries.bind import check_parameter
from queries.elaborate import Elaborator
from queries.errors import Refused, TemplateError
from queries.grammar import parse
from queries.groups import apply_rule, round_results
from queries.growth import Growth, growth
from queries.outputs import check_results, order_for_good
from queries.resolve import Relation, Resolved, resolve
from queries.shown import shown_columns
from queries.supplied import SuppliedRelation
from queries.ties import break_ties

_DIGEST_TAG: Final = "dataset-agent/template/1"
_NOT_AS_PARAMETER: Final = (SqlType.BYTES,)


@dataclass(frozen=True, slots=True)
class Template:
    """``columns_read`` and ``tables_read`` are ``table.column`` and table names, of base tables only.

    ``columns_shown`` are those whose values are in the result as they are read.
    ``supplied`` is the relation whose rows a call brings, ``supplied_read`` the columns read of it.
    ``growth`` says how large the values may become that it makes.
    ``minimum_group`` is already part of the query. ``digest`` changes with the text, the parameters, the
    results, the tables read, ``supplied`` and ``minimum_group``.
    ``deterministic`` is false where equal data may give unequal bytes, so that the
    result must not be stored.
    """

    name: str
    dataset: str
    digest: str
    tables: tuple[Table, ...]
    parameters: tuple[Parameter, ...]
    results: tuple[ResultColumn, ...]
    columns_read: frozenset[str]
    columns_shown: frozenset[str]
    tables_read: frozenset[str]
    deterministic: bool
    supplied: SuppliedRelation | None
    supplied_read: frozenset[str]
    growth: Growth
    minimum_group: GroupRule | None
    _tree: exp.Query = field(repr=False, compare=False)
    _written: exp.Query = field(repr=False, compare=False)

    def tree(self) -> exp.Query:
        """A copy of the typed query, the caller's to change."""
        return self._tree.copy()

    def written(self) -> exp.Query:
        """A copy of the query with its names settled and no conversion added: GoogleSQL as its author wrote it."""
        return self._written.copy()

    def table(self, name: str) -> Table | None:
        return next((table for table in self.tables if table.name == name), None)

    def parameter(self, name: str) -> Parameter | None:
        return next((parameter for parameter in self.parameters if parameter.name == name), None)


def load_template(
    sql: str,
    *,
    name: str,
    dataset: str,
    tables: Sequence[Table],
    parameters: Sequence[Parameter],
    results: Sequence[ResultColumn],
    ceiling: Sensitivity,
    supplied: SuppliedRelation | None = None,
    minimum_group: GroupRule | None = None,
) -> Template:
    """Read and check a template; ``name`` is its file below the dataset's folder, which messages give too.

    ``supplied`` is a relation that it must read beside the tables, and that no table, alias or
    common table expression may share a name with. ``minimum_group`` is the rule that the query
    is held to.

    Raises ``TemplateError`` for a construct that cannot be governed or has no meaning shared
    by the engines, a name that is not declared, a parameter that is not used, results unlike
    the declared ones, and a column more sensitive than ``ceiling``.
    """
    file = f"{dataset}/{name}"
    try:
        for parameter in parameters:
            _check_declaration(parameter)
        relations = _relations(tables, supplied)
        resolved = resolve(parse(sql), relations, _reserved(dataset, tables))
        shown = shown_columns(resolved.tree, resolved.scopes)
        if minimum_group is not None:
            apply_rule(resolved, minimum_group, tables, parameters)
        break_ties(resolved.scopes)
        written = resolved.tree.copy()
        elaborator = Elaborator(resolved, relations, parameters)
        outputs = elaborator.run()
        elaborator.ties.take_out_of(written)
        if minimum_group is not None:
            round_results(resolved.tree, written, minimum_group)
        check_results(resolved.tree, outputs, results)
        for tree in (resolved.tree, written):
            order_for_good(tree, outputs)
        _check_used(parameters, elaborator.used)
        if supplied is not None and resolved.supplied is None:
            raise Refused(f"the supplied relation {supplied.name} is declared and not read")
        _check_sensitivity(resolved, tables, ceiling)
        read = [table for table in tables if table.name in resolved.tables]
        template_digest = _digest(sql, read, parameters, results, supplied, minimum_group)
    except Refused as refused:
        raise TemplateError(file, refused.line, refused.message) from refused
    return Template(
        name=file,
        dataset=dataset,
        digest=template_digest,
        tables=tuple(tables),
        parameters=tuple(parameters),
        results=tuple(results),
        columns_read=resolved.columns,
        columns_shown=shown,
        tables_read=resolved.tables,
        deterministic=elaborator.deterministic and not elaborator.ties.shown,
        supplied=supplied,
        supplied_read=resolved.supplied or frozenset(),
        growth=growth(resolved.scopes, parameters),
        minimum_group=minimum_group,
        _tree=resolved.tree,
        _written=written,
    )


def _reserved(dataset: str, tables: Sequence[Table]) -> set[str]:
    """Names of the dataset, and of BigQuery's projects and datasets."""
    return {dataset, *(part for table in tables if table.bigquery for part in table.bigquery.rsplit(".", 2)[:2])}


def _relations(tables: Sequence[Table], supplied: SuppliedRelation | None) -> tuple[Relation, ...]:
    if supplied is None:
        return tuple(tables)
    problem = supplied.problem([table.name for table in tables])
    if problem is not None:
        raise Refused(problem)
    return (*tables, supplied)


def _check_declaration(parameter: Parameter) -> None:
    if parameter.type in _NOT_AS_PARAMETER:
        raise Refused(f"parameter {parameter.name}: {parameter.type.value} parameters are not accepted")
    problem = check_parameter(parameter)
    if problem is not None:
        raise Refused(f"parameter {parameter.name}: {problem}")


def _check_used(parameters: Sequence[Parameter], used: set[str]) -> None:
    for parameter in parameters:
        if parameter.name not in used:
            raise Refused(f"parameter {parameter.name} is declared and not used")


def _check_sensitivity(resolved: Resolved, tables: Sequence[Table], ceiling: Sensitivity) -> None:
    for table in tables:
        for column in table.columns:
            read = f"{table.name}.{column.name}" in resolved.columns
            if read and not column.sensitivity.within(ceiling):
                raise Refused(
                    f"{table.name}.{column.name} is {column.sensitivity.value}, the capability only {ceiling.value}",
                    resolved.reading(table.name, column.name),
                )


def _digest(
    sql: str,
    tables: Sequence[Table],
    parameters: Sequence[Parameter],
    results: Sequence[ResultColumn],
    supplied: SuppliedRelation | None,
    minimum_group: GroupRule | None,
) -> str:
    facts: dict[str, Any] = {
        "sql": sql,
        "tables": [table.model_dump(mode="json") for table in sorted(tables, key=lambda table: table.name)],
        "parameters": [parameter.model_dump(mode="json") for parameter in parameters],
        "results": [column.model_dump(mode="json") for column in results],
    }
    if supplied is not None:
        facts["supplied"] = supplied.facts()
    if minimum_group is not None:
        facts["minimum_group"] = minimum_group.model_dump(mode="json")
    try:
        return digest(_DIGEST_TAG, facts)
    except InvalidJson as error:
        raise Refused(f"the declarations have no canonical form: {error}") from error


__all__ = ["Template", "TemplateError", "load_template"]
