"""Random authorities and arguments for a template, drawn from the data so that they divide it."""

from __future__ import annotations

import datetime as dt
import random
import re
from decimal import Decimal
from typing import Any, Final

from contract.schema import Column, Mode, Parameter, SqlType
from contract.scope import Sensitivity
from tests.governing.worlds import Entry, World, columns_of

MASKS: Final = ("null", "hash", "truncate")
_ORDERED: Final = (SqlType.INT64, SqlType.NUMERIC, SqlType.FLOAT64, SqlType.DATE, SqlType.TIMESTAMP)
_CLOSED: Final = (*_ORDERED, SqlType.STRING, SqlType.BOOL)


def random_case(rng: random.Random, world: World, entry: Entry) -> dict[str, Any]:
    """``rows`` of a policy, ``grant_rows`` of a holder and ``masks``, as ``make_authority`` takes them."""
    read = entry.template.columns_read
    here = columns_of(world.tables, entry.template.tables_read)
    able = [(t, c) for t, c in here if c.type in _CLOSED and c.mode is not Mode.REPEATED]
    share = rng.choice([0.0, 0.1, 0.3, 0.6])
    masks = {name: _mask(rng, entry, name) for name in sorted(read) if rng.random() < share}
    rows: dict[str, Any] = {}
    granted: dict[str, Any] = {}
    for _ in range(rng.choice([0, 1, 1, 2, 2, 3])):
        table, column = rng.choice(able)
        rule = random_rule(rng, column, [row[column.name] for row in world.data[table.name]])
        together = [(t, c) for t, c in here if column.attribute is not None and c.attribute == column.attribute]
        for other, same in together or [(table, column)]:
            name = f"{other.name}.{same.name}"
            shown = (name in read or same.attribute is not None) and name not in masks
            holder = shown and entry.sensitivity is not Sensitivity.RESTRICTED and entry.template.minimum_group is None
            if holder and name not in granted and rng.random() < 0.3 and same.sensitivity.within(entry.sensitivity):
                granted[name] = rule
            else:
                rows[name] = rule
    return {"rows": rows, "grant_rows": granted, "masks": masks}


def _mask(rng: random.Random, entry: Entry, name: str) -> str:
    # Where the key that orders windows or lists is no key any more, any order of the rows would be right.
    keyed = entry.kind in ("windows", "nested") and name.endswith((".id", ".item"))
    return "hash" if keyed else rng.choice(MASKS)


def random_rule(rng: random.Random, column: Column, values: list[Any]) -> dict[str, Any]:
    """One or two members of the constraint vocabulary that fit the column."""
    texts = [_written(value) for value in rng.sample(values, min(12, len(values))) if value is not None]
    present: list[Any] = [int(text) for text in texts] if column.type is SqlType.INT64 else list(texts)
    present = present or [_some_value(column)]
    out: dict[str, Any] = {}
    kinds = ["one_of", "not_one_of"]
    kinds += ["max", "min"] if column.type in _ORDERED else ["prefix"] if column.type is SqlType.STRING else []
    for kind in rng.sample(kinds, rng.choice([1, 1, 2])):
        if kind in ("one_of", "not_one_of"):
            out[kind] = sorted(set(rng.sample(present, rng.randrange(0, min(8, len(present)) + 1))))
        elif kind == "prefix":
            text = str(rng.choice(present))
            out[kind] = text[: rng.randrange(1, 4)] or "x"
        else:
            out[kind] = rng.choice(present)
    return out


def _some_value(column: Column) -> Any:
    """A value for a column without one."""
    texts = {SqlType.BOOL: "true", SqlType.DATE: "2024-01-01", SqlType.TIMESTAMP: "2024-01-01T00:00:00.000000Z"}
    return 0 if column.type is SqlType.INT64 else texts.get(column.type, "0")


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, float):
        return format(Decimal(str(round(value, 3))), "f")
    return format(value, "f") if isinstance(value, Decimal) else str(value)


def random_arguments(rng: random.Random, world: World, entry: Entry) -> dict[str, Any]:
    """Arguments that the parameters accept, words and ids taken from the tables that are read."""
    out: dict[str, Any] = {}
    for parameter in entry.template.parameters:
        if parameter.nullable and rng.random() < 0.3:
            out[parameter.name] = None
        elif parameter.default is None or rng.random() < 0.8:
            one = _argument(rng, parameter, world, entry)
            out[parameter.name] = _several(rng, parameter, one) if parameter.repeated else one
    return out


def _several(rng: random.Random, parameter: Parameter, one: Any) -> list[Any]:
    return rng.sample(parameter.values, rng.randrange(0, len(parameter.values) + 1)) if parameter.values else [one]


def _argument(rng: random.Random, parameter: Parameter, world: World, entry: Entry) -> Any:
    if parameter.values:
        return rng.choice(parameter.values)
    if parameter.type is SqlType.INT64:
        return rng.randint(int(parameter.minimum or 0), int(parameter.maximum or 30))
    if parameter.type is SqlType.BOOL:
        return rng.random() < 0.5
    if parameter.type in (SqlType.DATE, SqlType.TIMESTAMP):
        return _text_of(rng.choice(_held(rng, world, entry, SqlType.DATE, SqlType.TIMESTAMP)), parameter.type)
    words = [word for word in _held(rng, world, entry, SqlType.STRING) if word]
    if parameter.pattern is not None:
        fitting = [word for word in words if re.fullmatch(parameter.pattern, word)]
        return rng.choice(fitting) if fitting else "B001"
    word = rng.choice([*words, "", "%"])
    start = rng.randrange(0, max(1, len(word)))
    return word[start : start + rng.randrange(2, 9)] if rng.random() < 0.8 else word[: parameter.max_length]


def _held(rng: random.Random, world: World, entry: Entry, *kinds: SqlType) -> list[Any]:
    """Some values of columns of these types in the tables that are read."""
    found = []
    for table, column in columns_of(world.tables, entry.template.tables_read):
        if column.type in kinds and column.mode is not Mode.REPEATED:
            held = world.data[table.name]
            found += [row[column.name] for row in rng.sample(held, min(10, len(held))) if row[column.name] is not None]
    return found


def _text_of(value: dt.date, kind: SqlType) -> str:
    if kind is SqlType.DATE:
        return value.isoformat()[:10]
    moment = value if isinstance(value, dt.datetime) else dt.datetime.combine(value, dt.time())
    return f"{moment.isoformat(timespec='seconds')[:19]}Z"
