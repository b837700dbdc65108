"""A table whose groups add up, templates over it with and without a grain, and random calls of them."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from typing import Any, Final

from contract.rollup import Rollup
from contract.schema import Table
from contract.scope import Sensitivity
from queries.template import Template, load_template
from tests.queries.world import DATASET, parameter, results, table

FILLS: Final[Table] = table(
    "fills", "day:DATE", "at:TIMESTAMP", "site:STRING", "line:INT64", "lot:STRING", "grams:NUMERIC", "units:INT64"
)
SITES: Final = ("Basel", "basel", "Ž", "\U0001d11e", "\uffee", "", 'a"b\\', "Cork", "Cork ", "é", "e")
FIRST: Final = dt.date(2024, 1, 28)
DAYS: Final = 12
PARAMETERS: Final = (
    parameter("from_day:DATE"),
    parameter("to_day:DATE"),
    parameter("sites:STRING[]", default=[]),
    parameter("lines:INT64[]", nullable=True),
    parameter("least:INT64"),
    parameter("per:STRING", values=["all", "day_site", "site_line", "day", "none"], default="all"),
)
LEVELS: Final = {
    "all": ["day", "site", "line"], "day_site": ["day", "site"], "site_line": ["site", "line"], "day": ["day"], "none": [],
}  # fmt: skip
ROLLUP: Final[dict[str, Any]] = {
    "dimensions": {"day": {"range": ["from_day", "to_day"]}, "site": {"one_of": "sites"}, "line": {"one_of": "lines"}},
    "measures": {
        "n": "count", "weighed": "count", "total": "sum", "low": "min", "high": "max",
        "mean": {"average": ["total", "weighed"]}, "counted": "count", "units": "sum",
        "units_mean": {"average": ["units", "counted"]}, "last": "max", "lot": "min",
    },
    "keep": {"parameter": "per", "levels": LEVELS},
}  # fmt: skip
DECLARED: Final = (
    "day:DATE n:INT64 site:STRING total:NUMERIC line:INT64 weighed:INT64 low:NUMERIC high:NUMERIC mean:NUMERIC "
    "counted:INT64 units:INT64 units_mean:FLOAT64 last:TIMESTAMP lot:STRING"
)
SQL: Final = """
SELECT
  CASE WHEN @per = 'all' OR @per IN ('day_site', 'day') THEN f.day END AS day,
  COUNT(*) AS n,
  CASE WHEN @per IN ('all', 'day_site', 'site_line') THEN f.site END AS site,
  SUM(f.grams) AS total,
  IF(@per = 'all' OR @per = 'site_line', f.line, NULL) AS line,
  COUNT(f.grams) AS weighed,
  MIN(f.grams) AS low,
  MAX(f.grams) AS high,
  AVG(f.grams) AS mean,
  COUNT(f.units) AS counted,
  SUM(f.units) AS units,
  AVG(f.units) AS units_mean,
  MAX(f.at) AS last,
  MIN(f.lot) AS lot
FROM fills AS f
WHERE f.day >= @from_day AND f.day < @to_day
  AND (ARRAY_LENGTH(@sites) = 0 OR f.site IN UNNEST(@sites))
  AND (@lines IS NULL OR f.line IN UNNEST(@lines))
  AND (f.units IS NULL OR f.units >= @least)
GROUP BY day, site, line
ORDER BY total DESC, site, day DESC
"""


def load(sql: str = SQL, declared: str = DECLARED, parameters: tuple[Any, ...] = PARAMETERS) -> Template:
    return load_template(
        sql,
        name="templates/fills.sql",
        dataset=DATASET,
        tables=(FILLS,),
        parameters=parameters,
        results=results(declared),
        ceiling=Sensitivity.RESTRICTED,
    )


def rollup(**changes: Any) -> Rollup:
    return Rollup.model_validate({**ROLLUP, **changes})


def rows(seed: int, size: int = 160) -> list[dict[str, Any]]:
    """Fills with NULLs everywhere, ties, texts that order differently by code point and by language, exact extremes."""
    rng = random.Random(seed)
    amounts = [
        Decimal("0.000000001"),
        Decimal("-0.000000002"),
        Decimal("12.5"),
        Decimal("1e19"),
        Decimal("-3"),
        Decimal(0),
    ]

    def maybe(value: Any, share: float = 0.15) -> Any:
        return None if rng.random() < share else value

    return [
        {
            "day": maybe(FIRST + dt.timedelta(days=rng.randrange(DAYS))),
            "at": maybe(dt.datetime(2024, 1, 30, tzinfo=dt.UTC) + dt.timedelta(microseconds=rng.randrange(10**12))),
            "site": maybe(rng.choice(SITES)),
            "line": maybe(rng.randrange(-1, 4)),
            "lot": maybe(rng.choice(["L1", "l1", "", "Ä"])),
            "grams": maybe(rng.choice([*amounts, Decimal(rng.randrange(-(10**12), 10**12)) / Decimal(10**9)])),
            "units": maybe(rng.choice([0, 1, -7, 2**40, rng.randrange(-100, 100)])),
        }
        for _ in range(size)
    ]


def calls(rng: random.Random) -> dict[str, Any]:
    """A random call; narrow and empty ones too."""
    drawn = [rng.randrange(-1, DAYS + 2) for _ in range(4)]
    days = [min(drawn), max(drawn)]
    if rng.random() < 0.05:
        days.reverse()
    chosen = lambda values: rng.sample(values, rng.randrange(0, len(values) + 1))  # noqa: E731
    return {
        "from_day": str(FIRST + dt.timedelta(days=days[0])),
        "to_day": str(FIRST + dt.timedelta(days=days[1])),
        "sites": chosen(list(SITES)) if rng.random() < 0.7 else [],
        "lines": [rng.randrange(-1, 4), *chosen([-1, 0, 1, 2, 3])] if rng.random() < 0.7 else None,
        "least": rng.choice([-1000, -1000, 0]),
        "per": rng.choice(list(LEVELS)),
    }


def narrower(rng: random.Random, wide: dict[str, Any]) -> dict[str, Any]:
    """A call that the result of ``wide`` may hold, often at its edges."""
    first, end = dt.date.fromisoformat(wide["from_day"]), dt.date.fromisoformat(wide["to_day"])
    span = max((end - first).days, 0)
    start = rng.choice([0, 0, rng.randrange(span + 1)])
    stop = rng.choice([span, span, rng.randrange(start, span + 1)])
    levels = [name for name, kept in LEVELS.items() if set(kept) <= set(LEVELS[wide["per"]])]
    sites = wide["sites"] or (list(SITES) if rng.random() < 0.5 else [])
    lines = wide["lines"] if wide["lines"] is not None else rng.choice([None, [-1, 0, 1, 2, 3]])
    return {
        **wide,
        "from_day": str(first + dt.timedelta(days=start)),
        "to_day": str(first + dt.timedelta(days=stop)) if span else wide["to_day"],
        "sites": rng.sample(sites, rng.randrange(1, len(sites) + 1)) if sites else [],
        "lines": rng.sample(lines, rng.randrange(0, len(lines) + 1)) if lines else wide["lines"],
        "per": rng.choice(levels),
    }
