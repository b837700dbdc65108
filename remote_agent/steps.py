"""How long each step of one request took. A step says its name where it is defined, and nothing else knows of it.

Times are kept for the request under way in this context and told when it ends (``measures.py``);
where none is under way, as in work that goes on after its answer, nothing is kept.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar
from enum import IntEnum
from time import perf_counter
from typing import Any, Final, ParamSpec, TypeVar

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


class Steps:
    """One request: when it began (of ``perf_counter``), and for each step its seconds together and how often it ran.

    It is read once, when the request ends; what is added later is told nowhere.
    """

    __slots__ = ("began", "runs", "seconds")

    def __init__(self, began: float) -> None:
        self.began = began
        self.seconds = [0.0] * _COUNT
        self.runs = [0] * _COUNT


under_way: Final[ContextVar[Steps | None]] = ContextVar("steps_under_way", default=None)


def timed(step: Step) -> Callable[[Callable[P, Awaitable[T]]], Callable[P, Coroutine[Any, Any, T]]]:
    """A step that is awaited."""
    number = int(step)

    def decorated(function: Callable[P, Awaitable[T]]) -> Callable[P, Coroutine[Any, Any, T]]:
        @functools.wraps(function)
        async def measured(*args: P.args, **kwargs: P.kwargs) -> T:
            steps = under_way.get()
            if steps is None:
                return await function(*args, **kwargs)
            began = perf_counter()
            try:
                return await function(*args, **kwargs)
            finally:
                steps.seconds[number] += perf_counter() - began
                steps.runs[number] += 1

        return measured

    return decorated


def timed_at_once(step: Step) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """A step that is not awaited."""
    number = int(step)

    def decorated(function: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(function)
        def measured(*args: P.args, **kwargs: P.kwargs) -> T:
            steps = under_way.get()
            if steps is None:
                return function(*args, **kwargs)
            began = perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                steps.seconds[number] += perf_counter() - began
                steps.runs[number] += 1

        return measured

    return decorated
