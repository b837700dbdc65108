"""Names for what a source calls in its own way: lower case, ``a-z``, ``0-9`` and ``_``, each once."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Final

from contract.ids import is_slug

_LONGEST: Final = 48
_OTHER: Final = re.compile(r"[^a-z0-9]+")

# What GoogleSQL reserves: as a column it would have to be quoted wherever it is named.
_RESERVED_TEXT: Final = """
all and any array as asc assert_rows_modified at between by case cast collate contains create cross cube current
default define desc distinct else end enum escape except exclude exists extract false fetch following for from full
group grouping groups hash having if ignore in inner intersect interval into is join lateral left like limit lookup
merge natural new no not null nulls of on or order outer over partition preceding proto qualify range recursive
respect right rollup rows select set some struct tablesample then to treat true unbounded union unnest using when
where window with within
"""
RESERVED: Final = frozenset(_RESERVED_TEXT.split())


def slug_of(text: str, otherwise: str = "column") -> str:
    """A name made of ``text``: ``Dep Time (local)`` is ``dep_time_local``."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    name = _OTHER.sub("_", plain).strip("_")[:_LONGEST].rstrip("_")
    if not name:
        return otherwise
    return name if name[0].isalpha() else f"{otherwise}_{name}"


def table_name(text: str) -> str:
    """A name that templates may give a table without quotes."""
    name = slug_of(text, "table")
    return f"{name}_table" if name in RESERVED else name


def column_names(names: Iterable[str]) -> dict[str, str]:
    """A name for each column of a table, in order: its own where it is one already."""
    given = list(names)
    kept = {name for name in given if is_column(name)}
    taken, found = set(kept), {}
    for number, name in enumerate(given, 1):
        if name in kept:
            found[name] = name
            continue
        made = slug_of(name, "column")
        made = f"column_{number}" if made == "column" else made
        made = f"{made}_value" if made in RESERVED else made
        unique, times = made, 2
        while unique in taken:
            unique, times = f"{made}_{times}", times + 1
        taken.add(unique)
        found[name] = unique
    return found


def is_column(name: str) -> bool:
    """Whether a column may keep its name, in a template without quotes."""
    return is_slug(name) and "-" not in name and name not in RESERVED
