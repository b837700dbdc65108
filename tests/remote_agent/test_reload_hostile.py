"""A reload, whatever one dataset's folder holds by then: the others are served, and nobody stands in for one."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from contract.errors import DatasetAgentError
from contract.settings import Settings
from control_plane.source_facts import file_facts
from remote_agent import world as building
from remote_agent.service import World
from remote_agent.world import close_world, load_world
from tests.large_world import DATASET, write_world


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home", datasets=write_world(tmp_path / "datasets", rows=3))


@asynccontextmanager
async def loaded(settings: Settings, before: World | None = None) -> AsyncIterator[World]:
    world = await load_world(settings, generation=1, mask_key=bytes(16), before=before)
    try:
        yield world
    finally:
        await close_world(world, beside=[before] if before else [])


def _copy(settings: Settings, name: str) -> Path:
    return Path(shutil.copytree(settings.datasets / DATASET, settings.datasets / name))


def _edit(folder: Path, **members: object) -> None:
    file = folder / "descriptor.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | members))


def test_a_dataset_that_was_withdrawn_is_not_kept_by_a_broken_folder_that_names_it(settings: Settings) -> None:
    async def scenario() -> None:
        async with loaded(settings) as before:
            _edit(_copy(settings, "evil"), bogus=1)
            _edit(settings.datasets / DATASET, dataset="other")
            (settings.datasets / DATASET).rename(settings.datasets / "other")
            async with loaded(settings, before) as after:
                assert (list(after.datasets), dict(after.outdated)) == (["other"], {})
                assert after.invalid[DATASET].startswith("evil/")

    asyncio.run(scenario())


def test_a_served_dataset_whose_folder_breaks_is_not_taken_over_by_another_folder(settings: Settings) -> None:
    async def scenario() -> None:
        (settings.datasets / DATASET).rename(settings.datasets / "at-first")
        async with loaded(settings) as before:
            shutil.copytree(settings.datasets / "at-first", settings.datasets / "second")
            _edit(settings.datasets / "at-first", bogus=1)
            async with loaded(settings, before) as after:
                assert after.datasets[DATASET] is before.datasets[DATASET]
                assert list(after.outdated) == [DATASET]

    asyncio.run(scenario())


def test_a_folder_that_was_renamed_is_served_under_its_new_name(settings: Settings) -> None:
    async def scenario() -> None:
        async with loaded(settings) as before:
            (settings.datasets / DATASET).rename(settings.datasets / "renamed")
            async with loaded(settings, before) as after:
                assert after.datasets[DATASET].folder == "renamed"
                assert (dict(after.outdated), dict(after.invalid)) == ({}, {})

    asyncio.run(scenario())


def test_a_fault_that_nobody_foresaw_while_a_dataset_is_opened_stops_no_other_and_is_not_quoted(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    _edit(_copy(settings, "evil"), dataset="evil")
    inner = building.open_engine

    def failing(manifest: object, folder: Path, *rest: object) -> object:
        if folder.name == "evil":
            raise KeyError("a text from inside")
        return inner(manifest, folder, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(building, "open_engine", failing)

    async def scenario() -> None:
        async with loaded(settings) as world:
            assert list(world.datasets) == [DATASET]
            assert dict(world.invalid) == {"evil": "evil: it cannot be opened (KeyError)"}

    asyncio.run(scenario())


def test_a_file_that_became_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "rows.csv")
    with pytest.raises(DatasetAgentError, match="no regular file"):
        file_facts(tmp_path, ["rows.csv"])
