"""A kit's world as files: what a data owner would have written to say the same.

The kit tells what a dataset offers and who holds what; how an operation is answered (templates, tables,
typed parameters, policies) is this project's own business, so that half is taken from ``datasets/``.
"""

from __future__ import annotations

import copy
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import yaml

SHIPPED: Final = Path(__file__).resolve().parent.parent / "datasets"
ISSUER: Final = "https://issuer.dataset-agent.example"
TENANT: Final = "acme"
_AS_THEY_ARE: Final = (
    *("version", "revision", "schema_version", "description", "prohibited", "policies"),
    *("schemas", "quality", "retention", "provenance"),
)
_OF_A_CAPABILITY: Final = ("name", "description", "effect", "sensitivity")


@dataclass
class WorldFiles:
    """A datasets folder that says what the kit said last. Every change lands on disk with ``write``.

    The kit tells how old data are, a descriptor since when they are true: that is counted from ``began``
    (POSIX seconds), so that an equal world is the same files.
    """

    folder: Path
    began: float
    world: dict[str, Any] = field(default_factory=dict)

    def adopt(self, world: Mapping[str, Any]) -> None:
        self.world = copy.deepcopy(dict(world))

    def put(self, descriptor: Mapping[str, Any]) -> None:
        """Add a descriptor, or replace the one of its name, however malformed it is."""
        others = [item for item in self.datasets if item["dataset"] != descriptor["dataset"]]
        self.world["datasets"] = [*others, dict(descriptor)]

    def dataset(self, name: str) -> dict[str, Any]:
        return next(item for item in self.datasets if item["dataset"] == name)

    def holdings(self, principal: str) -> dict[str, list[str]]:
        """What a principal is entitled to; a change to it is written with the rest."""
        held: dict[str, list[str]] = self.world["principals"][principal]["grants"]
        return held

    @property
    def datasets(self) -> list[dict[str, Any]]:
        return list(self.world["datasets"])

    def write(self) -> bool:
        """Whether anything on disk is another than before."""
        self.folder.mkdir(parents=True, exist_ok=True)
        names = {item["dataset"] for item in self.datasets}
        gone = [child for child in self.folder.iterdir() if child.is_dir() and child.name not in names | {"policies"}]
        for child in gone:
            shutil.rmtree(child)
        changed = [_write_dataset(self.folder / item["dataset"], item, self.began) for item in self.datasets]
        changed.append(_write_policies(self.folder / "policies", self.world["policy_version"]))
        changed.append(_write_yaml(self.folder / "principals.yaml", _directory(self.world["principals"])))
        return bool(gone) or any(changed)


def descriptor_of(item: Mapping[str, Any], shipped: Mapping[str, Any], began: float) -> dict[str, Any]:
    """The descriptor of a kit's dataset; one without operations is written just as malformed as it came."""
    if not item.get("capabilities"):
        return dict(item)
    own = {"dataset": item["dataset"], "tenant": TENANT, "as_of": _instant(began - item.get("age_s", 0))}
    told = {name: item[name] for name in _AS_THEY_ARE if name in item}
    kept = {name: shipped[name] for name in ("sensitivity", "tables") if name in shipped}
    if "mcp" in item.get("endpoints", {}):
        kept["endpoints"] = shipped["endpoints"]  # the kit's address is of a program that nobody has
    freshness = {"freshness": {**shipped.get("freshness", {}), **item.get("freshness", {})}}
    known = {capability["name"]: capability for capability in shipped.get("capabilities", ())}
    return {
        **own, **told, **kept, **freshness,
        "capabilities": [_capability(each, known.get(each["name"])) for each in item["capabilities"]],
    }  # fmt: skip


def _capability(told: Mapping[str, Any], shipped: Mapping[str, Any] | None) -> dict[str, Any]:
    """A capability as the kit tells it, answered as it is shipped.

    One that nothing here answers is advertised all the same, as a tool of a server that has none of that name.
    """
    if shipped is None:
        typed = [{"name": name, "type": "STRING"} for name in told.get("arguments", ())]
        answered: dict[str, Any] = {"mcp_tool_name": told["name"], "results": [{"name": "answer", "type": "STRING"}]}
        if typed:
            answered["parameters"] = typed
    else:
        answered = {name: value for name, value in shipped.items() if name != "policy_id"}
        if sorted(told.get("arguments", ())) != sorted(item["name"] for item in shipped["parameters"]):
            raise ValueError(f"{told['name']} takes other arguments than the shipped one")
    governed = {"policy_id": told["policy"]} if told.get("policy") else {}
    return answered | {name: told[name] for name in _OF_A_CAPABILITY} | governed


def _write_dataset(folder: Path, item: Mapping[str, Any], began: float) -> bool:
    shipped_folder = SHIPPED / item["dataset"]
    shipped: dict[str, Any] = {}
    folder.mkdir(exist_ok=True)
    if (shipped_folder / "descriptor.yaml").is_file():
        shipped = yaml.load((shipped_folder / "descriptor.yaml").read_text(encoding="utf-8"), _LOADER)
        for part in ("data", "templates"):
            if not (folder / part).exists():
                shutil.copytree(shipped_folder / part, folder / part)
    return _write_yaml(folder / "descriptor.yaml", descriptor_of(item, shipped, began))


def _write_policies(folder: Path, version: str) -> bool:
    if not folder.exists():
        shutil.copytree(SHIPPED / "policies", folder)
    return _replace(folder / "version", f"{version}\n")


def _directory(principals: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    return {"issuer": ISSUER, "principals": [_principal(name, told) for name, told in principals.items()]}


def _principal(name: str, told: Mapping[str, Any]) -> dict[str, Any]:
    held: Mapping[str, Sequence[str]] = told["grants"]
    return {
        "name": name,
        "subject": told["principal_id"],
        "tenant": TENANT,
        "principal_class": told["principal_class"],
        "clearance": told["clearance"],
        "entitlements": {dataset: sorted(set(names)) for dataset, names in held.items()},
    }


def _instant(seconds: float) -> str:
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _write_yaml(path: Path, value: Mapping[str, Any]) -> bool:
    return _replace(path, json.dumps(value, indent=1))  # JSON is YAML, and no reader guesses at a type


def _replace(path: Path, text: str) -> bool:
    """Whole or not at all: who serves it may be reading. Whether it is another text than before."""
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return False
    partial = path.with_suffix(".part")
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, path)
    return True


_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
