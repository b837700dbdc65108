"""The corpus: expressions, expressions over columns, and whole templates with their arguments."""

from __future__ import annotations

import datetime as dt
import json
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from contract.schema import Parameter

FOLDER = Path(__file__).parent / "corpus"
VECTORS = Path(__file__).parents[1] / "queries" / "googlesql_vectors.json"
EDGES = range(12)


@dataclass(frozen=True)
class Item:
    """One question to both: a query, what it is called, and its arguments as JSON."""

    name: str
    sql: str
    parameters: tuple[Mapping[str, Any], ...] = ()
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def declared(self) -> list[Parameter]:
        return [Parameter.model_validate({"description": "a parameter", **one}) for one in self.parameters]


def expressions() -> Iterator[Item]:
    for line in _lines("expressions.txt"):
        yield Item(line, f"SELECT {line} AS x")


def columns() -> Iterator[Item]:
    """Each over all rows of ``edges``; ``one_row`` asks for one."""
    for line in _lines("columns.txt"):
        yield Item(line, f"SELECT k, {line} AS x FROM edges ORDER BY k")


def one_row(item: Item) -> Item:
    """The same of a single row, whose number is the argument ``row``."""
    sql = item.sql.replace(" FROM edges ORDER", " FROM edges WHERE k = @row ORDER")
    return Item(item.name, sql, ({"name": "row", "type": "INT64"},))


def templates() -> Iterator[Item]:
    for part in (FOLDER / "templates.sql").read_text().split("--- ")[1:]:
        name, _, rest = part.partition("\n")
        parameters, arguments, sql = [], {}, []
        for line in rest.strip().split("\n"):
            if line.startswith("-- param "):
                declaration, _, value = line.removeprefix("-- param ").rpartition(" = ")
                parameters.append(json.loads(declaration))
                arguments[parameters[-1]["name"]] = json.loads(value)
            else:
                sql.append(line)
        yield Item(name, "\n".join(sql), tuple(parameters), arguments)


def letters() -> Iterator[Item]:
    """The case of every letter, many at a time; those that an argument brings into Form C are left out."""
    points = [point for point in range(0x20, 0x20000) if not 0xD800 <= point < 0xE000]
    held = [chr(point) for point in points if unicodedata.normalize("NFC", chr(point)) == chr(point)]
    declared = {"name": "s", "type": "STRING", "max_length": 4_096}
    for start in range(0, len(held), 2_000):
        # What stands between letters keeps each from changing how its neighbour is written.
        text = "0".join(held[start : start + 2_000])
        yield Item(f"letters from {start}", "SELECT UPPER(@s) AS up, LOWER(@s) AS low", (declared,), {"s": text})


def reference_arguments(item: Item) -> dict[str, tuple[str, Any]]:
    """The arguments as ``Reference.query`` takes them."""
    return {one["name"]: (_kind(one), _value(one, item.arguments[one["name"]])) for one in item.parameters}


def _kind(declared: Mapping[str, Any]) -> str:
    kind = str(declared["type"])
    if kind == "STRUCT":
        inner = (f"{one['name']} {_kind(one)}" for one in declared["fields"])
        kind = f"STRUCT<{', '.join(inner)}>"
    return f"ARRAY<{kind}>" if declared.get("repeated") else kind


def _value(declared: Mapping[str, Any], value: Any) -> Any:
    if value is None:
        return None
    if declared.get("repeated"):
        return [_value({**declared, "repeated": False}, one) for one in value]
    match declared["type"]:
        case "STRUCT":
            return {one["name"]: _value(one, value[one["name"]]) for one in declared["fields"]}
        case "NUMERIC":
            return Decimal(value)
        case "DATE":
            return dt.date.fromisoformat(value)
        case "DATETIME" | "TIMESTAMP":
            return dt.datetime.fromisoformat(value)
        case "TIME":
            return dt.time.fromisoformat(value)
    return value


def _lines(name: str) -> Iterator[str]:
    for line in (FOLDER / name).read_text().split("\n"):
        if line.strip() and not line.startswith("#"):
            yield line


def vector(case: Any, verdict: str) -> dict[str, Any]:
    """ZetaSQL's answer and what the product made of it, as one line of the committed vectors."""
    out = {"name": case.item.name, "verdict": verdict, "names": case.names, "types": case.types}
    return {**out, "rows": case.rows} if case.by_row is None else {**out, "by_row": case.by_row}


def dump(vectors: Mapping[str, list[Any]]) -> str:
    """One line for each vector, so that a change shows as one."""
    parts = []
    for part, held in vectors.items():
        lines = ",\n".join(json.dumps(one, ensure_ascii=False) for one in held)
        parts.append(f"{json.dumps(part)}: [\n{lines}\n]")
    return "{\n" + ",\n".join(parts) + "\n}\n"
