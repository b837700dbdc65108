"""One strict YAML reader for descriptors and directories (JSON is a subset of it)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

MAX_FILE_BYTES = 1_000_000
MAX_NESTING = 24


class UnreadableFile(ValueError):
    """A file that is not strict YAML; the message is one line with the line number where known."""


class _StrictLoader(yaml.SafeLoader):
    """SafeLoader without aliases (they expand exponentially), duplicate keys or deep nesting."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise UnreadableFile(f"line {self.line + 1}: aliases (*name) are not accepted")
        self.depth += 1
        if self.depth > MAX_NESTING:
            raise UnreadableFile(f"line {self.line + 1}: nested deeper than {MAX_NESTING}")
        node: yaml.Node | None = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise UnreadableFile(f"line {_line(key_node)}: a key must be text; put it in quotes")
            if key in seen:
                raise UnreadableFile(f"line {_line(key_node)}: {key[:80]!r} stands twice")
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


def read_yaml(path: Path) -> Any:
    """The value of one YAML 1.1 document of at most ``MAX_FILE_BYTES``.

    Raises ``UnreadableFile`` for anything else, a missing file included; never ``OSError``.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise UnreadableFile(f"cannot be read: {error.strerror or 'input error'}") from error
    if len(data) > MAX_FILE_BYTES:
        raise UnreadableFile(f"is larger than {MAX_FILE_BYTES} bytes")
    return parse_yaml(data)


def parse_yaml(data: bytes) -> Any:
    """As ``read_yaml``, from bytes. Raises ``UnreadableFile``."""
    try:
        # A custom SafeLoader: no Python objects can be made.
        return yaml.load(data.decode("utf-8"), Loader=_StrictLoader)  # noqa: S506
    except UnicodeDecodeError as error:
        raise UnreadableFile("is not UTF-8") from error
    except yaml.YAMLError as error:
        raise UnreadableFile(_one_line(error)) from error
    except (ValueError, RecursionError) as error:
        raise (
            error if isinstance(error, UnreadableFile) else UnreadableFile("holds a value that is not valid")
        ) from error


def first_error(error: ValidationError) -> str:
    """The first error of a pydantic model on one line, with its place."""
    problem = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(str(part) for part in problem["loc"])
    message = problem["msg"].removeprefix("Value error, ")
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return f"{place}: {message}{more}" if place else f"{message}{more}"


def _line(thing: Any) -> int:
    mark = getattr(thing, "start_mark", None)
    return 1 if mark is None else int(mark.line) + 1


def _one_line(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "is not valid YAML"
    return f"line {mark.line + 1}: {problem}" if mark is not None else str(problem)
