"""Functions that are read as calls by their own name, with the types they take and give.

sqlglot reads several names as one node, also names that differ in meaning, and rewrites
arguments such as formats. A call keeps what was written. Every form has one meaning on every
engine; an engine's dialect knows it by ``key``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from contract.schema import SqlType

S = SqlType
_N: Final = (S.INT64, S.NUMERIC, S.FLOAT64)


class Safe(Enum):
    """What ``SAFE.`` before a function means: nothing, NULL instead of its failure, or no form here."""

    SAME = "same"
    NULL = "null"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Form:
    """One way to call a function; ``optional`` arguments at the end may be left out."""

    key: str
    takes: tuple[SqlType, ...]
    gives: SqlType
    safe: Safe = Safe.SAME
    optional: int = 0
    approximate: bool = False  # its last digit differs from engine to engine


def _text(key: str, *takes: SqlType, gives: SqlType = S.STRING, safe: Safe = Safe.SAME, optional: int = 0) -> Form:
    return Form(key, takes, gives, safe, optional)


def _real(key: str, places: int = 1, safe: Safe = Safe.REFUSED, *, approximate: bool = True) -> tuple[Form, ...]:
    return (Form(key, (S.FLOAT64,) * places, S.FLOAT64, safe, approximate=approximate),)


def _of_numbers(key: str, places: int) -> tuple[Form, ...]:
    return tuple(Form(f"{key}_{kind.value.lower()}", (kind,) * places, kind) for kind in _N)


def _hash(key: str) -> tuple[Form, ...]:
    return tuple(Form(key, (kind,), S.BYTES) for kind in (S.STRING, S.BYTES))


# fmt: off
CALLS: Final[dict[str, tuple[Form, ...]]] = {
    # text
    "ASCII": (_text("ascii", S.STRING, gives=S.INT64, safe=Safe.NULL),),
    "CHR": (_text("chr", S.INT64, safe=Safe.NULL),),
    "FROM_BASE64": (_text("from_base64", S.STRING, gives=S.BYTES, safe=Safe.NULL),),
    "FROM_HEX": (_text("from_hex", S.STRING, gives=S.BYTES, safe=Safe.NULL),),
    "INSTR": (_text("strpos", S.STRING, S.STRING, gives=S.INT64),),
    "LEFT": (_text("left", S.STRING, S.INT64, safe=Safe.NULL), _text("left_bytes", S.BYTES, S.INT64, gives=S.BYTES, safe=Safe.NULL)),
    "LPAD": (_text("lpad", S.STRING, S.INT64, S.STRING, safe=Safe.REFUSED, optional=1),),
    "MD5": _hash("md5"),
    "NORMALIZE": (_text("normalize", S.STRING),),
    "OCTET_LENGTH": (_text("byte_length", S.STRING, gives=S.INT64), _text("length_bytes", S.BYTES, gives=S.INT64)),
    "REPEAT": (_text("repeat", S.STRING, S.INT64, safe=Safe.REFUSED),),
    "REVERSE": (_text("reverse", S.STRING),),
    "RIGHT": (_text("right", S.STRING, S.INT64, safe=Safe.NULL), _text("right_bytes", S.BYTES, S.INT64, gives=S.BYTES, safe=Safe.NULL)),
    "RPAD": (_text("rpad", S.STRING, S.INT64, S.STRING, safe=Safe.REFUSED, optional=1),),
    "SHA1": _hash("sha1"),
    "SHA256": _hash("sha256"),
    "TO_BASE64": (_text("to_base64", S.BYTES),),
    "TO_HEX": (_text("to_hex", S.BYTES),),
    "UNICODE": (_text("unicode", S.STRING, gives=S.INT64),),
    # numbers
    "ACOS": _real("acos"), "ASIN": _real("asin"), "ATAN": _real("atan"), "ATAN2": _real("atan2", 2), "COS": _real("cos"),
    "COSH": _real("cosh"), "SIN": _real("sin"), "SINH": _real("sinh"), "TAN": _real("tan"), "TANH": _real("tanh"),
    "PI": (Form("pi", (), S.FLOAT64),),
    "LN": _real("ln", safe=Safe.NULL, approximate=False), "LOG10": _real("log10", safe=Safe.NULL), "SQRT": _real("sqrt", safe=Safe.NULL, approximate=False),
    "BIT_COUNT": (Form("bit_count", (S.INT64,), S.INT64),),
    "SAFE_ADD": _of_numbers("safe_add", 2), "SAFE_SUBTRACT": _of_numbers("safe_subtract", 2),
    "SAFE_MULTIPLY": _of_numbers("safe_multiply", 2), "SAFE_NEGATE": _of_numbers("safe_negate", 1),
}
# Calls whose arguments follow rules of their own (``call_types``).
SPECIAL_NAMES: Final = frozenset({
    "DATE", "DATETIME", "FORMAT_DATE", "FORMAT_DATETIME", "FORMAT_TIME", "FORMAT_TIMESTAMP", "LOG", "PARSE_DATE",
    "PARSE_DATETIME", "PARSE_TIME", "PARSE_TIMESTAMP", "REGEXP_CONTAINS", "REGEXP_EXTRACT", "REGEXP_REPLACE",
    "REGEXP_SUBSTR", "SPLIT", "STRING", "TIME", "TIMESTAMP",
})
# fmt: on
CALL_NAMES: Final = SPECIAL_NAMES | set(CALLS)
