"""The dataset that docs/publish.md builds is one that loads, and is governed as the page says."""

from __future__ import annotations

import os
import re
import runpy
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from contract.scope import Constraint, Sensitivity
from contract.settings import Settings
from control_plane.descriptor import Effect
from control_plane.policy import Outcome, PolicyRequest, load_policies
from control_plane.principals import load_directory
from control_plane.registry import load_registry
from queries.template import load_template
from remote_agent.world import check_datasets

ROOT = Path(__file__).resolve().parents[2]
FILE = re.compile(r"^(?:[^\n]*\bFile|Append to) `([\w./-]+)`:\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)


PAGE = (ROOT / "docs" / "publish.md").read_text(encoding="utf-8")
SUPPLIED = re.compile(r"^## 9\..*?^```yaml\n(.*?)^```$.*?^```sql\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """The folder as somebody has it who typed the page."""
    world = tmp_path / "world"
    (world / "tank-levels" / "data").mkdir(parents=True)
    (world / "tank-levels" / "templates").mkdir()
    shutil.copytree(ROOT / "datasets" / "policies", world / "policies")
    shutil.copy(ROOT / "datasets" / "principals.yaml", world)
    page = (ROOT / "docs" / "publish.md").read_text(encoding="utf-8")
    for name, body in FILE.findall(page):
        with (tmp_path / name).open("a", encoding="utf-8") as file:
            file.write(body)
    schema = world / "policies" / "schema.cedarschema"
    found = re.search(r"^\$ sed -i 's/(.+?)/(.+?)/' world/policies/schema.cedarschema$", page, re.MULTILINE)
    assert found is not None
    schema.write_text(re.sub(found[1], found[2], schema.read_text(encoding="utf-8"), flags=re.MULTILINE))
    here = Path.cwd()
    os.chdir(tmp_path)
    try:
        runpy.run_path("make_tanks.py")
    finally:
        os.chdir(here)
    return world


def test_the_dataset_is_registered(world: Path) -> None:
    registry = load_registry(world)
    assert (sorted(registry.datasets), dict(registry.invalid)) == (["tank-levels"], {})


def test_the_data_is_where_the_descriptor_says(world: Path) -> None:
    table = load_registry(world).datasets["tank-levels"].tables[0]
    assert (world / "tank-levels" / table.file).stat().st_size > 0


def test_the_template_loads_and_its_result_may_be_stored(world: Path) -> None:
    manifest = load_registry(world).datasets["tank-levels"]
    capability = manifest.capabilities[0]
    template = load_template(
        (world / "tank-levels" / str(capability.template)).read_text(encoding="utf-8"),
        name=str(capability.template),
        dataset=manifest.dataset,
        tables=manifest.tables,
        parameters=capability.parameters,
        results=capability.results,
        ceiling=capability.sensitivity,
    )
    assert template.deterministic
    assert template.columns_read == {"tank_level.tank", "tank_level.level_pct"}


async def test_a_capability_that_another_agent_completes_loads_beside_it(world: Path) -> None:
    page = SUPPLIED.search((ROOT / "docs" / "publish.md").read_text(encoding="utf-8"))
    assert page is not None
    folder = world / "tank-levels"
    with (folder / "descriptor.yaml").open("a", encoding="utf-8") as file:
        file.write(page[1])
    (folder / "templates" / "level_and_deliveries.sql").write_text(page[2], encoding="utf-8")
    registry = load_registry(world)
    assert dict(registry.invalid) == {}
    assert registry.datasets["tank-levels"].capabilities[1].supply is not None
    for line in re.findall(r"^\$ (sed -i .*)$", PAGE[PAGE.index("\n## 9.") :], re.MULTILINE):
        subprocess.run(shlex.split(line), cwd=world.parent, check=True)
    answer = load_policies(world / "policies").evaluate(question(world, "level_and_deliveries"))
    assert (answer.outcome, answer.policy_id) == (Outcome.PERMIT, "ACME-TANK-001")
    settings = Settings(datasets=world, home=world / "home")
    assert await check_datasets(settings, scratch=world / "scratch") == {"tank-levels": None}


def question(world: Path, capability: str) -> PolicyRequest:
    operator = load_directory(world / "principals.yaml").named("operator")
    assert operator is not None
    return PolicyRequest(
        principal=operator,
        dataset="tank-levels",
        capability=capability,
        effect=Effect.COMPUTE,
        sensitivity=Sensitivity.INTERNAL,
        tenant="acme",
        policy_id="ACME-TANK-001",
    )


def test_the_policy_grants_the_operator_the_rows_of_his_site_only(world: Path) -> None:
    answer = load_policies(world / "policies").evaluate(question(world, "mean_level"))
    assert (answer.outcome, answer.policy_id) == (Outcome.PERMIT, "ACME-TANK-001")
    assert dict(answer.obligations.rows) == {"tank_level.site": Constraint(one_of=frozenset({"Lyon"}))}


def test_every_obligation_of_the_page_names_a_column_of_its_dataset(world: Path) -> None:
    assert load_policies(world / "policies").problems(load_registry(world).datasets) == ()
