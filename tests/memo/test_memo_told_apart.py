"""Two questions that differ in which value is whose, or in one sign of what is sought, are two questions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from control_plane.descriptor import DatasetDescriptor
from control_plane.memo import alike
from control_plane.memo_words import normalised
from tests.memo.memo_world import HERE, Kept

LOT = {"type": "STRING", "pattern": "L[0-9]{3}", "case": "upper", "max_length": 4}
OWN = {
    "link_lots": [{"name": "parent", **LOT}, {"name": "child", **LOT}],
    "mixes": [{"name": "mass", "type": "FLOAT64"}, {"name": "volume", "type": "FLOAT64"}],
    "notes": [{"name": "text", "type": "STRING", "case": "lower", "max_length": 100}],
    "manager_of": [{"name": "employee", "type": "STRING", "pattern": "E[0-9]{3}", "case": "upper", "max_length": 4}],
    "heads": [
        {"name": "per", "type": "STRING", "values": ["day", "site"], "synonyms": {"day": ["daily"]}, "nullable": True}
    ],
    "weights": [{"name": "min_mass", "type": "FLOAT64", "nullable": True}],
    "counts": [{"name": "from", "type": "DATE", "nullable": True}, {"name": "to", "type": "DATE", "nullable": True}],
    "audits": [{"name": "countries", "type": "STRING", "repeated": True, "values": ["us", "it", "in", "de", "eu"]}],
}


def _capability(name: str, parameters: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "name": name, "description": f"list {name}", "effect": "read", "sensitivity": "internal", "tool_name": name,
        "keywords": [name.split("_")[0]], "parameters": [{"description": "d", **item} for item in parameters],
        "results": [{"name": "reactor", "type": "STRING"}],
    }  # fmt: skip


def _offered() -> tuple[DatasetDescriptor, ...]:
    own = json.loads((HERE / "bioreactor-samples.json").read_text(encoding="utf-8"))
    own["capabilities"] += [_capability(name, parameters) for name, parameters in OWN.items()]
    return (DatasetDescriptor.model_validate(own),)


OFFERED = _offered()
LINKED = {"parent": "L100", "child": "L200"}
MOVED = {"source": "basel", "target": "cork"}


def _proven(capability: str, arguments: Mapping[str, Any], earlier: str, question: str) -> bool:
    held = Kept(normalised(earlier), "bioreactor-samples", capability, arguments)
    return alike(normalised(question), [held], OFFERED) is not None


@pytest.mark.parametrize(
    ("capability", "arguments", "earlier", "question"),
    [
        ("link_lots", LINKED, "link parent L100 child L200", "link child L100 parent L200"),
        ("link_lots", LINKED, "link parent L100 child L200", "link parent L100 L200"),
        ("transfers", MOVED, "transfers of Basel into Cork", "transfers into Basel of Cork"),
        ("transfers", MOVED, "transfers at Basel for Cork", "transfers for Basel at Cork"),
        ("transfers", MOVED, "transfers of Basel into Cork", "transfers of Basel for Cork"),
        ("mixes", {"mass": 5.0, "volume": 3.0}, "mixes of 5 in 3", "mixes in 5 of 3"),
        ("manager_of", {"employee": "E001"}, "who is the manager of E001", "who does E001 manager"),
        ("manager_of", {"employee": "E001"}, "manager of E001", "manager of the manager of E001"),
        ("manager_of", {"employee": "E001"}, "manager of E001", "E001 is the manager of"),
        ("manager_of", {"employee": "E001"}, "manager of E001", "is E001 the manager"),
        ("heads", {"per": "day"}, "heads by day", "heads that day"),
        ("heads", {"per": "day"}, "heads by day", "heads on the day"),
        ("weights", {"min_mass": 2024.0}, "weights above 2024", "weights over 2024"),
        ("counts", {"from": "2026-08-01", "to": "2026-09-01"}, "counts last month", "counts in the last month"),
        ("audits", {"countries": ["us", "eu"]}, "show US and EU audits", "show us EU audits"),
        ("audits", {"countries": ["it", "de"]}, "show audits of IT and DE", "show audits of it, DE"),
        ("audits", {"countries": ["de", "in"]}, "audits of DE and IN", "audits in DE"),
    ],
)
def test_words_that_tell_one_value_from_another_are_not_left_out(
    capability: str, arguments: dict[str, Any], earlier: str, question: str
) -> None:
    assert _proven(capability, arguments, earlier, earlier)
    assert not _proven(capability, arguments, earlier, question)


@pytest.mark.parametrize(
    ("capability", "arguments", "earlier", "question"),
    [
        ("link_lots", LINKED, "link of parent L100 child L200", "please show the link of parent L100 child L200"),
        ("transfers", MOVED, "transfers of Basel into Cork", "Show me the shipments of Basel into Cork"),
        ("audits", {"countries": ["de"]}, "audits of DE", "audits in DE"),
        ("heads", {"per": "day"}, "heads by day", "please show the heads by day"),
        ("manager_of", {"employee": "E001"}, "manager of E001", "show the manager of E001"),
        ("trace_lots", {"lots": ["L100"]}, "genealogy of lot L100", "show the genealogy for L100"),
    ],
)
def test_words_that_tell_nothing_may_be_others(
    capability: str, arguments: dict[str, Any], earlier: str, question: str
) -> None:
    assert _proven(capability, arguments, earlier, question)


@pytest.mark.parametrize(
    ("sought", "other"),
    [
        ("strasse", "straße"),
        ("fi", "ﬁ"),
        ("a b", "a  b"),
        ("why", "why?"),
        ("why", "(why"),
        ("5 µm", "5 μm"),
        ("ph -5", "pH −5"),
        ("released", "'released"),
    ],
)
def test_what_is_quoted_is_sought_with_every_sign_of_it(sought: str, other: str) -> None:
    earlier = f'notes with "{sought}"'
    assert _proven("notes", {"text": sought}, earlier, f"Find notes with '{sought}'")
    assert not _proven("notes", {"text": sought}, earlier, f'find notes with "{other}"')
    assert not _proven("notes", {"text": sought}, earlier, f'notes with "{other}"')
