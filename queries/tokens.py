"""What is refused by its words, before a tree exists.

The parser maps several names, also foreign ones, to one node, forgets qualifiers such as
``SAFE.``, and drops words that it has no place for.
"""

from __future__ import annotations

import re
from typing import Final

from sqlglot import Token, TokenType

from queries.errors import Refused
from queries.foreign import check_foreign
from queries.vocabulary import BEFORE_PARENTHESIS, CONSTRUCTS, FUNCTION_NAMES, HINTS, TABLE_FUNCTIONS

T = TokenType
_WORD: Final = re.compile(r"[A-Za-z_`][A-Za-z0-9_ `]*")
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_BYTES: Final = re.compile(r"[bB](['\"])(?:[ -\[\]-~]|\\(?:x[0-9a-fA-F]{2}|[nrt'\"\\]))*\1")
_TEXTS: Final = (T.STRING, T.RAW_STRING)
# What is between brackets is looked at once for each of them.
MAX_DEPTH: Final = 200
_OPENING: Final = (T.L_PAREN, T.L_BRACKET)
_CLOSING: Final = (T.R_PAREN, T.R_BRACKET)
_FIRST: Final = (T.SELECT, T.WITH, T.FROM, T.L_PAREN, T.SEMICOLON)
_SOURCES: Final = (T.FROM, T.JOIN)
# By the word's type alone, and by the type of the word that follows it.
_ALONE: Final = {
    T.PIPE_GT: "the pipe syntax is not accepted; write SELECT … FROM …",
    T.TABLE_SAMPLE: "TABLESAMPLE is not accepted",
    T.FOR: "FOR SYSTEM_TIME, as any FOR, is not accepted",
}
_PAIRS: Final = {
    (T.PARAMETER, T.PARAMETER): "a system variable is not accepted",
    (T.PARAMETER, T.L_BRACE): "a hint is not accepted",
    (T.FROM, T.PARAMETER): "a parameter is no table",
    (T.JOIN, T.PARAMETER): "a parameter is no table",
    (T.FROM, T.STRING): "a text is no table",
    (T.JOIN, T.STRING): "a text is no table",
}


def check_tokens(sql: str, tokens: list[Token]) -> None:
    """Raises ``Refused`` at the line of the word."""
    _check_depth(tokens)
    if tokens and tokens[0].token_type not in _FIRST:
        raise Refused(f"only a query is accepted, not {tokens[0].text[:40].upper()}", line=tokens[0].line)
    for index, token in enumerate(tokens):
        following = tokens[index + 1] if index + 1 < len(tokens) else None
        source = sql[token.start : token.end + 1]
        message = _ALONE.get(token.token_type)
        if following is not None and token.token_type not in _SOURCES:
            message = message or _PAIRS.get((token.token_type, following.token_type))
        elif (
            following is not None
            and _names_table(tokens, index)
            and (index + 2 == len(tokens) or tokens[index + 2].token_type is not T.L_BRACE)
        ):
            message = _PAIRS.get((token.token_type, following.token_type))
        if message is not None:
            raise Refused(message, line=token.line)
        if token.token_type in _TEXTS:
            _check_text(source, token)
        if token.token_type is T.BYTE_STRING and not _BYTES.fullmatch(source):
            raise Refused("bytes are written b'…' in ASCII with the escapes \\xHH \\n \\r \\t", line=token.line)
        if token.token_type is T.IDENTIFIER and "\\" in source:
            raise Refused("a name with an escape is not accepted", line=token.line)
        if token.token_type in (T.UNION, T.INTERSECT, T.EXCEPT):
            _check_set_operation(tokens, index)
        if following is not None and following.token_type is T.L_PAREN:
            _check_call(tokens, index)
    check_foreign(sql, tokens)


def _check_depth(tokens: list[Token]) -> None:
    depth = 0
    for token in tokens:
        depth += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
        if depth > MAX_DEPTH:
            raise Refused("the query is nested too deeply", line=token.line)


def _names_table(tokens: list[Token], index: int) -> bool:
    """Whether FROM or JOIN is followed by a table, not by an operand of IS DISTINCT FROM, EXTRACT or TRIM."""
    if tokens[index].token_type is not T.FROM:
        return True
    if index > 0 and tokens[index - 1].token_type is T.DISTINCT:
        return False
    depth = 0
    for token in reversed(tokens[:index]):
        if token.token_type is T.SELECT and depth == 0:
            return True
        depth += {T.R_PAREN: 1, T.L_PAREN: -1}.get(token.token_type, 0)
        if depth < 0:
            return False
    return True


def _check_set_operation(tokens: list[Token], index: int) -> None:
    # UNION ALL | DISTINCT, perhaps STRICT, then BY NAME or CORRESPONDING
    words = [token.text.upper() for token in tokens[index + 1 : index + 5]]
    for word in words:
        if word in ("BY", "CORRESPONDING"):
            raise Refused(
                "BY NAME and CORRESPONDING are not accepted; name the columns in one order", line=tokens[index].line
            )
        if word not in ("ALL", "DISTINCT", "STRICT"):
            return


def _check_call(tokens: list[Token], index: int) -> None:
    token = tokens[index]
    if not _WORD.fullmatch(token.text) and token.token_type is not T.IDENTIFIER:
        return
    name = token.text.upper()
    quoted = token.token_type is T.IDENTIFIER
    if not quoted and name.split(" ")[-1] in BEFORE_PARENTHESIS and token.token_type is not T.VAR:
        return
    start = _start(tokens, index)
    dotted = start < index
    if dotted and index - start == 2 and tokens[start].text.upper() == "SAFE":
        dotted = tokens[start].token_type is not T.VAR or name not in FUNCTION_NAMES
    if quoted or dotted or name not in FUNCTION_NAMES:
        raise Refused(_reason(tokens, start, index, quoted, dotted), line=token.line)


def _start(tokens: list[Token], index: int) -> int:
    """The first word of a dotted name."""
    while index > 1 and tokens[index - 1].token_type is T.DOT:
        index -= 2
    return index


def _reason(tokens: list[Token], start: int, index: int, quoted: bool, dotted: bool) -> str:
    name = tokens[index].text.upper()
    before = tokens[start - 1].token_type if start else None
    written = "".join(token.text for token in tokens[start : index + 1])[:60]
    if name in CONSTRUCTS and not quoted and not dotted:
        return f"{name} {CONSTRUCTS[name]}"
    if before in _SOURCES or name in TABLE_FUNCTIONS:
        return f"{written}() is a table function, which is not accepted"
    if before in (T.ALIAS, T.WITH):
        return "a list of column names after an alias is not accepted; name the columns in the query"
    if quoted:
        return f"{written}(): a function name in back-ticks is not accepted"
    if dotted:
        return f"{written}(): a function name with a dot is not accepted"
    return f"{written}() {HINTS.get(name, 'is not on the list of accepted functions')}"


def _check_text(source: str, token: Token) -> None:
    if source[:1].lower() == "r":
        return
    for match in _ESCAPE.finditer(source):
        if match[1] not in "\\'\"`nrt":
            raise Refused(f"the escape \\{match[1]} is not accepted in text", line=token.line)
