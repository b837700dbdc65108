"""The output of a template's outermost query: as declared, and in one order."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from contract.schema import ResultColumn
from queries.errors import Refused
from queries.names import output_items, output_names
from queries.typed import Type, declared_type


def order_for_good(tree: exp.Query, outputs: Sequence[Type]) -> None:
    """Complete the outermost ORDER BY with every output column, so that ties have one order.

    Raises ``Refused`` where a result of several rows has no ORDER BY.
    """
    order = tree.args.get("order")
    if order is None:
        if _is_one_row(tree):
            return
        raise Refused("a result of several rows needs an ORDER BY", tree)
    numbered = {item.this.name for item in order.expressions if isinstance(item.this, exp.Literal)}
    for index, kind in enumerate(outputs, start=1):
        # A nested column has no order in GoogleSQL; an engine that has one adds it.
        if str(index) not in numbered and not kind.nested:
            order.append("expressions", exp.Ordered(this=exp.Literal.number(index), nulls_first=True))


def check_results(tree: exp.Query, outputs: Sequence[Type], results: Sequence[ResultColumn]) -> None:
    """Whether names, order and types of the output are as declared. Raises ``Refused``."""
    names = output_names(tree)
    declared = [column.name for column in results]
    items = output_items(tree)
    if names != declared:
        other = next((item for item, name, wanted in zip(items, names, declared, strict=False) if name != wanted), tree)
        raise Refused(f"the query returns {', '.join(names)}; the declared results are {', '.join(declared)}", other)
    for kind, column, item in zip(outputs, results, items, strict=True):
        if kind.value != declared_type(column):
            raise Refused(f"{column.name} is declared {declared_type(column)}, the query returns {kind}", item)


def _is_one_row(tree: exp.Query) -> bool:
    if not isinstance(tree, exp.Select) or tree.args.get("group") is not None:
        return False
    if tree.args.get("from_") is None:
        return True
    aggregates = [node for item in tree.expressions for node in item.find_all(exp.AggFunc)]
    return any(
        node.parent_select is tree
        and not isinstance(node.parent, exp.Window)
        and node.find_ancestor(exp.Window) is None
        for node in aggregates
    )
