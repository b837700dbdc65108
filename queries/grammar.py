"""What a template may be written with: an allow-list of function names, nodes and their arguments.

Everything off the lists is refused, so a construct nobody thought of cannot reach a table. The
names are checked on the tokens, because the parser maps several names, also foreign ones, to
one node and forgets qualifiers such as ``SAFE.``.
"""

from __future__ import annotations

import re
from typing import Final

import sqlglot
from sqlglot import Token, TokenType, exp
from sqlglot.errors import SqlglotError

from queries.errors import Refused

MAX_TEMPLATE_BYTES: Final = 64 * 1024
MAX_NODES: Final = 4_000
MAX_DEPTH: Final = 60

FUNCTION_NAMES: Final = frozenset(
    [
        "ABS",
        "AVG",
        "BYTE_LENGTH",
        "CAST",
        "CEIL",
        "CEILING",
        "CHAR_LENGTH",
        "CHARACTER_LENGTH",
        "COALESCE",
        "CONCAT",
        "COUNT",
        "COUNTIF",
        "CUME_DIST",
        "CURRENT_DATE",
        "CURRENT_TIMESTAMP",
        "DATE",
        "DATE_ADD",
        "DATE_DIFF",
        "DATE_SUB",
        "DATE_TRUNC",
        "DENSE_RANK",
        "DIV",
        "ENDS_WITH",
        "EXP",
        "EXTRACT",
        "FIRST_VALUE",
        "FLOOR",
        "FORMAT_DATE",
        "GREATEST",
        "IF",
        "IFNULL",
        "INSTR",
        "LAG",
        "LAST_DAY",
        "LAST_VALUE",
        "LEAD",
        "LEAST",
        "LEFT",
        "LENGTH",
        "LN",
        "LOG10",
        "LOGICAL_AND",
        "LOGICAL_OR",
        "LOWER",
        "LTRIM",
        "MAX",
        "MIN",
        "MOD",
        "NTILE",
        "NULLIF",
        "PERCENTILE_CONT",
        "PERCENTILE_DISC",
        "PERCENT_RANK",
        "POW",
        "POWER",
        "RANK",
        "REPLACE",
        "RIGHT",
        "ROUND",
        "ROW_NUMBER",
        "RTRIM",
        "SAFE_DIVIDE",
        "SIGN",
        "SQRT",
        "STARTS_WITH",
        "STDDEV",
        "STDDEV_POP",
        "STDDEV_SAMP",
        "STRING_AGG",
        "STRPOS",
        "SUBSTR",
        "SUBSTRING",
        "SUM",
        "TIMESTAMP",
        "TIMESTAMP_ADD",
        "TIMESTAMP_DIFF",
        "TIMESTAMP_MICROS",
        "TIMESTAMP_MILLIS",
        "TIMESTAMP_SECONDS",
        "TIMESTAMP_SUB",
        "TIMESTAMP_TRUNC",
        "TRIM",
        "TRUNC",
        "UNIX_DATE",
        "UNIX_MICROS",
        "UNIX_MILLIS",
        "UNIX_SECONDS",
        "UPPER",
        "VARIANCE",
        "VAR_POP",
        "VAR_SAMP",
        "WEEK",
    ]
)
_BEFORE_PARENTHESIS: Final = frozenset(
    [
        "ALL",
        "AND",
        "AS",
        "BETWEEN",
        "BY",
        "CASE",
        "DISTINCT",
        "ELSE",
        "EXCEPT",
        "EXISTS",
        "FROM",
        "HAVING",
        "IN",
        "INTERSECT",
        "INTERVAL",
        "IS",
        "JOIN",
        "LIKE",
        "LIMIT",
        "NOT",
        "OFFSET",
        "ON",
        "OR",
        "OVER",
        "QUALIFY",
        "SELECT",
        "THEN",
        "UNION",
        "UNNEST",
        "USING",
        "WHEN",
        "WHERE",
    ]
)
_IDENTIFIER: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_WORD: Final = re.compile(r"[A-Za-z_`][A-Za-z0-9_ `]*")
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_TEXT_TOKENS: Final = (TokenType.STRING, TokenType.RAW_STRING)


