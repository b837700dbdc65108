"""A reload makes a capability anew exactly where something of what it is made from changed."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from contract.settings import SHIPPED_DATASETS, Settings
from remote_agent.service import ServedCapability, World
from remote_agent.world import close_world, load_world

pytestmark = pytest.mark.live

DATASET = "chromatography-results"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "datasets"
    shutil.copytree(SHIPPED_DATASETS, made)
    for other in ("purification-batches", "clinical-private"):
        shutil.rmtree(made / other)
    for path in (made / "policies").glob("*.cedar"):
        path.unlink()
    (made / "policies" / "all.cedar").write_text('@id("P-1") permit (principal, action, resource);', encoding="utf-8")
    return made


class Load:
    """Loads the folder as a reload does: with what was served before."""

    def __init__(self, settings: Settings) -> None:
        self.settings, self.worlds = settings, list[World]()

    async def __call__(self) -> dict[str, ServedCapability]:
        before = self.worlds[-1] if self.worlds else None
        generation = len(self.worlds)
        self.worlds.append(await load_world(self.settings, generation=generation, mask_key=bytes(32), before=before))
        return dict(self.worlds[-1].datasets[DATASET].capabilities)


@pytest.fixture
async def load(folder: Path, tmp_path: Path) -> AsyncIterator[Load]:
    made = Load(Settings(home=tmp_path / "home", datasets=folder))
    yield made
    for world in made.worlds:
        await close_world(world)


def edit(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    path = folder / DATASET / "descriptor.yaml"
    raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    change(raw)
    path.write_text(yaml.safe_dump(raw, sort_keys=False), encoding="utf-8")


def remade(before: dict[str, ServedCapability], after: dict[str, ServedCapability]) -> set[str]:
    return {name for name, capability in after.items() if before.get(name) is not capability}


async def test_what_nobody_edited_is_not_read_again(load: Load, folder: Path) -> None:
    first = await load()
    assert remade(first, await load()) == set()
    edit(folder, lambda raw: raw.update(revision="another"))
    assert remade(first, await load()) == set()


async def test_an_edited_template_is_read_again_and_no_other(load: Load, folder: Path) -> None:
    first = await load()
    name, capability = sorted(first.items())[0]
    path = folder / DATASET / str(capability.descriptor.template)
    path.write_text(path.read_text(encoding="utf-8") + "\n-- edited\n", encoding="utf-8")
    assert remade(first, await load()) == {name}


async def test_an_edited_table_is_taken_over_by_every_template(load: Load, folder: Path) -> None:
    first = await load()
    edit(folder, lambda raw: raw["tables"][0].update(description="described in other words"))
    assert remade(first, await load()) == set(first)


async def test_an_edited_declaration_is_taken_over_by_its_capability(load: Load, folder: Path) -> None:
    first = await load()
    edit(folder, lambda raw: raw["capabilities"][0].update(max_rows=7))
    after = await load()
    edited = next(iter(first))
    assert remade(first, after) == {edited}
    assert after[edited].descriptor.max_rows == 7


async def test_a_template_that_was_edited_into_a_fault_is_not_taken_from_memory(load: Load, folder: Path) -> None:
    first = await load()
    path = folder / DATASET / str(next(iter(first.values())).descriptor.template)
    sound = path.read_text(encoding="utf-8")
    path.write_text("SELECT FROM WHERE", encoding="utf-8")
    assert remade(first, await load()) == set()  # served as it was before the edit
    assert path.name in str(load.worlds[-1].outdated[DATASET])
    path.write_text(sound, encoding="utf-8")
    assert remade(first, await load()) == set()
    assert load.worlds[-1].outdated == {}


async def test_what_is_declared_has_an_implementation_and_nothing_else_can_be_run(load: Load, folder: Path) -> None:
    (folder / DATASET / "templates" / "execute_any_sql.sql").write_text("SELECT 1 AS one", encoding="utf-8")
    served = await load()
    declared = load.worlds[-1].datasets[DATASET].descriptor.capabilities
    assert set(served) == {capability.name for capability in declared}
    assert all(capability.descriptor.template for capability in served.values())
    edit(folder, lambda raw: raw["capabilities"][0].pop("template"))
    await load()
    assert "needs a template" in str(load.worlds[-1].outdated[DATASET])
