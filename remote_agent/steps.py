"""How long each step of one request took. A step says its name where it is defined, and nothing else knows of it.

Times are kept for the request under way in this context and told when it ends (``measures.py``);
where none is under way, as in work that goes on after its answer, none are. Where a trace of it is kept
(``contract/tracing.py``) each step is a span too.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar
from enum import IntEnum
from time import perf_counter
from typing import Any, Final, ParamSpec, TypeVar

from contract import tracing

P = ParamSpec("P")
T = TypeVar("T")


class Step(IntEnum):
    """Those of ``answer.py``."""

    VERIFY = 0
    BIND = 1
    ADMIT = 2
    SPEND = 3
    DELEGATE = 4
    FIND = 5
    RUN = 6
    RECHECK = 7
    RECORD = 8
    SEAL = 9


_COUNT: Final = len(Step)
_PRIVATE: Final = frozenset({Step.FIND, Step.RUN})
"""What of a restricted capability is not told: whether its result was stored."""


class Steps:
    """One request: when it began (of ``perf_counter``), and for each step its seconds together and how often it ran.

    It is read once, when the request ends; what is added later is told nowhere. ``traced`` says whether its steps are spans.
    """

    __slots__ = ("began", "runs", "seconds", "traced")

    def __init__(self, began: float) -> None:
        self.began = began
        self.seconds = [0.0] * _COUNT
        self.runs = [0] * _COUNT
        self.traced = tracing.under_way()


under_way: Final[ContextVar[Steps | None]] = ContextVar("steps_under_way", default=None)


def timed(step: Step) -> Callable[[Callable[P, Awaitable[T]]], Callable[P, Coroutine[Any, Any, T]]]:
    """A step that is awaited."""
    number, name, private = int(step), step.name.lower(), step in _PRIVATE

    def decorated(function: Callable[P, Awaitable[T]]) -> Callable[P, Coroutine[Any, Any, T]]:
        async def spanned(*args: P.args, **kwargs: P.kwargs) -> T:
            with tracing.tracing(name, private=private):
                return await function(*args, **kwargs)

        @functools.wraps(function)
        async def measured(*args: P.args, **kwargs: P.kwargs) -> T:
            steps = under_way.get()
            if steps is None:
                return await spanned(*args, **kwargs)
            began = perf_counter()
            try:
                if steps.traced:
                    return await spanned(*args, **kwargs)
                return await function(*args, **kwargs)
            finally:
                steps.seconds[number] += perf_counter() - began
                steps.runs[number] += 1

        return measured

    return decorated


def timed_at_once(step: Step) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """A step that is not awaited."""
    number, name, private = int(step), step.name.lower(), step in _PRIVATE

    def decorated(function: Callable[P, T]) -> Callable[P, T]:
        def spanned(*args: P.args, **kwargs: P.kwargs) -> T:
            with tracing.tracing(name, private=private):
                return function(*args, **kwargs)

        @functools.wraps(function)
        def measured(*args: P.args, **kwargs: P.kwargs) -> T:
            steps = under_way.get()
            if steps is None:
                return spanned(*args, **kwargs)
            began = perf_counter()
            try:
                if steps.traced:
                    return spanned(*args, **kwargs)
                return function(*args, **kwargs)
            finally:
                steps.seconds[number] += perf_counter() - began
                steps.runs[number] += 1

        return measured

    return decorated
