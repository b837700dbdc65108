"""The closed vocabulary of templates: names of functions, nodes, and the arguments a node may carry."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from queries.calls import CALL_NAMES

# fmt: off
_NODE_NAMES: Final = frozenset({
    "ABS", "ARRAY", "ARRAY_AGG", "ARRAY_CONCAT", "ARRAY_LENGTH", "ARRAY_REVERSE", "ARRAY_TO_STRING", "AVG",
    "BIT_AND", "BIT_OR", "BIT_XOR", "BYTE_LENGTH", "CAST", "CEIL", "CEILING", "CHARACTER_LENGTH", "CHAR_LENGTH",
    "COALESCE", "CONCAT", "CORR", "COUNT", "COUNTIF", "COVAR_POP", "COVAR_SAMP", "CUME_DIST", "CURRENT_DATE",
    "CURRENT_DATETIME", "CURRENT_TIME", "CURRENT_TIMESTAMP", "DATETIME_ADD", "DATETIME_DIFF", "DATETIME_SUB",
    "DATETIME_TRUNC", "DATE_ADD", "DATE_DIFF", "DATE_FROM_UNIX_DATE", "DATE_SUB", "DATE_TRUNC", "DENSE_RANK",
    "DIV", "ENDS_WITH", "EXP", "EXTRACT", "FIRST_VALUE", "FLOOR", "GENERATE_ARRAY", "GENERATE_DATE_ARRAY",
    "GREATEST", "IF", "IFNULL", "LAG", "LAST_DAY", "LAST_VALUE", "LEAD", "LEAST", "LENGTH", "LOGICAL_AND",
    "LOGICAL_OR", "LOWER", "LTRIM", "MAX", "MIN", "MOD", "NTH_VALUE", "NTILE", "NULLIF", "ORDINAL",
    "PERCENTILE_CONT", "PERCENT_RANK", "POW", "POWER", "RANK", "REPLACE", "ROUND", "ROW_NUMBER", "RTRIM",
    "SAFE_CAST", "SAFE_DIVIDE", "SAFE_OFFSET", "SAFE_ORDINAL", "SIGN", "STARTS_WITH", "STDDEV", "STDDEV_POP",
    "STDDEV_SAMP", "STRING_AGG", "STRPOS", "STRUCT", "SUBSTR", "SUBSTRING", "SUM", "TIMESTAMP_ADD",
    "TIMESTAMP_DIFF", "TIMESTAMP_MICROS", "TIMESTAMP_MILLIS", "TIMESTAMP_SECONDS", "TIMESTAMP_SUB",
    "TIMESTAMP_TRUNC", "TIME_ADD", "TIME_DIFF", "TIME_SUB", "TIME_TRUNC", "TRIM", "TRUNC", "UNIX_DATE",
    "UNIX_MICROS", "UNIX_MILLIS", "UNIX_SECONDS", "UPPER", "VARIANCE", "VAR_POP", "VAR_SAMP", "WEEK",
})
FUNCTION_NAMES: Final = _NODE_NAMES | CALL_NAMES
BEFORE_PARENTHESIS: Final = frozenset({
    "ALL", "AND", "AS", "BETWEEN", "BY", "CASE", "DISTINCT", "ELSE", "EXCEPT", "EXISTS", "FROM", "HAVING", "IN",
    "INTERSECT", "INTERVAL", "IS", "JOIN", "LIKE", "LIMIT", "NOT", "OFFSET", "ON", "OR", "OVER", "QUALIFY", "SELECT",
    "THEN", "UNION", "UNNEST", "USING", "WHEN", "WHERE",
})
_BY_ARGUMENTS: Final[dict[str, tuple[type[exp.Expr], ...]]] = {
    "": (exp.Null, exp.Star, exp.CurrentTime, exp.RowNumber, exp.CurrentTimestamp, exp.Rank, exp.DenseRank,),
    "alias expressions offset": (exp.Unnest,),
    "alias this": (exp.Alias, exp.CTE, exp.Table, exp.Subquery,),
    "big_int expressions this": (exp.Count,),
    "binary this": (exp.Length,),
    "catalog db table this": (exp.Column,),
    "columns this": (exp.TableAlias,),
    "coalesce expressions safe this": (exp.Concat,),
    "date_part_boundary expression this unit": (exp.DateDiff, exp.DatetimeDiff,),
    "decimals this": (exp.Round, exp.Trunc,),
    "default ifs this": (exp.Case,),
    "default offset this": (exp.Lag, exp.Lead,),
    "offset this": (exp.NthValue,),
    "desc nulls_first this": (exp.Ordered,),
    "distinct expression limit offset order this with_": (exp.Union, exp.Intersect, exp.Except,),
    "distinct expressions from_ group having joins kind limit offset order qualify where with_": (exp.Select,),
    "end end_side kind start start_side": (exp.WindowSpec,),
    "end start step": (exp.GenerateSeries, exp.GenerateDateArray,),
    "expression negate this": (exp.Like,),
    "expression null this": (exp.ArrayToString,),
    "expression offset this": (exp.Limit, exp.Offset,),
    "expression position this": (exp.Trim,),
    "expression replacement this": (exp.Replace,),
    "expression safe this": (exp.DPipe,),
    "expression safe this typed": (exp.Div,),
    "expression this": (
        exp.And, exp.Or, exp.Add, exp.Sub, exp.Mul, exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Is,
        exp.NullSafeEQ, exp.NullSafeNEQ, exp.SafeDivide, exp.IntDiv, exp.Mod, exp.Pow, exp.Nullif, exp.StartsWith,
        exp.EndsWith, exp.PercentileCont, exp.Extract, exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor, exp.Corr,
        exp.CovarPop, exp.CovarSamp,
        exp.PropertyEQ, exp.Dot,
    ),
    "expression this unit": (
        exp.DateAdd, exp.DateSub, exp.DatetimeAdd, exp.DatetimeSub, exp.TimeAdd, exp.TimeSub, exp.TimestampAdd,
        exp.TimestampSub, exp.TimestampDiff, exp.TimeDiff,
    ),
    "expressions": (exp.Distinct, exp.Struct, exp.Tuple, exp.Group, exp.With,),
    "expressions ignore_nulls this": (exp.Greatest, exp.Least,),
    "expressions nested this": (exp.DataType,),
    "expressions null_propagation this": (exp.ArrayConcat,),
    "expressions offset safe this": (exp.Bracket,),
    "expressions query this unnest": (exp.In,),
    "expressions siblings this": (exp.Order,),
    "expressions struct_name_inheritance value_constructor": (exp.Array,),
    "expressions this": (exp.Coalesce, exp.Anonymous,),
    "false this true": (exp.If,),
    "high low this": (exp.Between,),
    "is_bytes this": (exp.ByteString,),
    "is_string this": (exp.Literal,),
    "kind on side this using": (exp.Join,),
    "kind this": (exp.ColumnDef,),
    "length start this": (exp.Substring,),
    "order over partition_by spec this": (exp.Window,),
    "quoted this": (exp.Identifier,),
    "scale this": (exp.UnixToTime,),
    "separator this": (exp.GroupConcat,),
    "substr this": (exp.StrPosition,),
    "this": (
        exp.Boolean, exp.From, exp.Where, exp.Having, exp.Qualify, exp.Paren, exp.Not, exp.Neg, exp.Var,
        exp.Parameter, exp.CountIf, exp.Sum, exp.Avg, exp.Min, exp.Max, exp.LogicalAnd, exp.LogicalOr, exp.Stddev,
        exp.StddevSamp, exp.StddevPop, exp.Variance, exp.VariancePop, exp.Abs, exp.Sign, exp.Exp,
        exp.ByteLength, exp.Exists, exp.UnixDate, exp.UnixMicros, exp.UnixMillis, exp.UnixSeconds,
        exp.WeekStart, exp.CurrentDate, exp.CurrentDatetime, exp.DateFromUnixDate, exp.SafeFunc, exp.BitwiseNot,
        exp.BitwiseAndAgg, exp.BitwiseOrAgg, exp.BitwiseXorAgg, exp.RespectNulls, exp.FirstValue, exp.LastValue, exp.Upper, exp.Lower, exp.Ntile,
        exp.PercentRank, exp.CumeDist, exp.Ceil, exp.Floor,
        exp.ArrayAgg, exp.ArraySize, exp.ArrayReverse, exp.IgnoreNulls,
    ),
    "this to": (exp.Cast,),
    "this unit": (exp.DatetimeTrunc, exp.TimeTrunc, exp.LastDay, exp.Interval,),
    "this unit zone": (exp.DateTrunc, exp.TimestampTrunc,),
    "this zone": (exp.AtTimeZone,),
    "safe this to": (exp.TryCast,),
}
HINTS: Final = {
    "ANY_VALUE": "may answer differently each time; use MIN or MAX",
    "PERCENTILE_DISC": "picks another value on some engines; use PERCENTILE_CONT",
    "ARRAY_CONCAT_AGG": "is not accepted; use ARRAY_AGG over UNNEST with ORDER BY",
    "APPROX_COUNT_DISTINCT": "differs by engine; use COUNT(DISTINCT …)",
    "CONTAINS_SUBSTR": "differs by engine; use STRPOS(LOWER(…), LOWER(…)) > 0",
    "IEEE_DIVIDE": "makes NaN; use SAFE_DIVIDE",
}
# Words before a parenthesis that are no functions.
CONSTRUCTS: Final = {
    **dict.fromkeys(("PIVOT", "UNPIVOT", "LATERAL", "ROLLUP", "CUBE", "GROUPING SETS", "OPTIONS"), "is not accepted"),
}
TABLE_FUNCTIONS: Final = frozenset({"APPENDS", "CHANGES", "EXTERNAL_QUERY", "GAP_FILL", "RANGE_SESSIONIZE", "VECTOR_SEARCH"})
DECLINED: Final[dict[type[exp.Expr], str]] = {
    exp.Placeholder: "a positional parameter has no name; use @name",
    exp.Lateral: "LATERAL is not accepted",
    exp.Anonymous: "the function is not on the list of accepted functions",
    exp.DataTypeParam: "a type with a length or precision is not accepted",
}
ARGUMENT_NAMES: Final = {
    "with_": "WITH", "pivots": "PIVOT", "sample": "TABLESAMPLE", "system_time": "FOR SYSTEM_TIME", "version": "a version",
    "method": "NATURAL or ASOF", "hint": "a hint", "by_name": "BY NAME", "recursive": "RECURSIVE", "kind": "AS VALUE",
    "rollup": "ROLLUP", "cube": "CUBE", "grouping_sets": "GROUPING SETS", "all": "ALL", "windows": "WINDOW",
    "db": "another dataset", "catalog": "another project", "columns": "a list of column names after an alias",
    "joins": "a join in parentheses",
}
# fmt: on
ALLOWED: Final = {node: frozenset(args.split()) for args, nodes in _BY_ARGUMENTS.items() for node in nodes}
