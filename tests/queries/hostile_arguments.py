"""Arguments that are not what they are declared, and arguments that look like SQL, patterns or paths."""

from __future__ import annotations

from typing import Any, Final

from tests.queries.hostile_row import Hostile, bounded, unfit
from tests.queries.world import parameter

_UNFIT: Final[dict[str, tuple[str, Any]]] = {
    "true for a number": ("INT64", True),
    "false for a number": ("INT64", False),
    "a float for a number": ("INT64", 1.0),
    "text for a number": ("INT64", "1"),
    "text with a sign for a number": ("INT64", "+1"),
    "a number beyond 64 bits": ("INT64", 2**63),
    "text beyond 64 bits": ("INT64", str(2**63)),
    "a number of 5000 digits": ("INT64", 10**5000),
    "text of 5000 digits": ("INT64", "9" * 5000),
    "hexadecimal": ("INT64", "0x10"),
    "NULL for a number": ("INT64", None),
    "a list for a number": ("INT64", [1]),
    "an object for a number": ("INT64", {"$ne": 0}),
    "not a number": ("FLOAT64", float("nan")),
    "infinity": ("FLOAT64", float("inf")),
    "infinity as text": ("FLOAT64", "Infinity"),
    "a number no FLOAT64 holds": ("FLOAT64", 2**60 + 1),
    "forty digits": ("NUMERIC", "1" * 40),
    "ten decimals": ("NUMERIC", "0.0000000001"),
    "an exponent": ("NUMERIC", "1e9"),
    "a fraction": ("NUMERIC", "1/2"),
    "a number for truth": ("BOOL", 1),
    "text for truth": ("BOOL", "true"),
    "no date": ("DATE", "2023-02-29"),
    "year ten thousand": ("DATE", "10000-01-01"),
    "a date that ends otherwise": ("DATE", "2024-01-01' OR '1'='1"),
    "infinite date": ("DATE", "infinity"),
    "a moment without a zone": ("TIMESTAMP", "2024-01-01T00:00:00"),
    "a moment below the first year": ("TIMESTAMP", "0001-01-01T00:00:00+14:00"),
    "a number for text": ("STRING", 1),
    "a list for text": ("STRING", ["a"]),
    "an object for text": ("STRING", {"a": "b"}),
    "a nul character": ("STRING", "a\x00b"),
    "half a surrogate": ("STRING", "a\ud800"),
    "text beyond its length": ("STRING", "x" * 257),
    "text of a megabyte": ("STRING", "x" * 2**20),
    "text that grows when composed": ("STRING", "\ufdfa" * 257),
    "text for a list": ("STRING[]", "a"),
    "a list with NULL": ("STRING[]", ["a", None]),
    "a list in a list": ("STRING[]", [["a"]]),
    "a list of objects": ("STRING[]", [{"a": 1}]),
    "a long list": ("STRING[]", ["a"] * 101),
    "a list with a long text": ("STRING[]", ["x" * 257]),
}  # fmt: skip
_LOOKING: Final = (
    "' OR ''='",
    "'; DROP TABLE orders; --",
    "x') UNION SELECT word FROM secrets --",
    "\\",
    "\\'",
    "%",
    "_",
    "$__s0",
    "$__k",
    "@p",
    "`secrets`",
    '"__data"."secrets"',
    "../secret.csv",
    "/etc/passwd",
    "read_csv('secret.csv')",
    "{'a': 1}",
    "[1, 2]",
    "NULL",
    "\x1a",
    "\r\n",
    "𝕏",
    "ｓｅｃｒｅｔｓ",
    "\u202e",
    "(?:a+)+$",
    "x" * 256,
)
_TEXT: Final = parameter("p:STRING")
_LISTED: Final = parameter("p:STRING", values=["EU", "US"])

ARGUMENTS: Final[tuple[Hostile, ...]] = (
    *(unfit(f"argument: {name}", value, kind) for name, (kind, value) in _UNFIT.items()),
    Hostile("argument: none that is declared", "SELECT COUNT(*) AS x FROM orders WHERE note = @p", "x:INT64", "arguments", (_TEXT,), (("q", "a"),)),
    Hostile("argument: a reserved name", "SELECT COUNT(*) AS x FROM orders WHERE note = @p", "x:INT64", "arguments", (_TEXT,), (("p", "a"), ("__s0", "a"))),
    Hostile("argument: missing", "SELECT COUNT(*) AS x FROM orders WHERE note = @p", "x:INT64", "arguments", (_TEXT,)),
    Hostile("argument: not listed", "SELECT COUNT(*) AS x FROM orders WHERE region = @p", "x:INT64", "arguments", (_LISTED,), (("p", "APAC"),)),
    Hostile("argument: a pattern where values are listed", "SELECT COUNT(*) AS x FROM orders WHERE region LIKE @p", "x:INT64", "arguments", (_LISTED,), (("p", "%"),)),
    Hostile("argument: a limit that is NULL", "SELECT id AS x FROM orders ORDER BY x LIMIT @p", "x:INT64", "arguments", (parameter("p:INT64", minimum=0, maximum=10),), (("p", None),)),
    Hostile("argument: a limit beyond its maximum", "SELECT id AS x FROM orders ORDER BY x LIMIT @p", "x:INT64", "arguments", (parameter("p:INT64", minimum=0, maximum=10),), (("p", 11),)),
    Hostile("argument: a negative limit", "SELECT id AS x FROM orders ORDER BY x LIMIT @p", "x:INT64", "arguments", (parameter("p:INT64", minimum=0, maximum=10),), (("p", -1),)),
    Hostile("argument: a limit that may be NULL", "SELECT id AS x FROM orders ORDER BY x LIMIT @p", "x:INT64", "load", (parameter("p:INT64", nullable=True),), (("p", None),)),
    Hostile("argument: a pattern that is not declared one", "SELECT COUNT(*) AS x FROM orders WHERE note LIKE @p", "x:INT64", "load", (_TEXT,), (("p", "%"),)),
    *(
        bounded(f"looks like more: {text[:24]!r}", "SELECT COUNT(*) AS x FROM orders WHERE note = @p OR STRPOS(note, @p) > 0", "x:INT64", _TEXT, arguments={"p": text})
        for text in _LOOKING
    ),
)  # fmt: skip