def _nodes() -> dict[type[exp.Expr], frozenset[str]]:
    """Each node that may occur and the arguments it may carry."""
    unary = "this"
    binary = "this expression"
    table: dict[str, tuple[type[exp.Expr], ...]] = {
        "": (exp.Null, exp.Star, exp.RowNumber, exp.CurrentTimestamp, exp.Rank, exp.DenseRank),
        unary: (
            exp.Boolean,
            exp.From,
            exp.Where,
            exp.Having,
            exp.Qualify,
            exp.Paren,
            exp.Not,
            exp.Neg,
            exp.Var,
            exp.Parameter,
            exp.CountIf,
            exp.Sum,
            exp.Avg,
            exp.Min,
            exp.Max,
            exp.LogicalAnd,
            exp.LogicalOr,
            exp.Stddev,
            exp.StddevSamp,
            exp.StddevPop,
            exp.Variance,
            exp.VariancePop,
            exp.Abs,
            exp.Sign,
            exp.Sqrt,
            exp.Exp,
            exp.Ln,
            exp.ByteLength,
            exp.Exists,
            exp.UnixDate,
            exp.UnixMicros,
            exp.UnixMillis,
            exp.UnixSeconds,
            exp.TsOrDsToDate,
            exp.WeekStart,
            exp.CurrentDate,
            exp.FirstValue,
            exp.LastValue,
            exp.Upper,
            exp.Lower,
            exp.Ntile,
            exp.PercentRank,
            exp.CumeDist,
            exp.Trunc,
            exp.Ceil,
            exp.Floor,
        ),
        binary: (
            exp.And,
            exp.Or,
            exp.Add,
            exp.Sub,
            exp.Mul,
            exp.EQ,
            exp.NEQ,
            exp.GT,
            exp.GTE,
            exp.LT,
            exp.LTE,
            exp.Is,
            exp.NullSafeEQ,
            exp.NullSafeNEQ,
            exp.SafeDivide,
            exp.IntDiv,
            exp.Mod,
            exp.Pow,
            exp.Nullif,
            exp.StartsWith,
            exp.EndsWith,
            exp.Left,
            exp.Right,
            exp.PercentileCont,
            exp.PercentileDisc,
            exp.Log,
            exp.Extract,
        ),
        "this expression negate": (exp.Like,),
        "this expression typed safe": (exp.Div,),
        "this expression safe": (exp.DPipe,),
        "this expressions": (exp.Coalesce,),
        "this expressions ignore_nulls": (exp.Greatest, exp.Least),
        "this expression unit": (
            exp.DateAdd,
            exp.DateSub,
            exp.TimestampAdd,
            exp.TimestampSub,
            exp.TimestampDiff,
        ),
        "this expression unit date_part_boundary": (exp.DateDiff,),
        "this unit": (exp.DateTrunc, exp.LastDay),
        "this unit zone": (exp.TimestampTrunc,),
        "this zone": (exp.Date, exp.AtTimeZone),
        "this zone with_tz": (exp.Timestamp,),
        "year month day": (exp.DateFromParts,),
        "this scale": (exp.UnixToTime,),
        "this format": (exp.TimeToStr,),
        "this expression decimals": (exp.Round,),
        "this offset default": (exp.Lag, exp.Lead),
        "this substr": (exp.StrPosition,),
        "this start length": (exp.Substring,),
        "this expression replacement": (exp.Replace,),
        "this expression position": (exp.Trim,),
        "this binary": (exp.Length,),
        "this separator": (exp.GroupConcat,),
        "this expressions big_int": (exp.Count,),
        "this to": (exp.Cast,),
        "this low high": (exp.Between,),
        "this ifs default": (exp.Case,),
        "this true false": (exp.If,),
        "this expressions query unnest": (exp.In,),
        "expressions": (exp.Distinct, exp.Unnest, exp.Group),
        "this expressions safe coalesce": (exp.Concat,),
        "this expressions siblings": (exp.Order,),
        "this desc nulls_first": (exp.Ordered,),
        "this expression offset": (exp.Limit, exp.Offset),
        "this is_string": (exp.Literal,),
        "this quoted": (exp.Identifier,),
        "this alias": (exp.Alias, exp.CTE, exp.Table, exp.TableAlias, exp.Subquery),
        "this table": (exp.Column,),
        "this nested": (exp.DataType,),
        "this partition_by order spec over": (exp.Window,),
        "kind start start_side end end_side": (exp.WindowSpec,),
        "this on using side kind": (exp.Join,),
        "this with_ expression distinct order limit offset": (exp.Union, exp.Intersect, exp.Except),
        "with_ expressions distinct from_ joins where group having qualify order limit offset": (exp.Select,),
    }
    table["expressions"] += (exp.With,)
    return {node: frozenset(args.split()) for args, nodes in table.items() for node in nodes}


