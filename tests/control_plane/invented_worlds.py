"""Five datasets of other domains than those that are shipped: what is read of questions must hold of any card."""

from __future__ import annotations

from typing import Any, Final

from control_plane.descriptor import DatasetDescriptor
from tests.control_plane.control_plane_world import raw_descriptor

PORTS: Final = {
    "values": ["rotterdam", "hamburg", "oslo", "new_york"],
    "synonyms": {"new_york": ["new york", "nyc"], "rotterdam": ["rtm"]},
}
DEPARTMENTS: Final = {
    "values": ["sales", "engineering", "finance", "legal"], "synonyms": {"sales": ["commercial"]},
}  # fmt: skip
CURRENCIES: Final = {
    "values": ["eur", "usd", "gbp"],
    "synonyms": {"eur": ["euro", "euros"], "usd": ["dollar", "dollars", "us dollars"]},
}
STATIONS: Final = {"values": ["zurich", "bern", "davos", "lugano"]}
ARMS: Final = {"values": ["active", "placebo", "sham"]}
OPEN: Final = {"nullable": True}


def _listed(name: str, values: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {"name": name, "type": "STRING", "case": "lower", "max_length": 24, **values, **changes}


def _typed(name: str, kind: str, **changes: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **changes}


def _period(name: str, start: str, end: str) -> dict[str, Any]:
    return {"name": name, "from": start, "to": end}


def _asked(
    name: str,
    description: str,
    keywords: str,
    parameters: list[dict[str, Any]],
    results: str,
    *examples: str,
    period: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """A capability. ``keywords`` and ``results`` are listed with commas; a result may have a unit: ``weight kg``."""
    columns = [column.strip().partition(" ") for column in results.split(",")]
    return {
        "name": name,
        "description": description,
        "effect": "read",
        "tool_name": name,
        "keywords": [keyword.strip() for keyword in keywords.split(",")],
        "parameters": [{"description": "d", **parameter} for parameter in parameters],
        "results": [
            {"name": column, "type": "STRING"} | ({"unit": unit} if unit else {}) for column, _, unit in columns
        ],
        "examples": list(examples),
        "periods": [] if period is None else [period],
    }


def _dataset(name: str, description: str, schema: str, *capabilities: dict[str, Any]) -> DatasetDescriptor:
    return DatasetDescriptor.model_validate(
        raw_descriptor(dataset=name, description=description, schemas=[schema], capabilities=list(capabilities))
    )


FREIGHT: Final = _dataset(
    "freight-movements",
    "Consignments that move between ports, with carriers and weights.",
    "consignment",
    _asked(
        "list_shipments", "list consignments between two ports", "shipments, consignments",
        [
            _listed("origin", PORTS), _listed("destination", PORTS),
            _typed("min_weight", "NUMERIC", unit="kg", **OPEN), _typed("max_weight", "NUMERIC", unit="kg", **OPEN),
            _typed("departed_from", "DATE", **OPEN), _typed("departed_to", "DATE", **OPEN),
        ],
        "consignment_id, weight kg, carrier", "Shipments from Rotterdam to Oslo",
        period=_period("departure", "departed_from", "departed_to"),
    ),
    _asked(
        "arrivals", "list what arrives at a port", "arrivals",
        [_listed("destination_port", {"values": ["genoa", "bergen"]})], "consignment_id", "Arrivals of Genoa",
    ),
    _asked(
        "compare_carriers", "compare two carriers by punctuality", "compare carriers, carriers, punctuality",
        [_listed(name, {"values": ["maersk", "msc", "hapag"]}) for name in ("carrier_a", "carrier_b")],
        "carrier, on_time_pct %", "Compare carriers Maersk and MSC",
    ),
    _asked(
        "customs_audits", "list customs audits by country", "audits, customs audits",
        [_listed("countries", {"values": ["us", "de", "in", "it", "fr", "no"]}, repeated=True)],
        "audit_id, country", "Customs audits of DE",
    ),
    _asked(
        "routes", "list routes with a number of stops", "routes, stops",
        [_typed("min_stops", "INT64", **OPEN), _typed("max_stops", "INT64", **OPEN)], "route, stops",
        "Routes with at least 3 stops",
    ),
)  # fmt: skip

STAFF: Final = _dataset(
    "staff-records",
    "Employees with departments, salaries and grades.",
    "employee",
    _asked(
        "list_employees", "list employees of departments by salary", "employees, staff",
        [
            _listed("departments", DEPARTMENTS, repeated=True, default=[]),
            _typed("salary_above", "NUMERIC", unit="EUR", **OPEN), _typed("salary_below", "NUMERIC", unit="EUR", **OPEN),
            _typed("include_contractors", "BOOL", **OPEN),
        ],
        "employee_id, department, salary EUR", "Employees of sales above 50000 EUR",
    ),
    _asked(
        "headcount", "count heads per grouping", "headcount, head count",
        [
            _listed("per", {"values": ["department", "grade", "site", "month"], "synonyms": {"month": ["monthly"]}}, default="department"),
            _typed("from_day", "DATE", **OPEN), _typed("to_day", "DATE", **OPEN),
        ],
        "grouping, heads", "Headcount per grade in 2024", period=_period("period", "from_day", "to_day"),
    ),
    _asked(
        "salary_band", "show the salary range of a grade", "salary range, pay band",
        [_typed("grade", "INT64", minimum=1, maximum=12)], "grade, low EUR", "Salary range of grade 5",
    ),
    _asked(
        "manager_of", "find who manages an employee", "manager, manages, boss",
        [_typed("employee", "STRING", pattern="E[0-9]{5}", case="upper", max_length=6)], "employee_id, manager_id",
        "Who is the manager of E00017",
    ),
    _asked(
        "staff_moves", "list moves from one department to another", "internal moves",
        [_listed("from_department", DEPARTMENTS), _listed("to_department", DEPARTMENTS)], "employee_id",
    ),
)  # fmt: skip

LEDGER: Final = _dataset(
    "ledger-entries",
    "Postings of accounts in currencies, debit and credit.",
    "posting",
    _asked(
        "list_postings", "list postings of an account", "postings, bookings",
        [
            _typed("account", "STRING", pattern="[0-9]{4}-[0-9]{3}", max_length=8),
            _listed("side", {"values": ["debit", "credit"]}, **OPEN), _listed("currency", CURRENCIES, **OPEN),
            _typed("min_amount", "NUMERIC", **OPEN), _typed("max_amount", "NUMERIC", **OPEN),
            _typed("booked_from", "DATE", **OPEN), _typed("booked_to", "DATE", **OPEN),
        ],
        "posting_id, amount, currency", "Postings of account 4000-100 in 2024", "Debit postings of account 4000-100 above 1000",
        period=_period("booking", "booked_from", "booked_to"),
    ),
    _asked(
        "convert", "convert an amount from one currency to another", "convert, exchange",
        [_typed("amount", "NUMERIC"), _listed("from_currency", CURRENCIES), _listed("to_currency", CURRENCIES)], "amount",
        "Convert 100 EUR to USD",
    ),
    _asked(
        "balance", "report the balance of an account on a day", "balance",
        [_typed("account", "STRING", pattern="[0-9]{4}-[0-9]{3}", max_length=8), _typed("on", "DATE")], "balance",
        "Balance of account 4000-100 on 2024-03-31",
    ),
)  # fmt: skip

WEATHER: Final = _dataset(
    "weather-observations",
    "Readings of weather stations: temperature, rain and wind.",
    "observation",
    _asked(
        "temperatures", "list temperature readings of a station", "temperatures, temperature readings",
        [
            _listed("station", STATIONS),
            _typed("min_temp", "FLOAT64", unit="°C", **OPEN), _typed("max_temp", "FLOAT64", unit="°C", **OPEN),
            _typed("since_day", "DATE", **OPEN), _typed("until_day", "DATE", **OPEN),
        ],
        "station, temperature °C", "Temperatures at Davos below -5 °C", period=_period("time", "since_day", "until_day"),
    ),
    _asked(
        "rain_days", "count rain days of stations", "rain days, wet days",
        [
            _listed("stations", STATIONS, repeated=True),
            _listed("per", {"values": ["day", "month", "year"], "synonyms": {"day": ["daily"]}}, default="month"),
            _typed("from_day", "DATE", **OPEN), _typed("to_day", "DATE", **OPEN),
        ],
        "station, days", "Rain days at Bern in 2024 per month", period=_period("period", "from_day", "to_day"),
    ),
    _asked(
        "distance", "distance between two stations", "distance, how far",
        [_listed("station_1", STATIONS), _listed("station_2", STATIONS)], "distance km", "Distance between Bern and Davos",
    ),
)  # fmt: skip

TRIAL: Final = _dataset(
    "trial-visits",
    "Doses and visits of trial arms.",
    "visit",
    _asked(
        "dosed", "list subjects by dose", "doses, dosed",
        [
            _listed("arm", {"values": ["a", "b", "placebo"], "synonyms": {"placebo": ["control"]}}, **OPEN),
            _typed("min_dose", "NUMERIC", unit="mg", **OPEN), _typed("max_dose", "NUMERIC", unit="mg", **OPEN),
        ],
        "subject_no, dose mg", "Doses above 5 mg in arm A", "Doses of placebo",
    ),
    _asked(
        "visits", "list visits of a subject", "visits, visit schedule",
        [
            _typed("subject", "STRING", pattern="S-[0-9]{3}", case="upper", max_length=5),
            _typed("visit_no", "INT64", minimum=1, maximum=20, **OPEN),
        ],
        "visit_no, date", "Visits of S-001",
    ),
    _asked("inhaled", "list inhaled doses", "inhaled", [_typed("dose", "NUMERIC", unit="µg")], "subject_no", "Inhaled dose of 50 µg"),
    _asked(
        "compare_arms", "compare the response of two arms", "compare arms, response",
        [_listed("arm_a", ARMS), _listed("arm_b", ARMS)], "arm, response", "Compare the response of active and placebo",
    ),
    _asked(
        "events", "find adverse events by text", "events, adverse events, find",
        [_typed("text", "STRING", case="lower", max_length=100)], "event_id", "Find adverse events mentioning headache",
    ),
)  # fmt: skip

INVENTED: Final = (FREIGHT, STAFF, LEDGER, WEATHER, TRIAL)
