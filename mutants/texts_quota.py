"""Faults in what one caller may ask: each as a text that is replaced."""

from __future__ import annotations

from typing import Final

from mutants.text import Text

_LIMITER: Final = "quota/limiter.py"
_RATE: Final = "quota/rate.py"
_FILE: Final = "quota/sqlite_store.py"
_SERVER: Final = "quota/redis_store.py"
_STORE: Final = "quota/store.py"
_HERE: Final = "remote_agent/quotas.py"
_ROOT: Final = "root_agent/quotas.py"

QUOTA: Final = (
    Text(_LIMITER, "a limit that is not counted", "                await self._take(self._store, caller, rate, share, now)", "                pass"),
    Text(_LIMITER, "a share that does not end", "if not self.since <= now <= self.since + KEPT_S:", "if False:"),
    Text(_LIMITER, "a share that is not used up", "        self.left -= 1\n", ""),
    Text(_LIMITER, "a share that is all of it", "return max(1, min(rate.burst // _BURST_SHARES, math.ceil(rate.per_second / _SHARES_A_SECOND)))", "return rate.burst"),
    Text(_LIMITER, "what is known to be over asked of the store again", "return self.blocked_until - now if self.since <= now < self.blocked_until else 0.0", "return 0.0"),
    Text(_LIMITER, "callers who are kept without end", "if len(self._shares) > _MOST_KNOWN:", "if False:"),
    Text(_LIMITER, "a place that is not left", "            await store.leave(rooms, holder)\n", "            pass\n"),
    Text(_LIMITER, "a place that ends under an execution", "await store.stay(rooms, holder, until=clock() + PLACE_S)", "pass"),
    Text(_LIMITER, "a limit that nobody is told of", "        self.exceeded(limit)\n", ""),
    Text(_LIMITER, "a rate under a name that can be tried out", "store.take(self._names.of(caller.key), rate,", "store.take(caller.key, rate,"),
    Text(_LIMITER, "a place under a name that can be tried out", "Room(self._names.of(caller.key), most)", "Room(caller.key, most)"),
    Text(_STORE, "a name without its secret", "hmac.digest(self._key, key.encode(), hashlib.sha256)", "hashlib.sha256(key.encode()).digest()"),
    Text("remote_agent/lifecycle.py", "callers under a secret that was replaced", "            self.service.limiter.take_over(names)\n", ""),
    Text(_LIMITER, "one count for agents that share a store", 'return cls("agent", key_of("agent", at, agent_id))', 'return cls("agent", key_of("agent", agent_id))'),
    Text(_LIMITER, "one count for a person at agents that share a store", 'key_of("person", at, issuer, tenant, subject)', 'key_of("person", issuer, tenant, subject)'),
    Text(_LIMITER, "one count for a person of two tenants", 'key_of("person", at, issuer, tenant, subject)', 'key_of("person", at, issuer, subject)'),
    Text(_RATE, "more than there is", "number = min(wanted, math.floor((now + rate.room_s - start + ROUNDING_S) / rate.step_s))", "number = wanted"),
    Text(_RATE, "a pause that saves up more than a burst", "start = max(at, now) if known and at is not None else now", "start = at if known and at is not None else now"),
    Text(_RATE, "a clock that locks its callers out", "known = at is not None and at <= now + rate.room_s + ROUNDING_S", "known = at is not None"),
    Text(_FILE, "calls that are not remembered", '            db.execute("INSERT OR REPLACE INTO rates VALUES (?, ?)", (key, at))\n', ""),
    Text(_FILE, "executions that are not bounded", "if held >= room.most:", "if False:"),
    Text(_FILE, "a place of who was killed that does not end", '                db.execute("DELETE FROM places WHERE key = ? AND until <= ?", (room.key, now))\n', ""),
    Text(_FILE, "a turn that is not taken", 'db.execute("BEGIN IMMEDIATE")', 'db.execute("BEGIN")'),
    Text(_FILE, "a file that others read", "        create_private(self._path)\n", "        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)\n"),
    Text(_SERVER, "more than there is", "local number = math.min(wanted, math.floor((now + room - start + 1e-6) / step))", "local number = wanted"),
    Text(_SERVER, "a clock that locks its callers out", "local start = at <= now + room + 1e-6 and math.max(at, now) or now", "local start = math.max(at, now)"),
    Text(_SERVER, "calls that are not remembered", "redis.call('SET', KEYS[1], string.format('%.6f', at), 'PX', math.ceil((at - now) * 1000) + 1000)\n", ""),
    Text(_SERVER, "executions that are not bounded", "  if redis.call('ZCARD', KEYS[at]) >= tonumber(ARGV[at + 3]) then return at end\n", ""),
    Text(_SERVER, "a place of who was killed that does not end", "  redis.call('ZREMRANGEBYSCORE', KEYS[at], '-inf', ARGV[3])\n", ""),
    Text(_SERVER, "a place that ended and is taken again", "  if redis.call('ZSCORE', KEYS[at], ARGV[1]) then\n", "  if true then\n"),
    Text(_STORE, "identities that run into each other", 'digest.update(len(raw).to_bytes(8, "big") + raw)', "digest.update(raw)"),
    Text(_HERE, "a 429 without its hint", "                retry_after=over.retry_after_s,\n", ""),
    Text(_HERE, "a person's limit without its hint", "raise NotGranted(Reason.RATE_LIMITED, str(over), retry_after_s=over.retry_after_s)", "raise NotGranted(Reason.RATE_LIMITED, str(over))"),
    Text(_HERE, "a bound of executions without its hint", "raise NotGranted(Reason.CONCURRENCY_LIMITED, str(over), retry_after_s=over.retry_after_s)", "raise NotGranted(Reason.CONCURRENCY_LIMITED, str(over))"),
    Text(_HERE, "executions that count for their person alone", "callers = [_person(grant, service), Caller.agent(grant.client, at=service.agent_id)]", "callers = [_person(grant, service)]"),
    Text(_HERE, "executions that count for their agent alone", "callers = [_person(grant, service), Caller.agent(grant.client, at=service.agent_id)]", "callers = [Caller.agent(grant.client, at=service.agent_id)]"),
    Text(_ROOT, "a 429 without its hint", "raise _fault(Category.RATE_LIMITED, \"rate\", str(over), over.retry_after_s)", "raise _fault(Category.RATE_LIMITED, \"rate\", str(over), None)"),
    Text("contract/problem.py", "a 429 without Retry-After", 'headers.append((b"retry-after", b"%d" % max(1, math.ceil(error.retry_after))))', "pass"),
    Text("root_agent/app.py", "a 429 without Retry-After", 'headers["Retry-After"] = str(max(1, round(error.retry_after)))', "pass"),
    Text("remote_agent/answer.py", "a person who is not counted", "    await limit(grant, service, now)\n", ""),
    Text("remote_agent/answer.py", "executions that are not bounded", "async with executing(authority, service):", "if True:"),
    Text("remote_agent/app.py", "agents that are not counted", "count=counting(service),", "count=None,"),
    Text("root_agent/entry.py", "a person who is not counted", "        await limit(person, self.service)\n", ""),
)  # fmt: skip
