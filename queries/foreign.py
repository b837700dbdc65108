"""What the parser reads as well, and GoogleSQL does not have: spellings of other dialects.

They would run, but a template is what Google's documentation says, so that who reads it, and
BigQuery's own tools, read the same. Looked for in the words, because the tree forgets them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from sqlglot import Token, TokenType
from sqlglot.parsers.bigquery import BigQueryParser

from queries.errors import Refused

T = TokenType
_MARKS: Final = frozenset({
    "(", ")", "[", "]", ",", ".", ";", "+", "-", "*", "/", "=", "!=", "<>", "<", "<=", ">", ">=", "||", "&", "|", "^", "~", "@", "?",
    "=>", "|>",
})  # fmt: skip
_INSTEAD: Final = {
    "%": "MOD(a, b)", "::": "CAST(… AS …)", "==": "=", "<=>": "IS NOT DISTINCT FROM", "~~": "LIKE", "!~~": "NOT LIKE", "!": "NOT",
}  # fmt: skip
_POSTFIX: Final = {T.ISNULL: "IS NULL", T.NOTNULL: "IS NOT NULL"}
_TYPES: Final = frozenset({
    "INT64", "BIGINT", "FLOAT64", "NUMERIC", "DECIMAL", "BIGNUMERIC",
    "BIGDECIMAL", "BOOL", "BOOLEAN", "STRING", "BYTES", "DATE", "DATETIME", "TIME", "TIMESTAMP", "INTERVAL", "JSON", "GEOGRAPHY",
    "RANGE", "ARRAY", "STRUCT",
})  # fmt: skip
# BigQuery's other names of INT64, of which engines make smaller numbers.
_ALIASES: Final = ("INT", "SMALLINT", "INTEGER", "TINYINT", "BYTEINT")
# Types of which ``TYPE 'text'`` is a literal.
_LITERALS: Final = frozenset(
    [
        "DATE",
        "DATETIME",
        "TIME",
        "TIMESTAMP",
        "NUMERIC",
        "DECIMAL",
        "BIGNUMERIC",
        "BIGDECIMAL",
        "JSON",
        "INTERVAL",
        "RANGE",
    ]
)
_CLAUSES: Final = ("DATE", "DATETIME", "TIME", "TIMESTAMP")
# Where a function takes the name of a part, from 0.
_PART: Final = {
    **{f"{kind}_TRUNC": 1 for kind in _CLAUSES},
    **{f"{kind}_DIFF": 2 for kind in _CLAUSES},
    "LAST_DAY": 1,
}
# Two words of which the second does not follow the first; ``None`` is the end.
_PAIRS: Final = {
    (T.IN, T.L_BRACKET): "IN takes values in parentheses, or UNNEST of an array",
    (T.L_PAREN, T.ALL): "ALL is not accepted here; without DISTINCT it is meant anyway",
    (T.L_PAREN, T.FROM): "a query starts with SELECT or WITH",
    (T.ALIAS, T.STRING): "a name is no text; write it in back-ticks",
    (T.GROUP_BY, T.DISTINCT): "DISTINCT is not accepted in GROUP BY",
    (T.SEMICOLON, T.SEMICOLON): "a template is one query, with one semicolon at most",
    **dict.fromkeys([(T.COMMA, T.R_PAREN), (T.COMMA, T.R_BRACKET), (T.COMMA, None)], "after a comma something follows"),
}
_OPENING, _CLOSING = (T.L_PAREN, T.L_BRACKET), (T.R_PAREN, T.R_BRACKET)
Words = Sequence[Token]


def check_foreign(sql: str, tokens: Words) -> None:
    """Raises ``Refused`` at the line of a word or mark that is not GoogleSQL's."""
    _check_set_operations(tokens)
    for index, token in enumerate(tokens):
        following = tokens[index + 1] if index + 1 < len(tokens) else None
        _check_mark(sql[token.start : token.end + 1], token)
        _check_pair(tokens, index, following)
        if following is None or token.token_type is T.IDENTIFIER:
            continue
        word, opens = token.text.upper(), following.token_type is T.L_PAREN
        if following.token_type in (T.STRING, T.RAW_STRING):
            _check_literal(token, tokens, index)
        if opens:
            _check_call(word, list(_arguments(tokens, index + 1)), token)
        if opens and word in ("CAST", "SAFE_CAST"):
            _check_target(tokens, index + 1)
        if word in ("ARRAY", "STRUCT") and following.token_type is T.LT:
            _check_types(tokens, index)
        if word == "IF" and not opens and (index == 0 or tokens[index - 1].token_type not in (T.DOT, T.ALIAS)):
            raise Refused("IF is a function here: IF(condition, value, other)", line=token.line)


def _check_set_operations(tokens: Words) -> None:
    """Those beside one another are the same: which binds first GoogleSQL leaves to parentheses."""
    held: list[tuple[str, str] | None] = [None]
    for token, following in zip(tokens, tokens[1:], strict=False):
        if token.token_type is T.L_PAREN:
            held.append(None)
        elif token.token_type is T.R_PAREN and len(held) > 1:
            held.pop()
        elif token.token_type in (T.UNION, T.INTERSECT, T.EXCEPT) and following.token_type in (T.ALL, T.DISTINCT):
            operation = token.text.upper(), following.text.upper()
            if held[-1] not in (None, operation):
                raise Refused("different set operations need parentheses", line=token.line)
            held[-1] = operation


