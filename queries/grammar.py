"""What a template may be written with: an allow-list of nodes and their arguments, after one of words.

Everything off the lists is refused, so a construct nobody thought of cannot reach a table.
"""

from __future__ import annotations

import re
from typing import Final

from sqlglot import Token, TokenType, exp
from sqlglot.errors import SqlglotError

from queries.calls import CALL_NAMES
from queries.errors import Refused, written_name
from queries.googlesql import GoogleSql
from queries.reserved import check_shapes
from queries.tokens import check_tokens
from queries.vocabulary import ALLOWED, ARGUMENT_NAMES, DECLINED
from queries.windows import write_out_windows

MAX_TEMPLATE_BYTES: Final = 64 * 1024
MAX_NODES: Final = 4_000
MAX_DEPTH: Final = 60

_IDENTIFIER: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_PLACE: Final = re.compile(r"\.? ?Line:? \d+, Col:? \d+\.?$")
_INCOMPLETE: Final = re.compile(r"Required keyword: '\w+' missing for <class '[\w.]*\.(\w+)'>")


def parse(sql: str) -> exp.Query:
    """One GoogleSQL query of accepted constructs only. Raises ``Refused``."""
    if len(sql.encode("utf-8", "replace")) > MAX_TEMPLATE_BYTES:
        raise Refused(f"a template is at most {MAX_TEMPLATE_BYTES} bytes")
    dialect = GoogleSql()
    try:
        tokens = dialect.tokenize(sql)
        check_tokens(sql, tokens)
        parsed = dialect.parse(sql)
    except SqlglotError as error:
        raise Refused(f"not GoogleSQL: {_first_line(error)}", line=_error_line(error)) from error
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        # The parser falls over some texts that are no query.
        raise Refused("not GoogleSQL") from error
    except RecursionError as error:
        raise Refused("the query is nested too deeply") from error
    statements = [node for node in parsed if node is not None and not isinstance(node, exp.Semicolon)]
    if len(statements) != 1:
        second = statements[1] if statements else None
        raise Refused(f"a template is one query, this file holds {len(statements)} statements", second)
    tree = statements[0]
    _spell_literals(tree)
    if not isinstance(tree, (exp.Select, exp.SetOperation)):
        raise Refused(f"only a query is accepted, not {written_name(tree)}", tree)
    check_shapes(sql, tree)
    write_out_windows(tree)
    _check_implicit(tree, tokens)
    _check_nodes(tree)
    _fold_signs(tree)
    return tree


def _spell_literals(tree: exp.Expr) -> None:
    """One spelling of texts and of whole numbers."""
    for raw in list(tree.find_all(exp.RawString)):
        raw.replace(exp.Literal.string(raw.name))
    for hexadecimal in list(tree.find_all(exp.HexString)):
        hexadecimal.replace(exp.Literal.number(int(hexadecimal.name, 16)))


def _fold_signs(tree: exp.Expr) -> None:
    """``-5`` becomes one number, so that the smallest INT64 can be written."""
    for node in list(tree.find_all(exp.Neg)):
        number = node.this
        if isinstance(number, exp.Literal) and not number.is_string and not number.name.startswith("-"):
            number.set("this", f"-{number.name}")
            node.replace(number)


def _check_nodes(tree: exp.Expr) -> None:
    for count, node in enumerate(tree.walk()):
        if count > MAX_NODES or _depth(node) > MAX_DEPTH:
            raise Refused(f"the query is too large: at most {MAX_NODES} nodes, {MAX_DEPTH} deep")
        allowed = ALLOWED.get(type(node))
        if allowed is None:
            raise Refused(DECLINED.get(type(node), f"{written_name(node)} is not accepted"), node)
        if isinstance(node, exp.Star) and not (isinstance(node.parent, exp.Count) and not node.parent.expressions):
            raise Refused("* is not accepted; name the columns", node)
        _check_nested(node)
        for arg, value in node.args.items():
            if value and arg not in allowed:
                raise Refused(f"{ARGUMENT_NAMES.get(arg, arg)} is not accepted in {written_name(node)}", node)
        if isinstance(node, exp.Identifier):
            _check_identifier(node)
        if isinstance(node, exp.Anonymous) and node.name not in CALL_NAMES:
            raise Refused(DECLINED[exp.Anonymous], node)


