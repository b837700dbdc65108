"""The scripts that a Redis server runs for the state store; nothing else reads or writes its keys."""

from __future__ import annotations

import hashlib
from typing import Final

from grants.state import SWEEP

_LOOK: Final = """
local function told(text, name) return string.match(text, '\\n' .. name .. ':([^\\r\\n]*)') or '' end
local policy = told(redis.call('INFO', 'memory'), 'maxmemory_policy')
local log = told(redis.call('INFO', 'persistence'), 'aof_enabled')
local replication = redis.call('INFO', 'replication')
local role = told(replication, 'role')
local server = told(redis.call('INFO', 'server'), 'run_id') .. ' ' .. told(replication, 'master_replid')
local fit = policy == 'noeviction' and log == '1' and role == 'master'
"""

ASK: Final = (
    _LOOK
    + f"""
-- KEYS: memory, spent. ARGV: 1 number of the question, 2 leaf to spend or '', 3 until when it is remembered,
-- 4 armed if something was lost, 5 armed if nothing was ever here, 6 now, 7 whether something was lost elsewhere,
-- 8 a name for a new memory, 9 to 11 the progress seen, 12 and more the names to look for
local number, leaf, now = ARGV[1], ARGV[2], tonumber(ARGV[6])
if not fit then return {{number, policy, log, role}} end
local held = redis.call('HMGET', KEYS[1], 'name', 'epoch', 'seq', 'armed', 'clock', 'spent', 'server', unpack(ARGV, 12))
local name, epoch, seq = held[1], tonumber(held[2] or 0), tonumber(held[3] or 0)
local armed, clock, count = tonumber(held[4] or 0), tonumber(held[5] or 0), redis.call('ZCARD', KEYS[2])
local seen, seen_epoch, seen_seq = ARGV[9], tonumber(ARGV[10]), tonumber(ARGV[11])

local behind = seen ~= '' and (name ~= seen or epoch < seen_epoch or (epoch == seen_epoch and seq < seen_seq))
local lost = held[7] ~= server or tonumber(held[6]) ~= count or behind or ARGV[7] == '1'
local fresh = 0
if now then
  if lost then
    local first = not name and count == 0 and seen == '' and ARGV[7] ~= '1'
    armed = math.max(armed, tonumber(first and ARGV[5] or ARGV[4]))
    epoch, seq = math.max(epoch, seen_epoch) + 1, math.max(seq, seen_seq) + 1
    name = name or (seen ~= '' and seen) or ARGV[8]
    redis.call('HSET', KEYS[1], 'name', name, 'epoch', epoch, 'seq', seq, 'armed', armed, 'clock', clock,
      'spent', count, 'server', server)
  end
  if leaf ~= '' then
    clock = math.max(clock, now)
    local old = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', string.format('(%.6f', clock), 'LIMIT', 0, {SWEEP})
    if #old > 0 then count = count - redis.call('ZREM', KEYS[2], unpack(old)) end
    fresh = redis.call('ZADD', KEYS[2], 'NX', ARGV[3], leaf)
    if fresh == 1 or #old > 0 then
      seq = seq + 1
      redis.call('HSET', KEYS[1], 'seq', seq, 'clock', string.format('%.6f', clock), 'spent', count + fresh)
    end
  end
end
return {{number, policy, log, role, name or '', epoch, seq, armed, string.format('%.6f', clock), fresh,
  {{unpack(held, 8)}}}}
"""
)
ASK_SHA: Final = hashlib.sha1(ASK.encode(), usedforsecurity=False).hexdigest()

REVOKE: Final = (
    _LOOK
    + """
-- KEYS: memory. ARGV: name, not-before instant. An instant is never lowered; a loss is left for the next spend to see.
if fit then
  local held = redis.call('HGET', KEYS[1], ARGV[1])
  if not held or tonumber(held) < tonumber(ARGV[2]) then redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) end
  redis.call('HINCRBY', KEYS[1], 'seq', 1)
end
return {policy, log, role}
"""
)

LOOK: Final = (
    _LOOK
    + """
-- KEYS: memory, spent. ARGV: the score of a leaf. Reads only: what was lost stays so, and nothing is begun.
if not fit then return {policy, log, role} end
return {policy, log, role, server, redis.call('ZCARD', KEYS[2]), redis.call('HGETALL', KEYS[1]),
  redis.call('ZRANGEBYSCORE', KEYS[2], ARGV[1], ARGV[1])}
"""
)
