"""Types of calls (``calls``), the ``SAFE.`` prefix, and the calls with rules of their own: formats, zones, patterns."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from sqlglot import exp

from contract.schema import SqlType
from queries.calls import CALLS, Form, Safe
from queries.elaborate import Elaborator, rule
from queries.errors import Refused, written_name
from queries.formats import PRINTED, Reading, elements, reading
from queries.literals import canonical_text
from queries.moments import set_zone
from queries.numbers import check_rounded
from queries.patterns import pattern_groups
from queries.typed import Type, common, convert, is_number, set_source, text_literal

S = SqlType
_FORM: Final = "gsql_form"
_SAFE: Final = "gsql_safe"
_READING: Final = "gsql_reading"
_MOMENT_FORMS: Final[dict[str, tuple[tuple[SqlType, ...], ...]]] = {
    "DATE": ((S.TIMESTAMP,), (S.DATETIME,), (S.DATE,), (S.INT64, S.INT64, S.INT64)),
    "DATETIME": ((S.TIMESTAMP,), (S.DATE,), (S.DATETIME,), (S.DATE, S.TIME), (S.INT64,) * 6),
    "TIME": ((S.TIMESTAMP,), (S.DATETIME,), (S.TIME,), (S.INT64, S.INT64, S.INT64)),
    "TIMESTAMP": ((S.TIMESTAMP,), (S.DATETIME,), (S.DATE,), (S.STRING,)),
    "STRING": ((S.TIMESTAMP,), (S.DATE,), (S.DATETIME,), (S.TIME,)),
}
_ZONED: Final = {
    "DATE": (S.TIMESTAMP,), "DATETIME": (S.TIMESTAMP,), "TIME": (S.TIMESTAMP,), "STRING": (S.TIMESTAMP,),
    "TIMESTAMP": (S.DATETIME, S.DATE, S.STRING),
}  # fmt: skip
# Nodes that are no calls and can be NULL where they fail, and those that never fail.
_SAFE_NODES: Final = (
    exp.Substring, exp.DateAdd, exp.DateSub, exp.DatetimeAdd, exp.DatetimeSub, exp.TimestampAdd, exp.TimestampSub,
    exp.DateTrunc, exp.DatetimeTrunc, exp.TimestampTrunc, exp.UnixToTime, exp.DateFromUnixDate, exp.LastDay,
)  # fmt: skip
_NEVER_FAIL: Final = (
    exp.Lower, exp.Upper, exp.Length, exp.ByteLength, exp.StartsWith, exp.EndsWith, exp.StrPosition, exp.Trim,
    exp.DateDiff, exp.DatetimeDiff, exp.TimestampDiff, exp.TimeDiff, exp.TimeAdd, exp.TimeSub, exp.TimeTrunc,
    exp.UnixDate, exp.UnixSeconds, exp.UnixMillis, exp.UnixMicros, exp.Coalesce, exp.Sign,
)  # fmt: skip
_REFUSED_IN_PATTERN: Final = re.compile(r"\\[CQE]")
Special = Callable[[Elaborator, exp.Expr, str], Type]
_SPECIALS: Final[dict[str, Special]] = {}


def form_of(node: exp.Expr) -> str:
    """The key of an elaborated call's form."""
    return str(node.meta[_FORM])


def is_call(node: exp.Expr) -> bool:
    return _FORM in node.meta


def is_safe(node: exp.Expr) -> bool:
    """Whether a failure of this function is NULL."""
    return bool(node.meta.get(_SAFE, False))


def reading_of(node: exp.Expr) -> Reading:
    """How an elaborated PARSE_ call reads its text."""
    held = node.meta[_READING]
    if not isinstance(held, Reading):
        raise TypeError("the call reads no format")
    return held


def _special(*names: str) -> Callable[[Special], Special]:
    def register(function: Special) -> Special:
        _SPECIALS.update(dict.fromkeys(names, function))
        return function

    return register


@rule(exp.Anonymous)
def _call(e: Elaborator, node: exp.Expr) -> Type:
    found = _SPECIALS.get(node.name)
    if found is not None:
        return found(e, node, node.name)
    form = _chosen(e, node, CALLS[node.name])
    if form.approximate:
        check_rounded(node)
    node.meta[_FORM] = form.key
    if is_safe(node) and form.safe is Safe.REFUSED:
        raise Refused(f"SAFE.{node.name} is not accepted", node)
    if form.safe is not Safe.NULL:
        node.meta[_SAFE] = False
    return Type(form.gives)


