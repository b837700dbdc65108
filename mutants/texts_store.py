"""Faults in how a stored entry is sealed, and in how long and how the store is asked: each as a text that is replaced."""

from __future__ import annotations

from typing import Final

from mutants.text import Text

_ENTRY: Final = "cache/entry.py"
_LANE: Final = "cache/redis_lane.py"
_ALLOWANCE: Final = "cache/allowance.py"

_SEALED: Final = (
    Text(_ENTRY, "one nonce for all entries", "nonce = os.urandom(_NONCE)", "nonce = bytes(_NONCE)"),
    Text(_ENTRY, "a header that nobody proved", "return hmac.compare_digest(header.proof, _proof(header._replace(proof=\"\"), key, keys))", "return bool(header.proof)"),
    Text(_ENTRY, "a large result as it is", "is_large = len(body) > PLAIN_BYTES", "is_large = False"),
    Text(_ENTRY, "a small result in a block", "is_large = len(body) > PLAIN_BYTES", "is_large = True"),
    Text(_ENTRY, "a cut entry as a fault of the cache", "except (InvalidTag, ValueError, OverflowError) as error:", "except InvalidTag as error:"),
    Text(_ENTRY, "a damaged block as a fault of the cache", "except (OSError, struct.error, ValueError, TypeError) as error:", "except (struct.error, ValueError, TypeError) as error:"),
    Text(_ENTRY, "a payload without its sizes as a fault of the cache", "except (OSError, struct.error, ValueError, TypeError) as error:", "except (OSError, ValueError, TypeError) as error:"),
    Text(_ENTRY, "facts of another number as a fault of the cache", "except (OSError, struct.error, ValueError, TypeError) as error:", "except (OSError, struct.error, ValueError) as error:"),
    Text(_ENTRY, "a header of two readings", "        parse_json(entry[_START:end], limit=MAX_HEADER)\n", "        pass\n"),
    Text(_ENTRY, "when it must not be served any more", "return self.exp + self.stale_s", "return self.exp"),
    Text(_ENTRY, "the secret that sealed it", "unproven = header._replace(kid=keys.kid, proof=\"\")", "unproven = header._replace(proof=\"\")"),
)  # fmt: skip
_ASKED: Final = (
    Text(_LANE, "an answer for the next one", "disconnect_on_error=True", "disconnect_on_error=False"),
    Text(_LANE, "connections without end", "async with limit, self._turns:", "async with limit:"),
    Text(_LANE, "a budget that is none", "limit = Limit(self._budget_s)", "limit = Limit(20 * self._budget_s)"),
    Text(_LANE, "a command that is sent again to a server that is away", "                if not reused:\n                    raise\n", "                pass\n"),
    Text(_LANE, "a connection that the server closed, as a fault", "                if not reused:\n                    raise\n", "                raise\n"),
    Text(_LANE, "a connection for each command", "            return await _exchange(lane, command, asking=asking)\n        finally:\n            self._put_back(address, lane)\n", "            return await _exchange(lane, command, asking=asking)\n        finally:\n            await lane.disconnect()\n"),
    Text(_LANE, "what a server said", "({type(error).__name__})", "({error})"),
    Text(_LANE, "a slow call as a silent store", "if isinstance(error, TimeoutError) and not limit.is_fair:", "if False:"),
    Text(_LANE, "a silent store as a fault of any kind", "    if isinstance(error, TimeoutError):\n        return StoreSilent(", "    if False:\n        return StoreSilent("),
    Text(_LANE, "a key of another type, as a store that is away", "    if is_wrong_type(error):\n", "    if False:\n"),
    Text(_LANE, "characters in place of bytes", "% (len(data), data)", "% (len(part if isinstance(part, (bytes, str)) else data), data)"),
    Text(_LANE, "where a key is now", "                    self._route.moved(key, address)\n", "                    pass\n"),
    Text(_LANE, "a key that moves just now", "    if asking:\n        await lane.send_command(\"ASKING\", check_health=False)\n        await _answer(lane)\n", ""),
    Text(_LANE, "the key of a script", "place = 3 if command[0] == \"EVAL\" else 1", "place = 1"),
    Text(_LANE, "one of many that is elsewhere", "if isinstance(answer, AskError | ReadOnlyError):", "if False:"),
    Text(_LANE, "one of many that fails", "    try:\n        return await _answer(lane)\n    except ResponseError as error:\n        return error\n", "    return await _answer(lane)\n"),
)  # fmt: skip
_WAITED: Final = (
    Text(_ALLOWANCE, "more than the call has left", "self._most = most if allowance is None else min(most, allowance.left)", "self._most = most"),
    Text(_ALLOWANCE, "what was waited for", "            self._allowance.left -= self._spent + self._counted(self._loop.time())\n", "            pass\n"),
    Text(_ALLOWANCE, "a call that has waited, as a store that is silent", "self.is_fair = self._most >= whole * _FAIR", "self.is_fair = True"),
    Text(_ALLOWANCE, "time in which nobody could read", "return min(now - self._at, _TURN_S)", "return now - self._at"),
    Text(_ALLOWANCE, "an answer that came while the loop was busy", "            self._timer = self._loop.call_at(now + _GRACE_S, self._stop)\n", "            self._stop()\n"),
    Text(_ALLOWANCE, "what goes on beside a call", "return Within(None)", "return Within(present())"),
    Text(_ALLOWANCE, "a call that another one follows", "_present.reset(self._token)", "pass"),
    Text(_ALLOWANCE, "a limit that goes on behind its block", "        self._steps.end(self)\n        if self._timer is not None:\n            self._timer.cancel()\n        if self._allowance", "        if self._timer is not None:\n            self._timer.cancel()\n        if self._allowance"),
    Text(_ALLOWANCE, "an end that comes behind its block", "        if self._timer is not None:\n            self._timer.cancel()\n        if self._allowance", "        if self._allowance"),
    Text(_ALLOWANCE, "a cancellation as a timeout", "if self._is_over and self._task.uncancel() <= self._cancelling and kind", "if self._is_over and self._task.uncancel() <= 9 and kind"),
    Text(_ALLOWANCE, "another fault as a timeout", "<= self._cancelling and kind is asyncio.CancelledError:", "<= self._cancelling:"),
    Text(_ALLOWANCE, "a timer for each", "        if not self._goes_on:\n", "        if True:\n"),
    Text(_ALLOWANCE, "limits that nobody looks at any more", "self._goes_on = bool(self._limits)", "self._goes_on = False"),
    Text(_ALLOWANCE, "a timer that never ends", "self._goes_on = bool(self._limits)", "self._goes_on = True"),
)  # fmt: skip
STORE: Final = (*_SEALED, *_ASKED, *_WAITED)
