"""Tasks of calls that take long: how one is begun, what it leaves in the ledger, and what became of it."""

from __future__ import annotations

import itertools
from typing import Any

from tests.remote_agent.long_world import Client, Held, state_of, until
from tests.running_agent import RunningAgent

WORKING, DONE, CANCELED = "TASK_STATE_WORKING", "TASK_STATE_COMPLETED", "TASK_STATE_CANCELED"
PAIRS = itertools.permutations([f"B{number:03d}" for number in range(1, 200)], 2)


def fresh(client: Client) -> bytes:
    """A call that nobody made before."""
    first, second = next(PAIRS)
    return client.call({"batch_a": first, "batch_b": second})


def detached(client: Client, holding: Held) -> dict[str, Any]:
    task = client.send(fresh(client), now=True)
    assert state_of(task) == WORKING
    until(lambda: holding.began)
    return task


def rows_of(agent: RunningAgent, task_id: str) -> list[dict[str, Any]]:
    """The evidence of one task, subscriptions included."""
    return [dict(row.cells) for row in agent.rows() if row.cells["task_id"] == task_id]


def reasons(client: Client, task_id: str) -> list[str]:
    return [str(row["reason"]) for row in rows_of(client.agent, task_id)]


def ended(client: Client, task_id: str) -> dict[str, Any]:
    """The task once it does not work any more."""

    def found() -> dict[str, Any] | None:
        task = client.get(task_id)
        return task if state_of(task) != WORKING else None

    return dict(until(found))
