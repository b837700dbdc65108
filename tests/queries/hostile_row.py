"""One row of the hostile corpus: a template, what it declares, its arguments, and how it must end.

To add one, append it to a list of a ``hostile_*`` file: ``refused`` where loading must refuse it,
``unfit`` where an argument must, ``bounded`` where it may run and must stay within its limits.
Whatever is said here, every row is held to the same: no marker in anything that comes out, no
more memory and no more time than allowed (``hostile_world``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from contract.schema import Parameter
from tests.queries.world import parameter

End = Literal["load", "arguments", "run"]


@dataclass(frozen=True, slots=True)
class Hostile:
    """``slow`` rows need their whole time limit, or a good part of it: ``make test-hostile`` runs them."""

    name: str
    sql: str
    declared: str
    end: End
    parameters: tuple[Parameter, ...] = ()
    arguments: tuple[tuple[str, Any], ...] = ()
    slow: bool = False


def refused(name: str, sql: str, declared: str = "x:STRING", *parameters: Parameter) -> Hostile:
    """Loading it is refused, or binding it once to the engine."""
    return Hostile(name, sql, declared, "load", parameters)


def unfit(name: str, value: Any, kind: str = "STRING", **rules: Any) -> Hostile:
    """An argument ``p`` of that type that is refused before anything runs."""
    used = "note IN UNNEST(@p)" if kind.endswith("[]") else "@p IS NOT NULL"
    sql = f"SELECT COUNT(*) AS x FROM orders WHERE {used}"
    return Hostile(name, sql, "x:INT64", "arguments", (parameter(f"p:{kind}", **rules),), (("p", value),))


def bounded(
    name: str,
    sql: str,
    declared: str = "x:INT64",
    *parameters: Parameter,
    slow: bool = False,
    arguments: Mapping[str, Any] | None = None,
) -> Hostile:
    """It loads; what it does then stays within its limits, whether it answers or is stopped."""
    return Hostile(name, sql, declared, "run", parameters, tuple((arguments or {}).items()), slow)
