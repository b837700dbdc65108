"""``--arg name=value``: text from a command line as the JSON values of the types a card declares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from contract.canonical import InvalidJson, parse_json
from contract.errors import Category, Component, DatasetAgentError
from contract.schema import Parameter, SqlType

_MAX_JSON: Final = 64 * 1024


def read_arguments(pairs: Sequence[str], declared: Mapping[str, Parameter]) -> dict[str, Any]:
    """``name=value`` typed as declared (a STRUCT is JSON), ``name:=JSON`` as it is. Raises INVALID_INPUT.

    A value that does not read as its type stays text, and a name nobody declared stays too:
    the dataset agent judges both and says what it takes.
    """
    arguments: dict[str, Any] = {}
    for pair in pairs:
        name, value = _pair(pair, declared)
        if name in arguments:
            raise _bad(f"--arg {name} is given twice: give it once, several values with commas")
        arguments[name] = value
    return arguments


def _pair(pair: str, declared: Mapping[str, Parameter]) -> tuple[str, Any]:
    name, equals, text = pair.partition("=")
    if not equals or not name.rstrip(":"):
        raise _bad("--arg takes name=value, or name:=JSON")
    parameter = declared.get(name)
    if name.endswith(":") or (parameter is not None and parameter.type is SqlType.STRUCT):
        name = name.removesuffix(":")
        try:
            return name, parse_json(text.encode(), limit=_MAX_JSON)
        except (InvalidJson, UnicodeEncodeError) as error:
            raise _bad(f"--arg {name}: {error}; quote JSON text twice, as name:='\"text\"'") from error
    if parameter is not None and parameter.repeated:
        return name, [_typed(item, parameter) for item in text.split(",")] if text else []
    return name, text if parameter is None else _typed(text, parameter)


def _typed(text: str, parameter: Parameter) -> Any:
    try:
        if parameter.type is SqlType.INT64:
            return int(text)
        if parameter.type is SqlType.FLOAT64:
            return float(text)
    except ValueError:
        return text
    if parameter.type is SqlType.BOOL and text.lower() in ("true", "false"):
        return text.lower() == "true"
    return text


def _bad(message: str) -> DatasetAgentError:
    return DatasetAgentError(Component.COMMAND, Category.INVALID_INPUT, "command.argument", message)
