"""Faults in what governs, hides, groups, rounds and bounds a query: each as a text that is replaced."""

from __future__ import annotations

from typing import Final

from mutants.text import Text

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

QUERIES: Final = (*_ROWS, *_COLUMNS, *_GROUPED, *_ROUNDED, *_ENGINE, *_NAMED)
