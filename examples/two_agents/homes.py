"""Three homes that share nothing but public keys: a root agent's and two dataset agents'.

The data is the shipped one. The purification agent's dataset gets one capability more, all
get the policies of this folder beside the shipped ones, and each has its own copy.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from contract.settings import SHIPPED_DATASETS, Settings
from dataset_agent.configuration import default_settings
from grants.keys import init_keys
from grants.trust import Trust, load_trust
from grants.trust_editor import edit_trust

ROOT: Final = "urn:dataset-agent:root"
PURIFICATION: Final = "urn:dataset-agent:purification"
CHROMATOGRAPHY: Final = "urn:dataset-agent:chromatography"
BATCHES: Final = "purification-batches"
RUNS: Final = "chromatography-results"

_HERE: Final = Path(__file__).resolve().parent


@dataclass(frozen=True, slots=True)
class Homes:
    """The settings of the three processes."""

    root: Settings
    purification: Settings
    chromatography: Settings


def build_homes(folder: Path, *, purification_url: str, chromatography_url: str, **given: Any) -> Homes:
    """Make the three homes below ``folder``, each with keys and a trust file of its own.

    The chromatography agent does not know the root agent: it believes the issuer, and lets the
    purification agent ask. ``given`` are settings for all three.
    """
    homes = Homes(
        root=_settings(folder / "root", **given),
        purification=_settings(folder / "purification", agent_id=PURIFICATION, url=purification_url, **given),
        chromatography=_settings(folder / "chromatography", agent_id=CHROMATOGRAPHY, url=chromatography_url, **given),
    )
    _lay_out(homes.root.datasets)
    _add_capability(_lay_out(homes.purification.datasets, BATCHES) / BATCHES)
    _lay_out(homes.chromatography.datasets, RUNS)
    init_keys(homes.root, roles=("issuer", "root"))
    init_keys(homes.purification, roles=("remote",))
    init_keys(homes.chromatography, roles=("remote",))
    _introduce(homes)
    return homes


def _settings(home: Path, **given: Any) -> Settings:
    return default_settings(home, datasets=home / "datasets", root_id=ROOT, **given)


def _lay_out(folder: Path, *datasets: str) -> Path:
    """A datasets folder with these shipped datasets, the principals and the policies of this example."""
    for dataset in datasets:
        shutil.copytree(SHIPPED_DATASETS / dataset, folder / dataset)
    shutil.copytree(SHIPPED_DATASETS / "policies", folder / "policies")
    shutil.copy(_HERE / "policies" / "sites.cedar", folder / "policies")
    with (folder / "policies" / "schema.cedarschema").open("a", encoding="utf-8") as schema:
        schema.write((_HERE / "policies" / "two_agents.cedarschema").read_text(encoding="utf-8"))
    shutil.copy(_HERE / "principals.yaml", folder)
    return folder


def _add_capability(dataset: Path) -> None:
    path = dataset / "descriptor.yaml"
    descriptor = yaml.safe_load(path.read_text(encoding="utf-8"))
    capability = yaml.safe_load((_HERE / "purification" / "capability.yaml").read_text(encoding="utf-8"))
    descriptor["capabilities"].append(capability)
    descriptor["policies"].append(capability["policy_id"])
    path.write_text(yaml.safe_dump(descriptor, sort_keys=False, allow_unicode=True), encoding="utf-8")
    shutil.copytree(_HERE / "purification" / "templates", dataset / "templates", dirs_exist_ok=True)


def _introduce(homes: Homes) -> None:
    """Public keys only, as three operators would exchange them, and what each believes of the others.

    The lists are what each operator knows of whose data is where; no card changes them.
    """
    root, purification, chromatography = (
        load_trust(settings.trust_path) for settings in (homes.root, homes.purification, homes.chromatography)
    )
    _pin(homes.root, purification, PURIFICATION, serves=[BATCHES])
    _pin(homes.root, chromatography, CHROMATOGRAPHY, serves=[RUNS])
    _pin(homes.purification, root, ROOT, serves=[])
    _pin(homes.purification, chromatography, CHROMATOGRAPHY, serves=[RUNS], asks=False)
    _pin(homes.chromatography, root)
    _pin(homes.chromatography, purification, PURIFICATION, serves=[])


def _pin(settings: Settings, other: Trust, name: str = "", *, serves: Iterable[str] = (), asks: bool = True) -> None:
    """The issuers of the other's trust file, and its agent ``name``."""
    with edit_trust(settings.trust_path) as trust:
        for issuer in other.issuers.values():
            trust.enter_issuer(
                issuer.url,
                key=issuer.keys[0],
                identity_key=issuer.identity_keys[0],
                tenants=issuer.tenants,
                subject_prefix=issuer.subject_prefix,
                withdraw=False,
            )
        agent = other.agents.get(name)
        if agent is not None:
            trust.enter_agent(agent.id, agent.url, agent.key, withdraw=False, datasets=serves, asks=asks)
