"""Faults in what is derived, reused, answered late, shown and led of stored results: each as a text that is replaced."""

from __future__ import annotations

from typing import Final

from mutants.text import Text

_ROLLUP: Final = "queries/rollup.py"
_PLAN: Final = "queries/rollup_plan.py"
_FORMS: Final = "queries/rollup_forms.py"
_DERIVED: Final = "remote_agent/derived.py"
_FAMILY: Final = "cache/family.py"
_DERIVING: Final = (
    Text(_PLAN, "values that the stored result was not asked for", "wanted is not None and wanted <= held", "True"),
    Text(
        _PLAN, "everything out of some", "held is None or (wanted is not None and", "held is None or (wanted is None or"
    ),
    Text(_PLAN, "the end of a range", "not first <= value < end", "not first <= value <= end"),
    Text(_PLAN, "the start of a range", "not first <= value < end", "not first < value < end"),
    Text(_PLAN, "values of no list", "return items is None or value in items", "return True"),
    Text(_ROLLUP, "rows that are not asked for", "rows = [row for row in rows if chosen(row[place])]", "chosen(None)"),
    Text(_ROLLUP, "a grain that is kept", "if kept != shown:", "if False:"),
    Text(_ROLLUP, "digits of a sum", "localcontext(Context(prec=_DIGITS))", "localcontext(Context(prec=28))"),
    Text(_ROLLUP, "a sum beyond its type", "except (OverflowError, pa.ArrowInvalid):", "except pa.ArrowInvalid:"),
    Text(_ROLLUP, "a mean that is cut off", "(2 * abs(units) // count + 1) // 2", "abs(units) // count"),
    Text(_ROLLUP, "rows in another order", "reverse=term.descending", "reverse=False"),
    Text(_ROLLUP, "NULL at the other end", "if term.nulls_first else", "if not term.nulls_first else"),
    Text(_ROLLUP, "a result of any size", " if len(body) <= max_bytes else None", ""),
    Text(_FORMS, "an open list of any length", ' and none.name == "0"', ""),
    Text(_FORMS, "what stands for what is left out", "otherwise is not None and not _is_null(otherwise)", "False"),
    Text(_DERIVED, "a mask on a dimension", " or not plan.columns.isdisjoint(authority.masks)", ""),
    Text(_DERIVED, "a result that does not hold the call", " and plan.covers(wide.values, bound.values)", ""),
    Text(
        "cache/partition.py",
        "arguments that may not differ",
        "template_digest, fixed, roles]",
        "template_digest, roles]",
    ),
    Text(_FAMILY, "a list without end", "[:MOST_SOURCES]", ""),
    Text(_FAMILY, "arguments without end", "if len(orjson.dumps(dict(source.arguments))) > MOST_BYTES:", "if False:"),
    Text(_FAMILY, "what has expired", " and now < source.exp", ""),
)

