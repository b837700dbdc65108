"""How what is in a cache is shown to people."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from dataset_agent.console import paragraph, say, table

_DIMENSIONS: Final = {
    "dataset": "dataset",
    "version": "dataset_version",
    "capability": "capability",
    "class": "principal_class",
    "policy": "policy_version",
    "schema": "schema_version",
    "freshness": "freshness",
}
_LEAD: Final = ("key", "state", "age", "expires", "bytes", "hits")
_SHORTEST: Final = 8
_BRIEF: Final = 12
_DIGEST: Final = re.compile("[0-9a-f]{64}")
_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "m"))
_MARKS: Final = {True: "differs", False: "same", None: "unknown"}
_UNSAID: Final[Mapping[str | None, str]] = {None: "", "current": ""}
_KEY_PREFIX: Final = "dsc:1:{"
Entry = Mapping[str, Any]


def entry_table(entries: Sequence[Entry], *, matched: int | None = None) -> None:
    """Entries by the shortest end of their keys that tells them apart."""
    length = _telling([entry["key"] for entry in entries])
    rows = [
        [
            short(entry["key"], length),
            entry["state"],
            duration(entry["age_s"]),
            duration(entry["expires_in_s"]),
            entry["size"],
            "unknown" if entry["hits"] is None and entry["problem"] is None else entry["hits"],
            *(entry["dimensions"].get(name, "") for name in _DIMENSIONS.values()),
        ]
        for entry in entries
    ]
    of = f" of {matched}" if matched is not None and matched > len(rows) else ""
    title = f"{len(rows)}{of} {'entry' if len(rows) == 1 and not of else 'entries'}"
    names = [*_LEAD, *_DIMENSIONS]
    # Columns that say something only where something is out of the ordinary.
    for name, said in (
        ("secret", [_UNSAID.get(entry["secret"], entry["secret"]) for entry in entries]),
        ("problem", [entry["problem"] or "" for entry in entries]),
    ):
        if any(said):
            names, rows = [*names, name], [[*row, text] for row, text in zip(rows, said, strict=True)]
    table(title, names, rows, lead=_LEAD, right={"bytes", "hits"})


def restricted_table(counts: Sequence[Entry]) -> None:
    """How many entries there are of restricted capabilities; nothing else of them is shown."""
    columns = ("dataset", "capability", "entries")
    table(
        "Restricted: only counted", columns, [[count[name] for name in columns] for count in counts], right={"entries"}
    )


def one_entry(entry: Entry) -> None:
    """An entry, one line per member."""
    members = dict(entry)
    dimensions = members.pop("dimensions")
    members["age"] = duration(members.pop("age_s"))
    members["fresh_for"] = duration(members.pop("fresh_for_s"))
    members["expires_in"] = duration(members.pop("expires_in_s"))
    if members["hits"] is None and members["problem"] is None:
        members["hits"] = "unknown: this store does not count them"
    rows = [(name, value) for name, value in (members | dimensions).items() if value not in (None, "")]
    table("Cache entry", ("field", "value"), rows)


def differences(found: Entry) -> None:
    """In which dimensions two entries differ, each below the end of its key."""
    rows = [[one["dimension"], _brief(one["left"]), _brief(one["right"])] for one in found["differences"]]
    if not rows:
        say("They do not differ.")
        return
    keys = (found["left"], found["right"])
    length = _telling(keys)
    title = f"{len(rows)} {'difference' if len(rows) == 1 else 'differences'}"
    table(title, ("dimension", *(short(key, length) for key in keys)), rows, lead=("dimension",))


def explanation(told: Entry) -> None:
    """Whether a request would be answered from the cache, why, and its key part by part."""
    paragraph(f"{told['because']}.", first=told["outcome"], indent=10)
    if told["restricted"] and told.get("entries") is not None:
        say(f"{told['entries']} entries of this capability; of restricted ones nothing else is shown")
    if "key" not in told:
        return
    say(f"key  {told['key']}")
    if told.get("derived_from"):
        say(f"from {told['derived_from']}")
    say(f"made under secret {told['kid']}")
    near = told["nearest"]
    columns = ("part", "kind", "value", "nearest entry", "")
    rows = [
        [one["name"], one["kind"], one["value"], one["nearest"], _MARKS[one["differs"]] if near else ""]
        for one in told["components"]
    ]
    table("", columns, rows)
    if near:
        nearest = [[short(one["key"], _SHORTEST), duration(one["age_s"]), ", ".join(one["differs"])] for one in near]
        table("Nearest entries of this capability", ("key", "age", "differs in"), nearest)


def verified(report: Entry) -> None:
    """How many entries there are of each state, and the names of those that are damaged or foreign."""
    rows = [(f"open with secret {kid}", number) for kid, number in report["opened"].items()]
    rows += [(f"of a secret that is not here: {kid}", number) for kid, number in report["other_secret"].items()]
    rows += [(state, report[state]) for state in ("damaged", "foreign")]
    table(f"{report['checked']} checked", ("entries", "number"), rows, right={"number"})
    for state in ("damaged", "foreign"):
        for key in report[f"{state}_keys"]:
            say(f"{state}  {key}")


def figure(value: Any) -> str:
    """A figure of ``cache stats`` as text; a dash for one that there is not, or not yet."""
    if isinstance(value, float):
        return f"{value:.3f}"
    return "-" if value is None else str(value)


def duration(seconds: float | None) -> str:
    """Seconds in the unit that fits; nothing where they are not known."""
    if seconds is None:
        return ""
    for size, unit in _UNITS:
        if seconds >= 2 * size:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds:.0f}s"


def short(key: str, length: int) -> str:
    """The end of a key that this cache makes; what stands for another is no key and stays whole."""
    return key[-length:] if key.startswith(_KEY_PREFIX) else key


def _brief(value: Any) -> Any:
    """A whole digest by its beginning, which tells two apart; ``--json`` has all of it."""
    return f"{value[:_BRIEF]}…" if isinstance(value, str) and _DIGEST.fullmatch(value) else value


def _telling(keys: Sequence[str]) -> int:
    """How long an end of the keys must be to tell every two of them apart."""
    longest = max(len(key) for key in keys)
    return next((n for n in range(_SHORTEST, longest) if len({key[-n:] for key in keys}) == len(set(keys))), longest)