def _check_mark(source: str, token: Token) -> None:
    instead = _POSTFIX.get(token.token_type)
    if instead is None and (source[:1].isalnum() or source[:1] in "_`'\"$\\" or source in _MARKS):
        return
    if source[:1] in ".":  # a number such as .5
        return
    instead = instead or _INSTEAD.get(source)
    hint = f"; write {instead}" if instead else ""
    raise Refused(f"{source[:20]} is not GoogleSQL{hint}", line=token.line)


def _check_pair(tokens: Words, index: int, following: Token | None) -> None:
    token, after = tokens[index], following.token_type if following is not None else None
    before = tokens[index - 1].token_type if index else None
    message = _PAIRS.get((token.token_type, after))
    if token.token_type is T.NOT and after is T.NULL and before is not T.IS:
        message = "write IS NOT NULL"
    if token.token_type is T.USING and after is not T.L_PAREN:
        message = "the columns of USING stand in parentheses"
    if token.token_type is T.R_PAREN and following is not None and following.text.upper() in ("IGNORE", "RESPECT"):
        message = f"{following.text.upper()} NULLS stands inside the parentheses of its function"
    if token.token_type is T.LIMIT:
        rest = [held.token_type for held in tokens[index + 1 : index + 4]]
        if T.COMMA in rest[1 : 3 if rest[:1] == [T.PARAMETER] else 2]:
            message = "write LIMIT rows OFFSET rows"
    if token.token_type is T.FROM and index == 0:
        message = "a query starts with SELECT or WITH"
    if message is not None:
        raise Refused(message, line=token.line)


def _check_literal(token: Token, tokens: Words, index: int) -> None:
    word = token.text.upper()
    if token.token_type is T.INTERVAL:
        after = tokens[index + 2] if index + 2 < len(tokens) else None
        if after is None or after.token_type in (*_CLOSING, T.COMMA):
            raise Refused("an INTERVAL is a number and a part: INTERVAL 1 DAY", line=token.line)
    elif token.token_type in BigQueryParser.TYPE_TOKENS and word not in _LITERALS:
        raise Refused(f"{word} before a text makes no literal; write CAST('…' AS …)", line=token.line)


def _arguments(tokens: Words, opening: int) -> Iterator[Words]:
    """The arguments of the call whose parenthesis is ``opening``."""
    depth, first = 0, opening + 1
    for index in range(opening, len(tokens)):
        kind = tokens[index].token_type
        depth += (kind in _OPENING) - (kind in _CLOSING)
        if depth == 0 or (depth == 1 and kind is T.COMMA):
            yield tokens[first:index]
            first = index + 1
        if depth == 0:
            return


def _check_call(word: str, arguments: Sequence[Words], token: Token) -> None:
    place = _PART.get(word)
    if place is not None and place < len(arguments):
        _check_part(arguments[place], token)
    if word == "EXTRACT":
        _check_part(arguments[0][:1], token)
        if len(arguments) > 1:
            raise Refused("EXTRACT is written EXTRACT(part FROM value)", line=token.line)
    if word in ("TRIM", "LTRIM", "RTRIM") and len(arguments) > 2:
        raise Refused(f"{word} takes one or two arguments", line=token.line)
    if word in ("SUBSTR", "SUBSTRING") and any(item.token_type is T.FROM for item in _outer(arguments[0])):
        raise Refused(f"{word} takes its arguments between commas", line=token.line)


def _outer(words: Words) -> Iterator[Token]:
    depth = 0
    for token in words:
        depth += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
        if depth == 0:
            yield token


def _check_part(argument: Words, token: Token) -> None:
    if len(argument) == 1 and argument[0].token_type in (T.STRING, T.RAW_STRING):
        raise Refused(f"the part of {token.text.upper()} is a word, not a text", line=argument[0].line)


def _check_target(tokens: Words, opening: int) -> None:
    """The type after AS in ``CAST(… AS type)``."""
    depth = 0
    for index in range(opening, len(tokens) - 2):
        kind = tokens[index].token_type
        depth += (kind in _OPENING) - (kind in _CLOSING)
        if depth == 0:
            return
        if depth == 1 and kind is T.ALIAS:
            target, after = tokens[index + 1], tokens[index + 2]
            if after.token_type is not T.LT:
                _check_type(target)
                if after.token_type not in (*_OPENING, *_CLOSING, T.FORMAT):
                    raise Refused(
                        f"the type {target.text.upper()} {after.text.upper()} is not GoogleSQL's", line=after.line
                    )
            return


def _check_types(tokens: Words, start: int) -> None:
    """The types in ``ARRAY<…>`` and ``STRUCT<…>``: a word that another word follows is a field's name."""
    for index in range(start + 1, len(tokens) - 1):
        token, after = tokens[index], tokens[index + 1]
        if token.text[:1].isalpha() and after.token_type in (T.GT, T.COMMA):
            _check_type(token)
        if token.token_type is T.GT and after.token_type not in (T.GT, T.COMMA):
            return


def _check_type(token: Token) -> None:
    word = token.text.upper()
    if word in _ALIASES:
        raise Refused(f"write INT64 for {word}", line=token.line)
    if token.token_type is not T.IDENTIFIER and word not in _TYPES:
        raise Refused(f"{word[:40]} is no type of GoogleSQL", line=token.line)
