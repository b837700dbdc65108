"""Faults in the memory of spent grants, in discovery and in who is told of what: each as a text that is replaced."""

from __future__ import annotations

from typing import Final

from mutants.text import Text

_SCRIPT: Final = "grants/state_script.py"
_STATE: Final = (
    Text(_SCRIPT, "a server that may evict", "policy == 'noeviction' and ", ""),
    Text(_SCRIPT, "a server without a log", " and log == '1' and ", " and "),
    Text(_SCRIPT, "a server that is no master", " and role == 'master'", ""),
    Text(_SCRIPT, "another server than the memory was kept on", "held[7] ~= server or ", ""),
    Text(_SCRIPT, "leaves that are fewer than were counted", "tonumber(held[6]) ~= count or ", ""),
    Text(_SCRIPT, "a memory that is behind what was seen", "~= count or behind or ", "~= count or "),
    Text(_SCRIPT, "a loss that was seen elsewhere", " or behind or ARGV[7] == '1'", " or behind"),
    Text(_SCRIPT, "another memory than was seen", "(name ~= seen or epoch < seen_epoch", "(epoch < seen_epoch"),
    Text(_SCRIPT, "a count that goes back", "epoch == seen_epoch and seq < seen_seq", "false"),
    Text(
        _SCRIPT,
        "an armed instant that goes back",
        "math.max(armed, tonumber(first and ARGV[5] or ARGV[4]))",
        "tonumber(first and ARGV[5] or ARGV[4])",
    ),
    Text(_SCRIPT, "an epoch that was over", "epoch < seen_epoch or ", ""),
    Text(_SCRIPT, "an instant that is lowered", "not held or tonumber(held) < tonumber(ARGV[2])", "true"),
)

_DISCOVERY: Final = "control_plane/discovery.py"
_LEXICAL: Final = "control_plane/lexical.py"
_DISCOVERED: Final = (
    Text(_DISCOVERY, "a capability that is prohibited", "and capability.name not in descriptor.prohibited", ""),
    Text(_DISCOVERY, "a capability above clearance", "and capability.sensitivity.within(principal.clearance)", ""),
    Text(_DISCOVERY, "a dataset of another tenant", " or principal.tenant != descriptor.tenant", ""),
    Text(
        _DISCOVERY,
        "what is counted twice",
        "(self._public & ~bits_of(hidden)) | usable_bits",
        "self._public | usable_bits",
    ),
    Text(
        _DISCOVERY,
        "words of a capability that is hidden",
        "entry.public.union(item.name for item in capabilities)",
        "frozenset(item.name for item in entry.descriptor.capabilities)",
    ),
    Text(_DISCOVERY, "that there is more than may be known", "replace(self, registered=self.known)", "self"),
    Text(_LEXICAL, "matches of what is hidden", "        found &= known\n", ""),
    Text(_LEXICAL, "words counted over what is hidden", "(bits & known).bit_count()", "bits.bit_count()"),
    Text(
        _LEXICAL,
        "a slot for what may not be used",
        "        if number in usable:\n            scores[number]",
        "        if True:\n            scores[number]",
    ),
    Text("delegation/card_memory.py", "a card kept for longer than ours", "min(ttl, max(told", "max(0.0, max(told"),
    Text("contract/identity.py", "a run of no session", "        _expect(self.adk, AdkIdentity)\n", ""),
    Text("root_agent/catalogue.py", "the name of a hidden dataset", " if offer.public is not None}", "}"),
)

_ADMITTED: Final = "control_plane/discovery_admitted.py"
_PERMITTED: Final = (
    Text(_ADMITTED, "what the policies refuse", "= decision.reason not in _MAY_NOT", "= True"),
    Text(
        _ADMITTED,
        "a policy server that is waited for again and again",
        "self._undecided = self._undecided or ",
        "self._undecided = False and ",
    ),
    Text(_ADMITTED, "policies that are asked about everything", "most = max(limit, MAX_LOOKED_AT)", "most = 10**6"),
    Text(
        "root_agent/ask.py",
        "a world that was replaced meanwhile",
        "return replace(asking, world=world, principal=",
        "return replace(asking, principal=",
    ),
)

_KNOWN: Final = "grants/state_known.py"
_STAMP: Final = "stamp = (version, self.connection.total_changes, modified)"
_KNOWLEDGE: Final = (
    Text(_KNOWN, "what another connection committed", _STAMP, _STAMP.replace("version", "0")),
    Text(_KNOWN, "what this connection wrote", _STAMP, _STAMP.replace("self.connection.total_changes", "0")),
    Text(_KNOWN, "a file that was written past SQLite", _STAMP, _STAMP.replace("modified", "0")),
)

GRANTS: Final = (*_STATE, *_KNOWLEDGE, *_DISCOVERED, *_PERMITTED)
