"""``dataset-agent serve`` on a free port, with a line in a file for every query that its engine really runs.

And one in another for every command that its cache did not answer in time: the cache has the time that it has
in production, and where it fails, equal calls are each on their own.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from cache.breaker import Breaker
from cache.store import StoreUnavailable
from dataset_agent.serving import serve
from grants.state_redis import RedisState
from tests.engine_taps import count_all, hold_all

EXECUTIONS: Final = "RACE_EXECUTIONS"
"""The environment's name of that file; a line is the process."""
HOLD: Final = "RACE_HOLD"
"""The environment's name of a file that may be there: while it is, what runs does not end."""
UNANSWERED: Final = "RACE_UNANSWERED"
"""The environment's name of a file with a line for what the cache did not answer."""
BUDGET_S: Final = 10.0
"""The machine of a race may be slow, and a state store that is silent is none: what races is not its budget."""
_LOOK_S: Final = 0.01


def main() -> None:
    runs = os.open(os.environ[EXECUTIONS], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    hold = Path(os.environ[HOLD])

    async def held() -> None:
        while hold.exists():
            await asyncio.sleep(_LOOK_S)

    RedisState.open.__func__.__kwdefaults__["budget"] = BUDGET_S  # type: ignore[attr-defined]
    unanswered = os.open(os.environ[UNANSWERED], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    note_faults(lambda: os.write(unanswered, b"%d\n" % os.getpid()))
    hold_all(held)
    count_all(lambda: os.write(runs, b"%d\n" % os.getpid()))
    serve(0, None, as_json=True)


def note_faults(happened: Callable[[], object]) -> None:
    """Call ``happened`` whenever a command of this process's cache fails, or is not sent since others failed."""
    inner = Breaker.call

    async def call(self: Breaker, attempt: Any) -> Any:
        try:
            return await inner(self, attempt)
        except StoreUnavailable:
            happened()
            raise

    Breaker.call = call  # type: ignore[method-assign]


if __name__ == "__main__":
    main()
