"""The fault of a template or of base data that cannot be governed, with where it is."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from contract.errors import Category, Component, DatasetAgentError


class TemplateError(DatasetAgentError):
    """A template that is refused when it is loaded; the message starts ``file:line:``.

    ``line`` is ``None`` where the fault is no line's, such as a parameter that is not used;
    the message then starts ``file:``.
    """

    def __init__(self, file: str, line: int | None, message: str) -> None:
        place = file if line is None else f"{file}:{line}"
        super().__init__(Component.QUERIES, Category.CONFIGURATION, "queries.template.refused", f"{place}: {message}")
        self.file = file
        self.line = line
        self.reason = message


class DataError(DatasetAgentError):
    """Base data that is absent or does not fit its declaration; nothing of it is served."""

    def __init__(self, file: str, message: str) -> None:
        super().__init__(Component.QUERIES, Category.CONFIGURATION, "queries.data.invalid", f"{file}: {message}")
        self.file = file


class Refused(Exception):
    """A refusal at a node or line, or of the whole, before the file is known; ``load_template`` adds the file."""

    def __init__(self, message: str, node: exp.Expr | None = None, *, line: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.line = line if line is not None else line_of(node)


_WRITTEN: Final[dict[type[exp.Expr], str]] = {
    exp.ArrayAgg: "ARRAY_AGG",
    exp.ArrayConcat: "ARRAY_CONCAT",
    exp.ArrayReverse: "ARRAY_REVERSE",
    exp.ArraySize: "ARRAY_LENGTH",
    exp.ArrayToString: "ARRAY_TO_STRING",
    exp.BitwiseLeftShift: "<<",
    exp.BitwiseRightShift: ">>",
    exp.GenerateDateArray: "GENERATE_DATE_ARRAY",
    exp.GenerateSeries: "GENERATE_ARRAY",
    exp.GroupConcat: "STRING_AGG",
}


def written_name(node: exp.Expr) -> str:
    """What a template calls a construct, as far as the parser still knows."""
    return _WRITTEN.get(type(node)) or str(node.meta.get("bigquery_name") or node.key.upper())


def line_of(node: exp.Expr | None) -> int | None:
    """The line of the nearest node with a position: itself, its descendants, then its ancestors."""
    while node is not None:
        for inner in node.walk(bfs=False):
            if "line" in inner.meta:
                return int(inner.meta["line"])
        node = node.parent
    return None
