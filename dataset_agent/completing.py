"""Asking a person at a terminal for the arguments that a call misses."""

from __future__ import annotations

import sys
import time
from typing import Any, Final

from contract.errors import DatasetAgentError
from contract.schema import Parameter, SqlType
from contract.verdict import Reason
from contract.zone import UTC
from control_plane.confirm import confirm
from control_plane.descriptor import DatasetCapability, DatasetDescriptor
from control_plane.periods import period_type, read_period
from dataset_agent.arguments import read_arguments
from dataset_agent.console import err, note, one_line
from root_agent.asking import Answer

_TRIES: Final = 5


def can_be_asked(answer: Answer, *, as_json: bool) -> bool:
    """Whether arguments alone are missing, and a person is there who can say them."""
    missing = answer.asking.target is not None and bool(answer.asking.target.missing)
    interactive = not as_json and err.is_terminal and sys.stdin.isatty()
    return interactive and missing and answer.decision.reason is Reason.ARGUMENTS_MISSING


def asked_for(answer: Answer) -> dict[str, Any] | None:
    """The whole arguments, after each missing one was said; ``None`` where the person gives up.

    What is said is checked by what the dataset agent's card declares, before it is sent.
    """
    target = answer.asking.target
    if target is None:
        return None
    arguments = dict(target.call.arguments)
    note(one_line(f"{target.call.capability} on {target.call.dataset} takes more than was said:"))
    try:
        for missing in target.missing:
            period = _period(answer, missing.name)
            said = (
                _said(_declared(answer, missing.name)) if period is None else _said_period(missing.description, *period)
            )
            arguments[missing.name] = said
    except (EOFError, _GivenUp):
        note("")
        return None
    return arguments


class _GivenUp(Exception):
    """Nothing that was said fits."""


def _said(parameter: Parameter) -> Any:
    if parameter.description:
        note(f"  {parameter.description}")
    for _ in range(_TRIES):
        # Not by typer, which writes to standard output too, where the rows go.
        err.print(f"  {parameter.name} ({_shape(parameter)}): ", end="")
        value = _read(parameter, input().strip())
        if value is not None:
            return value
        note(f"  that is not {_shape(parameter)}")
    raise _GivenUp


def _said_period(description: str, name: str, kind: SqlType) -> str:
    """The words themselves: the root agent reads them, where and when they are asked."""
    note(f"  {description}")
    for _ in range(_TRIES):
        err.print(f"  {name} (a period): ", end="")
        text = input().strip()
        if read_period(text, kind, zone=UTC, now=time.time()) is not None:
            return text
        note("  that is no period that is read")
    raise _GivenUp


def _read(parameter: Parameter, text: str) -> Any:
    """The argument that a text stands for, ``None`` where it does not fit; of a STRUCT it is JSON."""
    is_json = parameter.type is SqlType.STRUCT
    try:
        pair = f"{parameter.name}:={text}" if is_json else f"{parameter.name}={text}"
        value = read_arguments([pair], {parameter.name: parameter})[parameter.name]
    except DatasetAgentError:
        return None
    return value if is_json else confirm(parameter, value)


def _shape(parameter: Parameter) -> str:
    """What may be said: the values, or the form, or the type."""
    many = ", several with commas" if parameter.repeated else ""
    if parameter.values:
        return one_line(f"one of {', '.join(parameter.values)}{many}")
    pattern = f" that matches {parameter.pattern}" if parameter.pattern else ""
    kind = "a STRUCT as JSON" if parameter.type is SqlType.STRUCT else parameter.type.value
    return one_line(f"{kind}{pattern}{many}")


def _period(answer: Answer, name: str) -> tuple[str, SqlType] | None:
    """The period of that name on the verified card, with the type of its bounds."""
    capability = _capability(answer)
    period = capability.period(name) if capability else None
    return None if capability is None or period is None else (period.name, period_type(capability, period))


def _capability(answer: Answer) -> DatasetCapability | None:
    target = answer.asking.target
    descriptor = target.descriptor if target else None
    if target is None or not isinstance(descriptor, DatasetDescriptor):
        return None
    return descriptor.capability(target.call.capability)


def _declared(answer: Answer, name: str) -> Parameter:
    """The parameter on the verified card. Raises ``_GivenUp`` where it has none of that name."""
    capability = _capability(answer)
    parameter = capability.parameter(name) if capability else None
    if parameter is None:
        raise _GivenUp
    return parameter