ALLOWED: Final = _nodes()
_DECLINED: Final[dict[type[exp.Expr], str]] = {
    exp.AnyValue: "ANY_VALUE may answer differently each time; use MIN or MAX",
    exp.Placeholder: "a positional parameter has no name; use @name",
    exp.Lateral: "LATERAL is not accepted",
    exp.Anonymous: "the function is not on the list of accepted functions",
    exp.Dot: "a dotted name is not accepted; name a table's column as table.column",
    exp.Command: "only a query is accepted",
    exp.Array: "an array expression is not accepted; declare a repeated parameter",
    exp.Struct: "a STRUCT is not accepted",
    exp.Interval: "INTERVAL is accepted inside DATE_ADD, DATE_SUB, TIMESTAMP_ADD and TIMESTAMP_SUB only",
}
_ARG_NAMES: Final = {
    "with_": "WITH", "pivots": "PIVOT", "sample": "TABLESAMPLE", "system_time": "FOR SYSTEM_TIME", "version": "a version",
    "method": "NATURAL", "hint": "a hint", "by_name": "BY NAME", "recursive": "RECURSIVE", "kind": "AS STRUCT or AS VALUE",
    "rollup": "ROLLUP", "cube": "CUBE", "grouping_sets": "GROUPING SETS", "all": "ALL", "windows": "WINDOW",
    "db": "another dataset", "catalog": "another project", "columns": "a list of column names after an alias",
}  # fmt: skip


def parse(sql: str) -> exp.Query:
    """One GoogleSQL query of accepted constructs only. Raises ``Refused``."""
    if len(sql.encode("utf-8", "replace")) > MAX_TEMPLATE_BYTES:
        raise Refused(f"a template is at most {MAX_TEMPLATE_BYTES} bytes", line=1)
    dialect = sqlglot.Dialect.get_or_raise("bigquery")
    try:
        _check_tokens(sql, dialect.tokenize(sql))
        parsed = dialect.parse(sql)
    except SqlglotError as error:
        raise Refused(f"not GoogleSQL: {_first_line(error)}", line=_error_line(error)) from error
    except RecursionError as error:
        raise Refused("the query is nested too deeply", line=1) from error
    statements = [node for node in parsed if node is not None and not isinstance(node, exp.Semicolon)]
    if len(statements) != 1:
        raise Refused(f"a template is one query, this file holds {len(statements)} statements", line=1)
    tree = statements[0]
    if not isinstance(tree, (exp.Select, exp.SetOperation)):
        raise Refused(f"only a query is accepted, not {_name(tree)}", tree)
    _check_nodes(tree)
    _fold_signs(tree)
    return tree