def _chosen(e: Elaborator, node: exp.Expr, forms: tuple[Form, ...]) -> Form:
    kinds = [e.type(argument) for argument in node.expressions]
    fitting = [form for form in forms if len(form.takes) - form.optional <= len(kinds) <= len(form.takes)]
    if len(fitting) > 1 and all(is_number(kind.name) for kind in kinds):
        # Numbers meet in their common type, which may be none of the first that all convert to.
        together = common(kinds, node)
        fitting = [form for form in fitting if form.takes[0] is together]
    for exact in (True, False):
        for form in fitting:
            if _fits(node, kinds, form.takes, exact=exact):
                return form
    takes = " or ".join(f"({', '.join(kind.value for kind in form.takes)})" for form in forms)
    raise Refused(f"{node.name} takes {takes}, not ({', '.join(map(str, kinds))})", node)


def _fits(node: exp.Expr, kinds: list[Type], takes: tuple[SqlType, ...], *, exact: bool) -> bool:
    """Whether the arguments are of these types or, unless ``exact``, convert to them, which they then are."""
    if exact:
        return all(kind.value == Type(target) for kind, target in zip(kinds, takes, strict=False))
    pairs = list(zip(node.expressions, kinds, takes, strict=False))
    made = [convert(argument.copy(), kind, target) for argument, kind, target in pairs]
    if any(changed is None for changed in made):
        return False
    for index, changed in enumerate(made):
        node.set("expressions", changed, index=index)
    return True


@rule(exp.SafeFunc)
def _safe(e: Elaborator, node: exp.Expr) -> Type:
    inner = node.this
    if isinstance(inner, (exp.Anonymous, *_SAFE_NODES)):
        inner.meta[_SAFE] = True
    elif not isinstance(inner, _NEVER_FAIL):
        raise Refused(f"SAFE.{written_name(inner)} is not accepted", node)
    return e.type(inner)


@_special("DATE", "DATETIME", "TIME", "TIMESTAMP", "STRING")
def _moment(e: Elaborator, node: exp.Expr, name: str) -> Type:
    gives = S(name)
    arguments = list(node.expressions)
    _literal_moment(node, gives)
    kinds = [e.type(argument) for argument in node.expressions]
    zoned = len(kinds) == 2 and kinds[0].name in _ZONED[name] and kinds[1].value == Type(S.STRING)
    forms = [form for form in _MOMENT_FORMS[name] if len(form) == len(kinds) - zoned]
    chosen = next((form for form in forms if _fits(node, kinds, form, exact=True)), None)
    chosen = chosen or next((form for form in forms if len(form) > 1 and _fits(node, kinds, form, exact=False)), None)
    if chosen is None or (chosen == (S.STRING,) and not zoned):
        raise Refused(f"{name} does not take ({', '.join(map(str, kinds))})", node)
    node.meta[_FORM] = name.lower()
    set_zone(node, arguments[1] if zoned else None)
    if zoned:
        node.set("expressions", node.expressions[:1])
    set_source(node, chosen[0] if len(chosen) < 3 else S.INT64)
    return Type(gives)


def _literal_moment(node: exp.Expr, gives: SqlType) -> None:
    """``DATE('2024-02-29')`` is the literal; with a zone the text stays, since the zone decides what it is."""
    value = node.expressions[0] if node.expressions else None
    if len(node.expressions) == 1 and isinstance(value, exp.Literal) and value.is_string and gives is not S.STRING:
        if canonical_text(value.name, gives) is None:
            raise Refused(f"{value.name[:40]!r} is not a {gives.value} in its canonical spelling", node)
        node.set("expressions", [text_literal(value.name, gives, node)])


@_special("FORMAT_DATE", "FORMAT_DATETIME", "FORMAT_TIME", "FORMAT_TIMESTAMP")
def _format(e: Elaborator, node: exp.Expr, name: str) -> Type:
    kind = S(name.removeprefix("FORMAT_"))
    pattern = _written(node, 0, "a format")
    elements(pattern, PRINTED[kind], name)
    _take(e, node, (S.STRING, kind), zone=kind is S.TIMESTAMP)
    node.meta[_FORM] = name.lower()
    set_source(node, kind)
    return Type(S.STRING)


@_special("PARSE_DATE", "PARSE_DATETIME", "PARSE_TIME", "PARSE_TIMESTAMP")
def _parse(e: Elaborator, node: exp.Expr, name: str) -> Type:
    kind = S(name.removeprefix("PARSE_"))
    pattern = _written(node, 0, "a format")
    held = reading(pattern, kind)
    if is_safe(node) and ("%z" in pattern or "%Ez" in pattern):
        raise Refused(f"SAFE.{name} does not read an offset", node)
    _take(e, node, (S.STRING, S.STRING), zone=kind is S.TIMESTAMP)
    node.meta[_FORM] = name.lower()
    node.meta[_READING] = held
    return Type(kind)