def _check_implicit(tree: exp.Query, tokens: list[Token]) -> None:
    """Refuse ``FROM o, o.tags``, of which the parser makes an UNNEST, or below ``o`` a table of another dataset."""
    opened = {
        tokens[place + 2].start for place, token in enumerate(tokens[:-2]) if token.token_type is TokenType.UNNEST
    }
    paths: list[exp.Column | exp.Table] = [
        held
        for node in tree.find_all(exp.Unnest)
        for held in node.expressions
        if isinstance(held, exp.Column) and held.parts[0].meta.get("start") not in opened
    ]
    ranges = {node.alias_or_name.lower() for node in tree.find_all(exp.Table) if not node.args.get("db")}
    tables = [node for node in tree.find_all(exp.Table) if node.args.get("db")]
    paths.extend(node for node in tables if node.parts[0].name.lower() in ranges)
    if paths:
        name = ".".join(part.name for part in paths[0].parts)
        raise Refused(f"write UNNEST({name[:80]}) AS …: an array in FROM is unnested by name", paths[0])


def _check_nested(node: exp.Expr) -> None:
    match node:
        case exp.Unnest():
            _check_unnest(node)
        case exp.Table():
            _check_table(node)
        case exp.TableAlias() if node.args.get("columns") and not isinstance(node.parent, exp.Unnest):
            raise Refused(f"{ARGUMENT_NAMES['columns']} is not accepted in {written_name(node)}", node)
        case exp.Select() if node.args.get("kind") not in (None, "STRUCT"):
            raise Refused(f"AS {node.args['kind']} is not accepted", node)
        case exp.Column() if not isinstance(node.this, (exp.Identifier, exp.Star)):
            raise Refused("a dot is followed by the name of a field", node)
        case exp.Dot() if not isinstance(node.expression, exp.Identifier):
            raise Refused("a dot is followed by the name of a field", node)
        case exp.Bracket() if node.args.get("offset") is None or len(node.expressions) != 1:
            raise Refused("an element is a[OFFSET(n)], a[ORDINAL(n)], or with SAFE_ before it", node)
        case exp.Interval() if not isinstance(node.parent, exp.GenerateDateArray):
            raise Refused("INTERVAL is accepted in date and timestamp functions only", node)


def _check_table(node: exp.Table) -> None:
    names = [part.name for part in node.parts]
    if any(name.upper().startswith("INFORMATION_SCHEMA") for name in names):
        raise Refused("INFORMATION_SCHEMA is not accepted", node)
    if any("*" in name for name in names):
        raise Refused("a wildcard table is not accepted", node)
    if any("$" in name for name in names):
        raise Refused("a partition of a table is not accepted", node)
    if node.args.get("db"):
        raise Refused("a table is named by its declared name alone, without a dataset or project", node)
    if not isinstance(node.this, exp.Identifier):
        raise Refused("only a table's name stands here", node)


def _check_unnest(node: exp.Unnest) -> None:
    # What the parser notes for dialects in which UNNEST opens structs too.
    node.set("explode_array", None)
    if len(node.expressions) != 1:
        raise Refused("UNNEST takes one array", node)
    if isinstance(node.parent, exp.In) and node.arg_key == "unnest":
        return
    if not isinstance(node.parent, (exp.From, exp.Join)):
        raise Refused("UNNEST stands in FROM or after IN", node)
    if node.args.get("alias") is None:  # the parser takes one name there and no more
        raise Refused("UNNEST in FROM needs an alias: UNNEST(…) AS name", node)


def _check_identifier(node: exp.Identifier) -> None:
    name = node.name
    if name.startswith("_"):
        raise Refused(f"{name[:40]} is a pseudo column, or a name that is kept for this service", node)
    if not _IDENTIFIER.fullmatch(name.replace("-", "_")) or len(name) > 64:
        raise Refused(f"the name {name[:40]!r} is not made of letters, digits, '_' and '-'", node)


def _depth(node: exp.Expr) -> int:
    # Cheap enough at load; sqlglot's own ``depth`` is the same walk.
    depth = 0
    parent = node.parent
    while parent is not None:
        depth, parent = depth + 1, parent.parent
    return depth


def _first_line(error: Exception) -> str:
    text = _PLACE.sub("", str(error).strip().split("\n")[0])
    incomplete = _INCOMPLETE.fullmatch(text)
    return f"{incomplete[1].upper()} is not complete" if incomplete else text[:160]


def _error_line(error: SqlglotError) -> int | None:
    details = getattr(error, "errors", None) or [{}]
    line = details[0].get("line")
    return None if line is None else int(line)