def _fold_signs(tree: exp.Expr) -> None:
    """``-5`` becomes one number, so that the smallest INT64 can be written."""
    for node in list(tree.find_all(exp.Neg)):
        number = node.this
        if isinstance(number, exp.Literal) and not number.is_string and not number.name.startswith("-"):
            number.set("this", f"-{number.name}")
            node.replace(number)


def _check_tokens(sql: str, tokens: list[Token]) -> None:
    for index, token in enumerate(tokens):
        following = tokens[index + 1] if index + 1 < len(tokens) else None
        if token.token_type in _TEXT_TOKENS:
            _check_text(sql[token.start : token.end + 1], token)
        if token.token_type is TokenType.IDENTIFIER and "\\" in sql[token.start : token.end + 1]:
            raise Refused("a name with an escape is not accepted", line=token.line)
        if token.token_type is TokenType.PARAMETER and following and following.token_type is TokenType.PARAMETER:
            raise Refused("a system variable is not accepted", line=token.line)
        if following is not None and following.token_type is TokenType.L_PAREN:
            _check_call(tokens, index)


def _check_call(tokens: list[Token], index: int) -> None:
    token = tokens[index]
    if not _WORD.fullmatch(token.text) and token.token_type is not TokenType.IDENTIFIER:
        return
    name = token.text.upper()
    word = name.split(" ")[-1]
    quoted = token.token_type is TokenType.IDENTIFIER
    if not quoted and word in _BEFORE_PARENTHESIS and token.token_type is not TokenType.VAR:
        return
    dotted = index > 0 and tokens[index - 1].token_type is TokenType.DOT
    if quoted or dotted or name not in FUNCTION_NAMES:
        raise Refused(f"{token.text[:40]}( is not on the list of accepted functions", line=token.line)


def _check_text(source: str, token: Token) -> None:
    if source[:1].lower() == "r":
        return
    for match in _ESCAPE.finditer(source):
        if match[1] not in "\\'\"`nrt":
            raise Refused(f"the escape \\{match[1]} is not accepted in text", line=token.line)


def _check_nodes(tree: exp.Expr) -> None:
    for count, node in enumerate(tree.walk()):
        if count > MAX_NODES or _depth(node) > MAX_DEPTH:
            raise Refused(f"the query is too large: at most {MAX_NODES} nodes, {MAX_DEPTH} deep", line=1)
        allowed = ALLOWED.get(type(node))
        if allowed is None:
            raise Refused(_DECLINED.get(type(node), f"{_name(node)} is not accepted"), node)
        for arg, value in node.args.items():
            if value and arg not in allowed:
                raise Refused(f"{_ARG_NAMES.get(arg, arg)} is not accepted in {_name(node)}", node)
        if isinstance(node, exp.Identifier):
            _check_identifier(node)
        if isinstance(node, exp.Unnest) and node.arg_key != "unnest":
            raise Refused("UNNEST is accepted in IN UNNEST(@parameter) only", node)
        if isinstance(node, exp.Star) and not (isinstance(node.parent, exp.Count) and not node.parent.expressions):
            raise Refused("* is not accepted; name the columns", node)


def _check_identifier(node: exp.Identifier) -> None:
    name = node.name
    if not _IDENTIFIER.fullmatch(name.replace("-", "_")) or len(name) > 64:
        raise Refused(f"the name {name[:40]!r} is not made of letters, digits, '_' and '-'", node)


def _depth(node: exp.Expr) -> int:
    # Cheap enough at load; sqlglot's own ``depth`` is the same walk.
    depth = 0
    parent = node.parent
    while parent is not None:
        depth, parent = depth + 1, parent.parent
    return depth


def _name(node: exp.Expr) -> str:
    name = node.meta.get("bigquery_name")
    return str(name) if name else node.key.upper()


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0][:160]


def _error_line(error: SqlglotError) -> int:
    details = getattr(error, "errors", None) or [{}]
    return int(details[0].get("line") or 1)
