"""Faults that no pattern finds: what rewrites, bounds, hides or keeps, each as a text that is replaced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Text:
    """``old`` occurs exactly once in the file."""

    path: str
    name: str
    old: str
    new: str


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
        "(self._public & ~_bits(hidden)) | usable_bits",
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

_KNOWN: Final = "grants/state_known.py"
_STAMP: Final = "stamp = (version, self.connection.total_changes, modified)"
_KNOWLEDGE: Final = (
    Text(_KNOWN, "what another connection committed", _STAMP, _STAMP.replace("version", "0")),
    Text(_KNOWN, "what this connection wrote", _STAMP, _STAMP.replace("self.connection.total_changes", "0")),
    Text(_KNOWN, "a file that was written past SQLite", _STAMP, _STAMP.replace("modified", "0")),
)

_GOVERN: Final = "queries/govern.py"
_CONDITIONS: Final = "queries/conditions.py"
_ROWS: Final = (
    Text(_GOVERN, "a base table as it is", "if name is not None:", "if False:"),
    Text(_GOVERN, "row constraints that are not in the text", "if wanted:", "if False:"),
    Text(_GOVERN, "a mask that is not in the text", "value if mask is None else masked(column, mask, value)", "value"),
    Text(_GOVERN, "columns that nobody reads", "if column.name in base_columns(node):", "if True:"),
    Text(_GOVERN, "a subject that is counted masked", "if is_stored_subject(column):", "if False:"),
    Text(_GOVERN, "a mask of no column", "        _column(template, name)\n    masks = ", "        pass\n    masks = "),
    Text(_GOVERN, "a narrower constraint than the policy's", " and constraint.covers(own)", ""),
    Text(_GOVERN, "a column that the grant leaves out", "shown = shown and name in authority.columns", "pass"),
    Text(_GOVERN, "counts that are not rounded", "rule.round_counts_to is not None and ", ""),
    Text(_GOVERN, "sums that are not rounded", " and hides_sums(rule)", ""),
    Text(_CONDITIONS, "one_of", "return _one_of(column, held)", "return exp.true()"),
    Text(_CONDITIONS, "not_one_of", "exp.Not(this=_one_of(column, held))", "exp.true()"),
    Text(
        _CONDITIONS,
        "NULL, which is outside no list",
        "exp.And(this=present, expression=exp.Not(this=_one_of(column, held)))",
        "exp.Not(this=_one_of(column, held))",
    ),
    Text(_CONDITIONS, "max", "return exp.LTE(this=column, expression=held)", "return exp.true()"),
    Text(_CONDITIONS, "min", "return exp.GTE(this=column, expression=held)", "return exp.true()"),
    Text(_CONDITIONS, "prefix", "return exp.StartsWith(this=column, expression=held)", "return exp.true()"),
)

_MASKS: Final = "queries/masks.py"
_MACROS: Final = "queries/duckdb_macros_text.py"
_COLUMNS: Final = (
    Text(_MASKS, "hash", "return _marked(MASK_HASH, column.type, key, value)", "return value"),
    Text(_MASKS, "truncate a text", "return _marked(MASK_TRUNCATE, column.type, value)", "return value"),
    Text(_MASKS, "truncate a moment", "return _year(column.type, value)", "return value"),
    Text(_MASKS, "a mask without a form", "return cast(exp.Null(), None, column.type)", "return value"),
    Text(_MASKS, "a mask of something nested", "return _nothing(kind)", "return value"),
    Text(_MASKS, "a key for all datasets", '/dataset/" + dataset.encode()', '/dataset/"'),
    Text(_MACROS, "a hash of a text without its key", "sha256(k || x)", "sha256(x)"),
    Text(_MACROS, "more than half of a text", "least(4, length(x) // 2)", "4"),
    Text(_MACROS, "more than four characters", "least(4, length(x) // 2)", "length(x) // 2"),
)

_GROUPS: Final = "queries/groups.py"
_GUARDS: Final = "queries/group_guards.py"
_ROUNDING: Final = "queries/rounding.py"
_GROUPED: Final = (
    Text(_GROUPS, "a minimum that is not in the text", 'select.set("having", exp.Having(this=condition))', "pass"),
    Text(
        _GROUPS,
        "a written HAVING instead of the minimum",
        "exp.Case(ifs=[exp.If(this=condition, true=exp.Paren(this=written.this))], default=exp.false())",
        "written.this",
    ),
    Text(_GUARDS, "rows that are counted as subjects", "this=exp.Distinct(expressions=[who])", "this=who"),
    Text(_GUARDS, "a group of many of whom few have a value", "aggregate.replace(guarded)", "pass"),
    Text(_GROUPS, "subjects that are counted as they are shown", "column.meta[_STORED] = True", "pass"),
    Text(
        _GROUPS,
        "a minimum that is rounded itself",
        "if not any(is_stored_subject(column) for column in node.find_all(exp.Column))",
        "if True",
    ),
    Text(_GROUPS, "a list of one of a few", " and not parameter.repeated", ""),
    Text(_GROUPS, "NULL or one of a few", " and not parameter.nullable", ""),
    Text(_GROUPS, "a parameter that pages and filters", "bool(uses) and all(", "bool(uses) and any("),
)
_ROUNDED: Final = (
    Text(_ROUNDING, "a count as it is", "isinstance(node, exp.Count) and counts is not None", "False"),
    Text(_ROUNDING, "a sum as it is", "isinstance(node, exp.Sum) and sums is not None", "False"),
    Text(_ROUNDING, "a mean as it is", "isinstance(node, exp.Avg) and sums is not None and counts", "False and counts"),
    Text(
        _ROUNDING,
        "a mean of an exact sum",
        "_as(_to_step(total, kind, sums), kind, target)",
        "_as(total, kind, target)",
    ),
    Text(
        _ROUNDING,
        "a mean over an exact count",
        "_as(_to_step(counted, SqlType.INT64, counts), SqlType.INT64, target)",
        "_as(counted, SqlType.INT64, target)",
    ),
)

_CONNECTION: Final = "queries/duckdb_connection.py"
_DATABASE: Final = "queries/duckdb_file.py"
_CALL: Final = "queries/duckdb_call.py"
_GROWTH: Final = "queries/growth.py"
_ENGINE: Final = (
    Text(_CONNECTION, "a file that can be written", "read_only=True", "read_only=False"),
    Text(_CONNECTION, "variables of this process", '        "SET GLOBAL python_enable_replacements=false",\n', ""),
    Text(_CONNECTION, "extensions that are installed", '        "SET autoinstall_known_extensions=false",\n', ""),
    Text(_CONNECTION, "extensions that are loaded", '        "SET autoload_known_extensions=false",\n', ""),
    Text(_CONNECTION, "extensions of anybody", '        "SET allow_community_extensions=false",\n', ""),
    Text(_CONNECTION, "secrets on the disk", '        "SET allow_persistent_secrets=false",\n', ""),
    Text(_CONNECTION, "a folder for what does not fit", "        \"SET temp_directory=''\",\n", ""),
    Text(_CONNECTION, "memory without a bound", "        f\"SET memory_limit='{memory_limit}'\",\n", ""),
    Text(_CONNECTION, "threads without a bound", '        f"SET threads={threads}",\n', ""),
    Text(_CONNECTION, "expressions of any depth", '        "SET GLOBAL max_expression_depth=250",\n', ""),
    Text(
        _CONNECTION,
        "a query of any time",
        '        f"SET GLOBAL max_execution_time={int((timeout + _GRACE) * 1000)}",\n',
        "",
    ),
    Text(_CONNECTION, "files and addresses", '        "SET enable_external_access=false",\n', ""),
    Text(_CONNECTION, "settings that can be changed", '        "SET lock_configuration=true",\n', ""),
    Text(_DATABASE, "a database that others can read", "os.chmod(temporary, 0o600)", "pass"),
    Text(_DATABASE, "a folder that others can read", "mode=0o700, ", ""),
    Text(_CALL, "large values inside this process", "value_bytes > self._largest)", "False)"),
    Text(
        _CALL,
        "the size of supplied rows",
        "longest = max(longest, min(len(supplied.body), MAX_SUPPLIED_BYTES))",
        "pass",
    ),
    Text(_GROWTH, "what is not listed", "        return inf\n\n    def _call", "        return 1\n\n    def _call"),
    Text(_GROWTH, "a function that is not listed", "_OF_FIRST.get(name, inf)", "_OF_FIRST.get(name, 1)"),
    Text(_GROWTH, "a list of a query", "inf if array_query(node) is not None else sum", "sum"),
    Text(_GROWTH, "what is made and not returned", "        self.worst = max(self.worst, factor)\n", ""),
    Text(_GROWTH, "work beyond one pass", ", default=0) * _work(node))", ", default=0))"),
    Text(_GROWTH, "parts that are read together", "_LONGEST_PART * max(1, *inner.values())", "1"),
    Text(_GROWTH, "the items of an argument", "items * _longest(", "_longest("),
    Text(
        _GROWTH,
        "what stands between elements",
        "            return inf\n        return inner.get(id(node.this), inf) * (1",
        "            return 1\n        return inner.get(id(node.this), inf) * (1",
    ),
    Text(
        _GROWTH,
        "what replaces a text",
        "        return inf\n    return max(1, len(new",
        "        return 1\n    return max(1, len(new",
    ),
)

_SUPPLIED: Final = "queries/supplied.py"
_RESOLVE: Final = "queries/resolve.py"
_NAMED: Final = (
    Text(_SUPPLIED, "supplied rows without a number", "max_rows=MAX_SUPPLIED_ROWS", "max_rows=2**53"),
    Text(_SUPPLIED, "supplied rows of any size", "max_bytes=MAX_SUPPLIED_BYTES", "max_bytes=2**53"),
    Text(_RESOLVE, "the name of a dataset or project", "for name in declared} | reserved", "for name in declared}"),
)

_SPOOL: Final = "remote_agent/spool.py"
_SPOOLED: Final = "remote_agent/spool_file.py"
_SHARES: Final = "remote_agent/spool_shares.py"
_FOLDER: Final = "remote_agent/spool_folder.py"
_OWNER: Final = "return grant.client, grant.issuer, grant.tenant, grant.subject"
_KEPT: Final = (
    Text(_SPOOL, "another agent's result", _OWNER, 'return "", grant.issuer, grant.tenant, grant.subject'),
    Text(_SPOOL, "a result of another issuer", _OWNER, 'return grant.client, "", grant.tenant, grant.subject'),
    Text(_SPOOL, "a result of another tenant", _OWNER, 'return grant.client, grant.issuer, "", grant.subject'),
    Text(_SPOOL, "another person's result", _OWNER, 'return grant.client, grant.issuer, grant.tenant, ""'),
    Text(_SHARES, "a spool that one agent fills", "{0: 1, 1: 2, 4: 4}", "{0: 1, 4: 4}"),
    Text(_SHARES, "an agent's part that one person fills", "{0: 1, 1: 2, 4: 4}", "{0: 1, 1: 2}"),
    Text(_SPOOL, "what expired and nobody asks for", "        self._sweep_later()\n", ""),
    Text(_SPOOL, "what expired", "if now >= held.result.expires_at]", "if False]"),
    Text(_SPOOL, "the file of what is dropped", "held.sealed.path.unlink(missing_ok=True)", "pass"),
    Text(_SPOOL, "the file of what is not kept", "            self._chunks.discard()\n", ""),
    Text(_SPOOL, "a result whose answer was not released", "if held is not None and not held.released:", "if False:"),
    Text(
        _SPOOLED,
        "plain bytes on the disk",
        "self._cipher.encrypt(_nonce(self._chunks), chunk, _context(self._result_id, self._chunks, last))",
        "bytes(chunk) + bytes(TAG)",
    ),
    Text(_SPOOLED, "one key for all results", "self._key = os.urandom(32)", "self._key = bytes(32)"),
    Text(_SPOOLED, "one nonce for all chunks", "number.to_bytes(_NONCE, ", "bytes(_NONCE) or (number, "),
    Text(_SPOOLED, "a chunk of another result", "_CONTEXT + result_id.encode()", "_CONTEXT"),
    Text(_SPOOLED, "a result that was cut", '(b"\\x01" if last else b"\\x00")', 'b""'),
    Text(_SPOOLED, "a key that is shown", "key: bytes = field(repr=False)", "key: bytes"),
    Text(_SPOOLED, "a file that others can read", "os.O_WRONLY, 0o600)", "os.O_WRONLY, 0o644)"),
    Text(_FOLDER, "a folder that others can read", "own.mkdir(mode=0o700)", "own.mkdir(mode=0o755)"),
    Text(_FOLDER, "what a dead process left", "shutil.rmtree(left, ignore_errors=True)", "pass"),
)

_RELEASE: Final = "remote_agent/results_release.py"
_DOOR: Final = "remote_agent/results_door.py"
_RESULTS: Final = "remote_agent/results.py"
_DOWNLOAD: Final = "delegation/results.py"
_FILE: Final = "delegation/results_file.py"
_SAME: Final = (
    ("another dataset", '"dataset", "dataset_version"', '"dataset_version"'),
    ("another version", '"dataset", "dataset_version", ', '"dataset", '),
    ("another revision", '"revision", ', ""),
    ("another schema", '"schema_version", ', ""),
    ("another capability", '"schema_version", "capability"', '"schema_version"'),
    ("another sensitivity", '*("sensitivity", "rows"', '*("rows"'),
    ("other rows", '"sensitivity", "rows", ', '"sensitivity", '),
    ("other columns", '"columns", "masks"', '"masks"'),
    ("other masks", '"columns", "masks"', '"columns",'),
)
_FETCHED: Final = (
    *(Text(_RELEASE, f"a result of {name} than now", old, new) for name, old, new in _SAME),
    Text(
        _RELEASE,
        "a release that no row starts",
        "    await service.ledger.append_async(row)\n    return Release",
        "    return Release",
    ),
    Text(
        _RELEASE,
        "the last bytes before their row",
        "        await self._record(self._authority.decision, self.span.length)\n",
        "",
    ),
    Text(
        _RELEASE, "a size that is told to anybody", "if trail.unsatisfiable and trail.held else", "if trail.held else"
    ),
    Text(_DOOR, "another method than GET", 'scope["method"] != "GET"', "False"),
    Text(_DOOR, "a copy that a cache keeps", '        (b"cache-control", b"no-store"),\n    ]', "    ]"),
    Text(_RESULTS, "more rows than there may be", "max_rows=_UNBOUNDED if cuts else most", "max_rows=_UNBOUNDED"),
    Text(_RESULTS, "rows that should be cut off", "batch.slice(0, left)", "batch"),
    Text(_RESULTS, "a reply of any size", " or self._size > self._service.max_result_bytes", ""),
    Text(_DOWNLOAD, "a redirect that is followed", "follow_redirects=False", "follow_redirects=True"),
    Text(_DOWNLOAD, "a leaf that can be passed on", "replace(plan, max_depth=len(plan.chain))", "plan"),
    Text(
        _DOWNLOAD,
        "a leaf that is for no result",
        "        operation=Operation(GET_RESULTS, task=stored.result_id),\n",
        "",
    ),
    Text(_DOWNLOAD, "a refusal of any size", "if len(body) > _MAX_PROBLEM:", "if False:"),
    Text(_DOWNLOAD, "a refusal that grants", "None if VERDICTS[reason] is Verdict.GRANTED else reason", "reason"),
    Text(_FILE, "a file that others can read", "os.O_RDWR, 0o600)", "os.O_RDWR, 0o644)"),
    Text(_FILE, "half a file", "            unfinished.unlink()\n", "            pass\n"),
)

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
TEXTS: Final[tuple[Text, ...]] = (
    *_LEADING,
    *_WITHHELD,
    *_STATE,
    *_KNOWLEDGE,
    *_DISCOVERED,
    *_ROWS,
    *_COLUMNS,
    *_GROUPED,
    *_ROUNDED,
    *_ENGINE,
    *_NAMED,
    *_KEPT,
    *_FETCHED,
    *_DERIVING,
    *_LEAVING,
    *_TOLD,
    *_OPERATED,
    *_STALE,
)
