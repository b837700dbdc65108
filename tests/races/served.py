"""``dataset-agent serve`` on a free port, with a line in a file for every query that its engine really runs."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Final

from cache.redis_store import RedisStore
from dataset_agent.serving import serve
from grants.state_redis import RedisState
from tests.engine_taps import count_all, hold_all

EXECUTIONS: Final = "RACE_EXECUTIONS"
"""The environment's name of that file; a line is the process."""
HOLD: Final = "RACE_HOLD"
"""The environment's name of a file that may be there: while it is, what runs does not end."""
BUDGET_S: Final = 10.0
"""The machine of a race may be slow, and a store that is silent is none: what races is not the budget."""
_LOOK_S: Final = 0.01


def main() -> None:
    runs = os.open(os.environ[EXECUTIONS], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    hold = Path(os.environ[HOLD])

    async def held() -> None:
        while hold.exists():
            await asyncio.sleep(_LOOK_S)

    RedisStore.connect.__func__.__kwdefaults__["budget_s"] = BUDGET_S  # type: ignore[attr-defined]
    RedisState.open.__func__.__kwdefaults__["budget"] = BUDGET_S  # type: ignore[attr-defined]
    hold_all(held)
    count_all(lambda: os.write(runs, b"%d\n" % os.getpid()))
    serve(0, None, as_json=True)


if __name__ == "__main__":
    main()