_FOUND: Final = "cache/found.py"
_RESULTS_KEPT: Final = "cache/result_cache.py"
_REUSE: Final = "remote_agent/reuse.py"
_REFRESHES: Final = "remote_agent/refreshes.py"
_STALE: Final = (
    Text(_FOUND, "a result without end", "is_stale = now >= header.exp", "is_stale = False"),
    Text(_FOUND, "more than was stored for", "min(stale_s, header.stale_s)", "stale_s"),
    Text(_FOUND, "more than is allowed", "min(stale_s, header.stale_s)", "header.stale_s"),
    Text(_FOUND, "what is too old for the capability", "now - header.started > max_age_s", "False"),
    Text(
        _RESULTS_KEPT,
        "a restricted result to be answered late",
        "0 if place.partition.restricted else stale_s",
        "stale_s",
    ),
    Text(_RESULTS_KEPT, "a store that forgets what may be answered", "exp=header.end", "exp=header.exp"),
    Text(
        _REUSE,
        "a policy that does not allow it",
        "min(call.parts()[0].descriptor.freshness.stale_s or 0, authority.decision.obligations.stale_s)",
        "call.parts()[0].descriptor.freshness.stale_s or 0",
    ),
    Text(
        _REUSE,
        "a publisher who does not say so",
        "min(call.parts()[0].descriptor.freshness.stale_s or 0, authority.decision.obligations.stale_s)",
        "authority.decision.obligations.stale_s",
    ),
    Text(_FOUND, "a stored result that is too large now", "if not limits.hold(document):", "if False:"),
    Text(_DERIVED, "a derived result that is too large", " and limits.hold(made)", ""),
    Text(
        "remote_agent/limits.py",
        "a result that is too large, however it was come by",
        "if not limits.hold(result):",
        "if False:",
    ),
    Text(
        "evidence/predicate.py",
        "a statement of more rows than its limit",
        " and self.rows_returned > self.limits.max_rows",
        " and False",
    ),
    Text(
        "evidence/predicate.py",
        "a statement of more bytes than its limit",
        " and self.result.size > most",
        " and False",
    ),
    Text("contract/scope.py", "a permit that does not allow it", "min(self.stale_s, other.stale_s)", "self.stale_s"),
    Text("remote_agent/answer.py", "a refresh behind every answer", 'if told.cache.outcome == "STALE":', "if True:"),
    Text(_REFRESHES, "one refresh beside another", "key in self._running or ", ""),
    Text(_REFRESHES, "refreshes without end", " or len(self._running) >= self._most", ""),
    Text(_REFRESHES, "a refresh after the end", "if self._closed or ", "if "),
    Text(_REFRESHES, "one person's refreshes and nobody else's", "if self._of[person] >= MOST_OF_PERSON:", "if False:"),
    Text(_FOUND, "rows as of an earlier instant", "document.as_of < as_of", "False"),
    Text(
        "cache/partition.py", "the results of another agent", "media_type), agent_id), keys)", 'media_type), ""), keys)'
    ),
)
_SHOWN: Final = "cache/inspect.py"
_CHOSEN: Final = "cache/selection.py"
_PURGED: Final = "cache/verification.py"
_WITHHELD: Final = (
    Text(_SHOWN, "what a descriptor says is restricted", "known is Sensitivity.RESTRICTED or ", ""),
    Text(_SHOWN, "what a proven header says is restricted", " or (keys is not None and says_restricted)", ""),
    Text(_SHOWN, "a header that is not proven", "keys is not None and not is_proven(", "False and not is_proven("),
    Text(_SHOWN, "an entry that nothing here tells of", "(known is None or says_restricted)", "says_restricted"),
    Text(_SHOWN, "a header that is not believed", "(known is None or says_restricted)", "known is None"),
    Text(_SHOWN, "a list in a count", "is_result=not header.template.startswith(INDEX)", "is_result=True"),
    Text(
        _CHOSEN,
        "a count by every choice",
        "if entry.is_result and chosen",
        "if entry.is_result and not chosen.expired and chosen",
    ),
    Text(_CHOSEN, "the key of a mention", " or not entry.is_named", ""),
    Text(_PURGED, "what is over, of restricted ones", " and not chosen.expired and not chosen.problem", ""),
    Text("cache/entry.py", "a header of another key", 'key.encode() + b"\\x00" + read', "read"),
    Text(
        "cache/partition.py",
        "the key of who asked, in a log",
        "if not self.restricted:\n            return key\n",
        "if True:\n            return key\n",
    ),
)
_LEAD: Final = "cache/lead.py"
_LEADING: Final = (
    Text(_LEAD, "a stranger's lease", " if hmac.compare_digest(tag, _tag(key, owner, beat, keys)) else None", ""),
    Text(_LEAD, "a lease of long ago", " or told.beat / 1_000 + self._life_s + SKEW_S < now", ""),
    Text(_LEAD, "a lease that is put back", " and at - since <= self._life_s", ""),
    Text(_LEAD, "a lease that goes back", "return told.beat == beat and", "return"),
    Text(
        "cache/flight.py",
        "another leader's lease, taken back",
        "None if not seen or read_mark(seen, key, keys=keys) is not None else seen",
        "seen or None",
    ),
    Text("cache/flight.py", "a lease that ended, taken back", "None if not seen or read_mark", "None if read_mark"),
    Text(
        "cache/result_cache.py",
        "a result under a lease that a stranger wrote over",
        "kept = over is not None and await put(over)",
        "pass",
    ),
)

CACHE: Final = (*_DERIVING, *_STALE, *_WITHHELD, *_LEADING)
