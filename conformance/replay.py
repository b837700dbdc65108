"""``python -m conformance.replay record|check``: a few askings of the served product beside what they were when recorded.

Each baseline, ``baselines/<verdict>/<name>.json``, holds what was asked, what a model was sent, which steps and callbacks
the run went through, what the dataset agent declares of the tool, and the answer. Ids, times, addresses, signatures and
tokens are left out: they are never the same. ``check`` asks again and names every place that is another one.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from conformance.facade import Facade
from conformance.processes import command, processes, scratch
from conformance.replay_watch import Watched
from contract.settings import SHIPPED_DATASETS
from control_plane.tools import input_schema, tools_of

BASELINES: Final = Path(__file__).resolve().parent / "baselines"
_COMPARE: Final = {"dataset": "purification-batches", "capability": "compare_batches"}
_BATCHES: Final = {"batch_a": "B001", "batch_b": "B002"}
_DECISION: Final = ("verdict", "reason", "policy_id", "policy_version", "rationale")
_ANSWER: Final = (
    *("verdict", "dataset", "dataset_version", "revision", "capability", "arguments", "result", "visited_nodes"),
    *("attempts",),
)
MAX_TOLD: Final = 20


@dataclass(frozen=True, slots=True)
class Scenario:
    """One asking. ``proposal`` is what a model says, where one is asked."""

    name: str
    principal: str
    wanted: Mapping[str, Any]
    proposal: Mapping[str, Any] | None = None


SCENARIOS: Final = (
    Scenario("granted/typed-call", "process_engineer", {"call": {**_COMPARE, "arguments": _BATCHES}}),
    Scenario("granted/mcp-tool", "process_engineer", {"call": {**_COMPARE, "arguments": _BATCHES}, "via": "mcp"}),
    Scenario(
        "granted/model-proposal",
        "process_engineer",
        {"question": "Please put the two batches beside one another"},
        {**_COMPARE, "arguments": _BATCHES},
    ),
    Scenario("refused/not-entitled", "external_auditor", {"call": {**_COMPARE, "arguments": _BATCHES}}),
    Scenario(
        "indeterminate/unknown-dataset",
        "process_engineer",
        {"call": {"dataset": "stability-studies", "capability": "search", "arguments": {"query": "x"}}},
    ),
)


@contextmanager
def served(home: Path, datasets: Path | None = None) -> Iterator[Facade]:
    """A root agent before a dataset agent over ``datasets``, or over what ships."""
    folder = home / "datasets"
    shutil.copytree(datasets or SHIPPED_DATASETS, folder)
    with processes(home / "home", folder, policy_budget=5.0) as running:
        facade = Facade(running.settings)
        try:
            yield facade
        finally:
            facade.close()


def observe(facade: Facade, scenario: Scenario) -> dict[str, Any]:
    """What is to be seen of one asking, as plain JSON."""
    command("cache", "purge", "--all", "--yes", "--json")
    with Watched(facade.root, scenario.proposal) as watched:
        told = facade.request(scenario.principal, **scenario.wanted)
    shown = told.shown
    seen = {
        "asked": {"principal": scenario.principal, **scenario.wanted},
        "model": watched.model_requests,
        "steps": watched.steps,
        "callbacks": watched.callbacks,
        "declared": _declared(facade, shown),
        "answer": {
            **{name: shown.get(name) for name in _ANSWER},
            "decision": _decision(shown.get("decision")),
            "remote": _decision((shown.get("remote") or {}).get("decision")),
            "cache": (shown.get("cache") or {}).get("outcome"),
            "verified": (shown.get("provenance") or {}).get("verified"),
        },
        "calls": {door: _calls(shown.get(door) or []) for door in ("tool_calls", "mcp_calls", "a2a_calls")},
        "minted": told.minted,
    }
    plain: dict[str, Any] = json.loads(json.dumps(seen))
    return plain


def drift(recorded: Any, now: Any, place: str = "") -> list[str]:
    """Every place at which two observations differ, with both values."""
    if isinstance(recorded, dict) and isinstance(now, dict):
        names = [*recorded, *(name for name in now if name not in recorded)]
        return [
            line for name in names for line in drift(recorded.get(name), now.get(name), f"{place}.{name}".lstrip("."))
        ]
    if isinstance(recorded, list) and isinstance(now, list) and len(recorded) == len(now):
        return [
            line
            for at, (one, other) in enumerate(zip(recorded, now, strict=True))
            for line in drift(one, other, f"{place}[{at}]")
        ]
    return [] if recorded == now else [f"{place}: recorded {_short(recorded)}, now {_short(now)}"]


def baseline(name: str) -> dict[str, Any]:
    """Raises ``FileNotFoundError`` for a scenario that was never recorded."""
    found: dict[str, Any] = json.loads((BASELINES / f"{name}.json").read_text(encoding="utf-8"))
    return found


def record(facade: Facade, scenario: Scenario) -> None:
    place = BASELINES / f"{scenario.name}.json"
    place.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(observe(facade, scenario), indent=1, ensure_ascii=False, sort_keys=True)
    place.write_text(text + "\n", encoding="utf-8")


def check(facade: Facade, scenario: Scenario) -> list[str]:
    return drift(baseline(scenario.name), observe(facade, scenario))


def main(arguments: Sequence[str] | None = None) -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("what", choices=("record", "check"))
    options.add_argument(
        "--only", nargs="+", default=[], metavar="NAME", help="these scenarios, for example granted/mcp-tool"
    )
    chosen = options.parse_args(arguments)
    wanted = [scenario for scenario in SCENARIOS if not chosen.only or scenario.name in chosen.only]
    drifted = 0
    with scratch() as home, served(home) as facade:
        for scenario in wanted:
            if chosen.what == "record":
                record(facade, scenario)
                print(f"recorded  {scenario.name}")
                continue
            found = check(facade, scenario)
            drifted += bool(found)
            print(f"{'DRIFT' if found else 'same':<9} {scenario.name}")
            for line in found[:MAX_TOLD]:
                print(f"          {line}")
    return 1 if drifted or not wanted else 0


def _declared(facade: Facade, shown: Mapping[str, Any]) -> dict[str, Any] | None:
    """What the verified card says of the capability and of its tool; ``None`` where no card offers it."""
    for descriptor in facade.offered():
        capability = descriptor.capability(str(shown.get("capability")))
        if descriptor.dataset == shown.get("dataset") and capability is not None:
            tool = tools_of(descriptor).get(capability.mcp_tool_name or "")
            return {
                "capability": capability.model_dump(mode="json", exclude_defaults=True),
                "input": input_schema(capability.parameters),
                "mcp_tool": tool.declaration() if tool else None,
            }
    return None


def _decision(decision: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if decision is None else {name: decision.get(name) for name in _DECISION}


def _calls(calls: Sequence[Any]) -> list[Any]:
    """What was called, without the ids of the call."""
    kept = ("agent", "dataset", "capability", "tool", "arguments", "method", "outcome")
    return [{name: call[name] for name in kept if name in call} if isinstance(call, dict) else call for call in calls]


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 160 else f"{text[:157]}..."


if __name__ == "__main__":
    sys.exit(main())
