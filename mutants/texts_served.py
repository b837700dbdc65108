"""Faults in whose rows leave, and in what an operator is told: each as a text that is replaced."""

from __future__ import annotations

from typing import Final

from mutants.text import Text

_STANDING: Final = "remote_agent/standing.py"
_LEAVING: Final = (
    Text(_STANDING, "rows of another person", "who.key, who.tenant", "who.tenant"),
    Text(_STANDING, "rows of another tenant", "who.key, who.tenant", "who.key"),
    Text(_STANDING, "rows of another class of people", ", who.principal_class, *", ", *"),
    Text(_STANDING, "rows of another narrowing", '"principal", "scope"})', '"principal", "scope", "rows"})'),
    Text(_STANDING, "rows of no authority", "one is not None and _shape(one)", "one is None or _shape(one)"),
    Text(
        _STANDING, "another policy", "(one.decision.policy_id, one.decision", "(other.decision.policy_id, one.decision"
    ),
    Text(
        _STANDING,
        "another version of a policy",
        "(one.decision.policy_id, one.decision.policy_version)",
        "(one.decision.policy_id, other.decision.policy_version)",
    ),
    Text(
        _STANDING,
        "another template",
        "return one.place()[1].template.digest ==",
        "return bool(one) or other.place() ==",
    ),
)
_MEASURES: Final = "remote_agent/measures.py"
_ROOT_MEASURES: Final = "root_agent/measures.py"
_METRICS_DOOR: Final = "metrics/door.py"
_BEARER: Final = "contract/bearer_token.py"
_TABLES: Final = "metrics/folder.py"
_OPERATED: Final = (
    Text(_METRICS_DOOR, "a wrong token", 'if token is not None and not token.is_of(scope["headers"]):', "if False:"),
    Text(_METRICS_DOOR, "this machine in production", "self._at_home and is_from_here(scope)", "is_from_here(scope)"),
    Text(_METRICS_DOOR, "another machine", "self._at_home and is_from_here(scope)", "self._at_home"),
    Text(
        _METRICS_DOOR, "a host by another name", "len(hosts) == 1 and is_loopback(_host(hosts[0]))", "len(hosts) == 1"
    ),
    Text(
        _METRICS_DOOR, "two hosts", "len(hosts) == 1 and is_loopback(_host(hosts[0]))", "is_loopback(_host(hosts[0]))"
    ),
    Text("remote_agent/admin_door.py", "a wrong token", 'if not token.is_of(scope["headers"]):', "if False:"),
    Text(_BEARER, "another token", "return same and scheme", "return scheme"),
    Text(_BEARER, "another scheme", 'return same and scheme.lower() == b"bearer"', "return same"),
    Text(_BEARER, "one of two headers", "len(lines) == 1", "lines"),
    Text(_TABLES, "a table that means something else", "if layout != layout_of(metrics):", "if False:"),
    Text(_TABLES, "a file that means something else", "if file.read(32) != layout_of(metrics) or ", "if "),
    Text(_TABLES, "gauges of a process that is gone", "if not _is_there(pid):", "if False:"),
    Text(_TABLES, "a link in place of a table", " | os.O_NOFOLLOW", ""),
    Text(_TABLES, "tables that others may read", "os.O_NOFOLLOW, 0o600)", "os.O_NOFOLLOW, 0o644)"),
)
_TOLD: Final = (
    Text(_MEASURES, "the time of a restricted call", "        if restricted:\n", "        if not decision:\n"),
    Text(_MEASURES, "the lookup of a restricted call", "steps.seconds[_FIND] = steps.seconds[_RUN] = 0.0", "pass"),
    Text("cache/tally.py", "an event of a restricted capability", 'if outcome.outcome == "WITHHELD":', "if False:"),
    Text(_ROOT_MEASURES, "the time of a restricted asking", "        if not restricted:\n", "        if True:\n"),
    Text(_ROOT_MEASURES, "the time of a restricted call", 'restricted and node == "execute"', "False"),
)

_DOOR: Final = "remote_agent/door.py"
_BEHALF: Final = "        on_behalf_of=caller.person,\n"
_SPOKEN: Final = (
    Text(_DOOR, "a message for another person", f"{_BEHALF}        operation=operation,\n", "        operation=operation,\n"),
    Text(_DOOR, "a task that is followed for another person", f"{_BEHALF}        operation=Operation(SUBSCRIBE", "        operation=Operation(SUBSCRIBE"),
    Text("remote_agent/results_door.py", "a result for another person", _BEHALF, ""),
    Text("remote_agent/extended_card.py", "a card for another person", ", on_behalf_of=caller.person)", ")"),
    Text("remote_agent/extended_card.py", "a card of what was served before", "held[0] is not world or ", ""),
)  # fmt: skip

SERVED: Final = (*_LEAVING, *_TOLD, *_OPERATED, *_SPOKEN)
