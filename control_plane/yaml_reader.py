"""One strict YAML reader for descriptors and directories (JSON is a subset of it)."""

from __future__ import annotations

import errno
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from contract.files import read_bounded
from contract.ids import is_slug

MAX_FILE_BYTES: Final = 1_000_000
MAX_NESTING: Final = 24
MAX_NUMBER_CHARS: Final = 32
_NUMBERS: Final = frozenset({"tag:yaml.org,2002:int", "tag:yaml.org,2002:float"})
_TOLD_LINE: Final = re.compile(r"line ([0-9]{1,9}): ")


class UnreadableFile(ValueError):
    """A file that is not strict YAML; the message is one line with the line number where known."""

    def parts(self) -> tuple[int | None, str]:
        """The line, where it is known, and the rest of the message."""
        found = _TOLD_LINE.match(str(self))
        return (int(found[1]), str(self)[found.end() :]) if found else (None, str(self))


class _StrictLoader(yaml.SafeLoader):
    """SafeLoader without aliases (they expand exponentially), duplicate keys, deep nesting or endless numbers."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise UnreadableFile(f"line {self.line + 1}: aliases (*name) are not accepted")
        self.depth += 1
        if self.depth > MAX_NESTING:
            raise UnreadableFile(f"line {self.line + 1}: nested deeper than {MAX_NESTING}")
        node: yaml.Node | None = super().compose_node(parent, index)
        self.depth -= 1
        _check_number(node)
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


@dataclass(frozen=True, slots=True)
class Document:
    """The value of a file, and where in it each part stands."""

    value: Any
    node: yaml.Node | None = field(repr=False, compare=False)
    _members: dict[int, dict[Any, yaml.Node]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def place(self, path: Sequence[int | str]) -> str:
        """A part's place for people, such as ``line 31: capabilities[1] (read).effect``."""
        line, text = self.where(path)
        return ": ".join(part for part in (f"line {line}" if line else "", text) if part)

    def where(self, path: Sequence[int | str]) -> tuple[int | None, str]:
        """A part's line, where the file is known, and its name.

        An index is followed by the ``name`` of what stands there, where that is one.
        """
        value, node, line, text = self.value, self.node, _line(self.node), ""
        for part in path:
            text += f"[{part}]" if isinstance(part, int) else f".{part}"
            value = _member(value, part)
            if isinstance(part, int) and isinstance(value, dict) and _is_name(value.get("name")):
                text += f" ({value['name']})"
            node = self._child(node, part)
            line = line if node is None else _line(node)
        return (line if self.node else None), text.lstrip(".")

    def _child(self, node: yaml.Node | None, part: int | str) -> yaml.Node | None:
        """The part of a node. Members are listed once: a file may have as many faults as members."""
        if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            child: yaml.Node = node.value[part]
            return child
        if isinstance(node, yaml.MappingNode):
            if id(node) not in self._members:
                self._members[id(node)] = {key.value: value for key, value in node.value if _is_scalar(key)}
            return self._members[id(node)].get(part)
        return None


def read_document(path: Path) -> Document:
    """One YAML 1.1 document of at most ``MAX_FILE_BYTES``, with its lines.

    Raises ``UnreadableFile`` for anything else, a missing file included; never ``OSError``.
    """
    try:
        data = read_bounded(path, MAX_FILE_BYTES)
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise UnreadableFile(f"is larger than {MAX_FILE_BYTES} bytes") from error
        raise UnreadableFile(f"cannot be read: {error.strerror or 'input error'}") from error
    return parse_document(data)


def parse_document(data: bytes) -> Document:
    """As ``read_document``, from bytes. Raises ``UnreadableFile``."""
    try:
        # A custom SafeLoader: no Python objects can be made.
        loader = _StrictLoader(data.decode("utf-8"))
        node = loader.get_single_node()
        return Document(None if node is None else loader.construct_document(node), node)
    except UnicodeDecodeError as error:
        raise UnreadableFile("is not UTF-8") from error
    except yaml.YAMLError as error:
        raise UnreadableFile(_one_line(error)) from error
    except UnreadableFile:
        raise
    except Exception as error:  # what the library makes values with raises what it pleases: !!bool x a KeyError
        raise UnreadableFile("holds a value that is not valid") from error


def _check_number(node: yaml.Node | None) -> None:
    """Digits without end, and those in base 60 that a time such as 12:30:00 is read as, cost more than they say."""
    if node is not None and node.tag in _NUMBERS and (len(node.value) > MAX_NUMBER_CHARS or ":" in node.value):
        raise UnreadableFile(f"line {_line(node)}: a number is too long, or holds a colon; put text in quotes")


def _member(value: Any, part: int | str) -> Any:
    if isinstance(value, dict):
        return value.get(part)
    return value[part] if isinstance(value, list) and isinstance(part, int) and part < len(value) else None


def _is_scalar(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode)


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and is_slug(value)


def _line(thing: Any) -> int:
    mark = getattr(thing, "start_mark", None)
    return 1 if mark is None else int(mark.line) + 1


def _one_line(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "is not valid YAML"
    return f"line {mark.line + 1}: {problem}" if mark is not None else str(problem)
