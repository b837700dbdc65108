"""A reload, whatever one dataset's folder holds by then: the others are served, and nobody stands in for one."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from contract.errors import DatasetAgentError
from contract.settings import Settings
from control_plane.source_facts import file_facts
from delegation.card_reader import read_extended
from grants.keys import init_keys
from remote_agent import world as building
from remote_agent.service import World
from remote_agent.world import close_world, load_world
from tests.large_world import DATASET, write_world
from tests.running_agent import Asker, running_agent

pytestmark = pytest.mark.live


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


def test_a_publisher_who_takes_away_what_a_policy_names_keeps_no_other_edit_from_being_taken_over(
    settings: Settings,
) -> None:
    _edit(_copy(settings, "other"), dataset="other")

    async def scenario() -> None:
        async with loaded(settings) as before:
            for name in (DATASET, "other"):
                _rename_site(settings.datasets / name)
            (settings.datasets / "policies" / "version").write_text("2")
            async with loaded(settings, before) as after:
                assert after.policy_version == "2"
                assert sorted(after.outdated) == sorted(after.datasets) == ["other", DATASET]
                assert "reading.site is no column" in after.outdated["other"]

    asyncio.run(scenario())


def test_a_policy_that_names_what_no_dataset_ever_had_is_not_taken_over(settings: Settings) -> None:
    async def scenario() -> None:
        async with loaded(settings) as before:
            for policy in (settings.datasets / "policies").glob("*.cedar"):
                policy.write_text(policy.read_text().replace("reading.site", "reading.siet"))
            with pytest.raises(DatasetAgentError, match="reading.siet is no column"):
                async with loaded(settings, before):
                    pass

    asyncio.run(scenario())


def test_rows_are_never_served_under_the_revision_of_other_bytes(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is replaced when its digest was taken, and before its rows are read."""
    folder = settings.datasets / DATASET
    raw = json.loads((folder / "descriptor.json").read_text())
    del raw["revision"], raw["as_of"]
    (folder / "descriptor.json").write_text(json.dumps(raw))
    inner, file = building.open_engine, folder / "data" / "reading.parquet"

    def late(*told: object) -> object:
        rows = pq.read_table(file)
        pq.write_table(rows.slice(0, rows.num_rows - 1), file)
        return inner(*told)  # type: ignore[arg-type]

    async def scenario() -> None:
        monkeypatch.setattr(building, "open_engine", late)
        async with loaded(settings) as world:
            assert "changed while it was read" in world.invalid[DATASET]
        monkeypatch.undo()
        async with loaded(settings) as world:
            assert world.datasets[DATASET].descriptor.revision == file_facts(folder, ["data/reading.parquet"]).revision

    asyncio.run(scenario())


def _rename_site(folder: Path) -> None:
    """The column of the policy is there no more, for its table and its template."""
    for file in (folder / "descriptor.json", folder / "list.sql"):
        file.write_text(file.read_text().replace('"site"', '"place"').replace("r.site AS site", "r.place AS place"))
    table = pq.read_table(folder / "data" / "reading.parquet")
    names = ["place" if name == "site" else name for name in table.column_names]
    pq.write_table(table.rename_columns(names), folder / "data" / "reading.parquet")


def test_a_broken_folder_whose_name_is_none_leaves_the_extended_card_readable(settings: Settings) -> None:
    _edit(_copy(settings, "Not A Name"), bogus=1)
    init_keys(settings)
    with running_agent(settings) as agent:
        asker = Asker(agent.settings, agent.url)
        assert list(agent.lifecycle.status()["invalid"]) == ["Not A Name"]
        reply = asker.rpc("GetExtendedAgentCard", {}, asker.headers())
        card = read_extended(reply.content, asker.trust.agents[settings.agent_id])
        assert [described.dataset for described in card.descriptors] == [DATASET]


def test_a_file_that_became_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "rows.csv")
    with pytest.raises(DatasetAgentError, match="no regular file"):
        file_facts(tmp_path, ["rows.csv"])