@_special("REGEXP_CONTAINS", "REGEXP_EXTRACT", "REGEXP_SUBSTR", "REGEXP_REPLACE")
def _regexp(e: Elaborator, node: exp.Expr, name: str) -> Type:
    places = 3 if name == "REGEXP_REPLACE" else 2
    pattern = _written(node, 1, "a pattern")
    groups = _capturing(pattern, node)
    if name in ("REGEXP_EXTRACT", "REGEXP_SUBSTR") and groups > 1:
        raise Refused(f"{name} takes a pattern of at most one group", node)
    if name in ("REGEXP_EXTRACT", "REGEXP_SUBSTR") and groups and not _always_matches(pattern):
        raise Refused(f"{name} takes a group that is in every match: not optional, not one of alternatives", node)
    if places == 3:
        _check_replacement(_written(node, 2, "a replacement"), groups, node)
    if is_safe(node):
        raise Refused(f"SAFE.{name} is not accepted", node)
    _take(e, node, (S.STRING,) * places, zone=False)
    key = {"REGEXP_CONTAINS": "regexp_contains", "REGEXP_REPLACE": "regexp_replace"}.get(name, "regexp_extract")
    node.meta[_FORM] = f"{key}_group" if key == "regexp_extract" and groups else key
    return BOOL_OR_TEXT[key]


BOOL_OR_TEXT: Final = {
    "regexp_contains": Type(S.BOOL),
    "regexp_extract": Type(S.STRING),
    "regexp_replace": Type(S.STRING),
}


@_special("SPLIT")
def _split(e: Elaborator, node: exp.Expr, name: str) -> Type:
    if len(node.expressions) == 1:
        node.append("expressions", exp.Literal.string(","))
    _take(e, node, (S.STRING, S.STRING), zone=False)
    node.meta[_FORM] = "split"
    node.meta[_SAFE] = False
    return Type(S.STRING, array=True)


@_special("LOG")
def _log(e: Elaborator, node: exp.Expr, name: str) -> Type:
    if len(node.expressions) not in (1, 2):
        raise Refused("LOG takes one or two numbers", node)
    kinds = [e.type(argument) for argument in node.expressions]
    if any(kind.name is S.NUMERIC for kind in kinds) or not _fits(node, kinds, (S.FLOAT64, S.FLOAT64), exact=False):
        raise Refused("LOG takes FLOAT64; write CAST(… AS FLOAT64)", node)
    node.meta[_FORM] = "ln" if len(kinds) == 1 else "log"
    return Type(S.FLOAT64)


def _take(e: Elaborator, node: exp.Expr, takes: tuple[SqlType, ...], *, zone: bool) -> None:
    """Type the arguments as ``takes``, and a zone behind them where there may be one."""
    arguments = node.expressions
    extra = len(arguments) - len(takes)
    if extra not in ((0, 1) if zone else (0,)):
        raise Refused(f"{node.name} takes {len(takes)} arguments{' and a zone' if zone else ''}", node)
    set_zone(node, arguments[-1] if extra else None)
    node.set("expressions", arguments[: len(takes)])
    kinds = [e.type(argument) for argument in node.expressions]
    if not _fits(node, kinds, takes, exact=True) and not _fits(node, kinds, takes, exact=False):
        raise Refused(f"{node.name} takes {', '.join(kind.value for kind in takes)}", node)


def _written(node: exp.Expr, place: int, what: str) -> str:
    value = node.expressions[place] if place < len(node.expressions) else None
    if not isinstance(value, exp.Literal) or not value.is_string:
        raise Refused(f"{node.name} takes {what} that is written", node)
    return value.name


def _capturing(pattern: str, node: exp.Expr) -> int:
    """The number of groups that capture. Raises ``Refused`` for what engines may read in two ways."""
    if _REFUSED_IN_PATTERN.search(pattern) or "(?P" in pattern or "(?<" in pattern:
        raise Refused("a pattern has no \\Q, \\C and no named groups here", node)
    return sum(capturing for capturing, _ in pattern_groups(pattern))


def _always_matches(pattern: str) -> bool:
    """Whether the capturing group of a pattern takes part in each of its matches."""
    groups = pattern_groups(pattern)
    return all(always for _, always in groups)


def _check_replacement(text: str, groups: int, node: exp.Expr) -> None:
    for match in re.finditer(r"\\(.?)", text, re.DOTALL):
        if not (match[1] == "\\" or (match[1].isdigit() and match[1].isascii() and int(match[1]) <= groups)):
            raise Refused(f"a replacement has \\\\ and \\0 to \\{groups} alone", node)
