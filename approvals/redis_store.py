"""Approvals in Redis or Valkey (6.0 or newer), shared by the machines of one dataset agent.

One hash an agent, a field a record, and beside it an index: of each task until when, whose and which its
record is. Whoever asks for any task, which costs them nothing, costs two looks; and a new record is held
against the index, however large the others are, since the server stands still meanwhile for whoever spends
a leaf. Each change is one script, all or nothing. The server is the one of the state store, which must not
forget: it is checked there. What lies in it is sealed, so whoever else may write there can lose approvals and
can make none.

The account needs ``EVAL HDEL HGET HGETALL HLEN HSET``.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
from collections.abc import Awaitable, Callable
from typing import Any, Final, cast

from redis.asyncio import Redis
from redis.exceptions import RedisError

from approvals.store import MOST, MOST_OF_ONE, Held, StoreUnavailable, check_successor
from contract.redis_server import RedisServer

BUDGET_S: Final = 1.0
_MEMBERS: Final = {"id", "task", "owner", "version", "until", "sealed"}
_FAULTS: Final = (RedisError, OSError, ValueError, TypeError, KeyError)  # TimeoutError is an OSError


def hash_of(agent_id: str) -> str:
    """The key of an agent's approvals; in a cluster it lies beside the state."""
    return "{dataset-agent}:approvals:2:" + hashlib.sha256(agent_id.encode()).hexdigest()[:32]


ADD: Final = f"""
-- KEYS: the records, the index. ARGV: id, task, owner, now, the record, its line in the index
local kept, own = 0, 0
local all = redis.call('HGETALL', KEYS[2])
for at = 1, #all, 2 do
  local till, owner, id = string.match(all[at + 1], '^(%S+) (%S+) (%S+)$')
  if tonumber(till) <= tonumber(ARGV[4]) then
    redis.call('HDEL', KEYS[1], id)
    redis.call('HDEL', KEYS[2], all[at])
  else
    if id == ARGV[1] or all[at] == ARGV[2] then return 0 end
    kept = kept + 1
    if owner == ARGV[3] then own = own + 1 end
  end
end
if kept >= {MOST} or own >= {MOST_OF_ONE} then return 0 end
redis.call('HSET', KEYS[2], ARGV[2], ARGV[6])
return redis.call('HSET', KEYS[1], ARGV[1], ARGV[5])
"""
OF_TASK: Final = """
-- KEYS: as above. ARGV: task
local line = redis.call('HGET', KEYS[2], ARGV[1])
return line and redis.call('HGET', KEYS[1], string.match(line, '(%S+)$'))
"""
SWAP: Final = """
-- KEYS: as above. ARGV: id, the record that was read, what comes in its place or '', task, its line in the index
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
if ARGV[3] == '' then
  redis.call('HDEL', KEYS[1], ARGV[1])
  redis.call('HDEL', KEYS[2], ARGV[4])
else
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
  redis.call('HSET', KEYS[2], ARGV[4], ARGV[5])
end
return 1
"""


class RedisApprovals:
    """An ``ApprovalStore``. Nothing is sent twice: what may have happened is read, not repeated."""

    def __init__(self, server: RedisServer, agent_id: str, *, budget: float = BUDGET_S) -> None:
        self._server = server
        self._key = hash_of(agent_id)
        self._index = f"{self._key}:index"
        self._budget = budget

    async def add(self, held: Held, *, now: float) -> bool:
        return await self._told(ADD, held.id, held.task_id, held.owner, repr(now), _text(held), _line(held))

    async def get(self, approval_id: str) -> Held | None:
        found = await self._ask(lambda server: cast(Any, server.hget(self._key, approval_id)))
        return None if found is None else _read(found)

    async def of_task(self, task_id: str) -> Held | None:
        found = await self._run(OF_TASK, task_id)
        return None if found is None else _read(found)

    async def all(self) -> list[Held]:
        found = await self._ask(lambda server: cast(Any, server.hgetall(self._key)))
        return [_read(text) for text in found.values()]

    async def swap(self, old: Held, new: Held) -> bool:
        check_successor(old, new)
        return await self._told(SWAP, old.id, _text(old), _text(new), old.task_id, _line(new))

    async def remove(self, old: Held) -> bool:
        return await self._told(SWAP, old.id, _text(old), "", old.task_id, "")

    async def health(self) -> None:
        await self._ask(lambda server: cast(Any, server.hlen(self._key)))

    async def close(self) -> None:
        await self._server.close()

    async def _told(self, script: str, *arguments: str) -> bool:
        return int(await self._run(script, *arguments)) == 1

    async def _run(self, script: str, *arguments: str) -> Any:
        return await self._ask(lambda server: cast(Any, server.eval(script, 2, self._key, self._index, *arguments)))

    async def _ask(self, question: Callable[[Redis], Awaitable[Any]]) -> Any:
        try:
            async with asyncio.timeout(self._budget):
                return await self._server.ask(question)
        except _FAULTS as error:
            raise StoreUnavailable(f"the store of approvals does not answer ({type(error).__name__})") from error


def _text(held: Held) -> str:
    """One spelling of a record, which a swap compares."""
    members = {
        "id": held.id,
        "task": held.task_id,
        "owner": held.owner,
        "version": held.version,
        "until": held.until,
        "sealed": held.sealed,
    }
    return json.dumps(members, separators=(",", ":"), sort_keys=True)


def _line(held: Held) -> str:
    """What the index says of a record. None of the three holds a blank."""
    return f"{held.until!r} {held.owner} {held.id}"


def _read(text: str) -> Held:
    """Raises ``StoreUnavailable`` for what is no record of ours."""
    try:
        told = json.loads(text)
        if set(told) != _MEMBERS or type(told["version"]) is not int:
            raise ValueError("not a record")
        texts = [told[name] for name in ("id", "task", "owner", "sealed")]
        until = float(told["until"])
        if not all(type(one) is str for one in texts) or not math.isfinite(until):
            raise ValueError("not a record")
    except (ValueError, TypeError) as error:
        raise StoreUnavailable("the store of approvals holds what this program did not write") from error
    return Held(told["id"], told["task"], told["owner"], told["version"], until, told["sealed"])
