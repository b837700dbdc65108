"""The groups of a regular expression in RE2's syntax."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class _Open:
    captures: bool
    alternatives: bool = False
    inner: list[int] = field(default_factory=list)


def pattern_groups(pattern: str) -> list[tuple[bool, bool]]:
    """``(captures, always)`` of each group: ``always`` unless it is optional, repeated or below an alternative."""
    out: list[tuple[bool, bool]] = []
    stack = [_Open(captures=False)]
    index = 0
    while index < len(pattern):
        char = pattern[index]
        if char == "\\":
            index += 1
        elif char == "[":
            index = _class_end(pattern, index)
        elif char == "|":
            stack[-1].alternatives = True
        elif char == "(":
            stack.append(_Open(captures=pattern[index + 1 : index + 2] != "?"))
        elif char == ")" and len(stack) > 1:
            closed = stack.pop()
            always = pattern[index + 1 : index + 2] not in ("?", "*", "{")
            for number in closed.inner:
                out[number] = (out[number][0], out[number][1] and always and not closed.alternatives)
            out.append((closed.captures, always))
            stack[-1].inner.extend([*closed.inner, len(out) - 1])
        index += 1
    while stack:
        left = stack.pop()
        for number in left.inner:
            out[number] = (out[number][0], out[number][1] and not left.alternatives)
    return out


def _class_end(pattern: str, start: int) -> int:
    """The index of the bracket that ends the class which starts at ``start``."""
    index = start + 1
    if pattern[index : index + 1] == "^":
        index += 1
    index += 1  # a bracket that comes first is one of the class
    while index < len(pattern) and pattern[index] != "]":
        index += 2 if pattern[index] == "\\" else 1
    return index
