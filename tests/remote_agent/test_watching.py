"""Edits below a folder are noticed by stamps alone, and taken over once they have settled."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from remote_agent.watching import Stamps, stamps_of, watch

TICK = 0.01


class Watched:
    """A folder that is watched, and what was in force at each reload."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.taken: Stamps = stamps_of(folder)
        self.reloads = 0
        self.fails = False

    async def reload(self) -> None:
        self.taken = stamps_of(self.folder)
        self.reloads += 1
        if self.fails:
            raise RuntimeError("an edit nobody foresaw")

    async def through(self, *steps: Callable[[], Any]) -> None:
        """Watch while each step is done, with time to settle after it."""
        watching = asyncio.ensure_future(watch(self.folder, TICK, taken=lambda: self.taken, reload=self.reload))
        for step in steps:
            step()
            await self.settled()
        watching.cancel()

    async def settled(self) -> None:
        for _ in range(400):
            await asyncio.sleep(TICK)
            if stamps_of(self.folder) == self.taken:
                break
        await asyncio.sleep(4 * TICK)


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    (tmp_path / "flights" / "data").mkdir(parents=True)
    (tmp_path / "flights" / "descriptor.yaml").write_text("a: 1")
    return Watched(tmp_path)


async def test_an_edit_is_taken_over_once(watched: Watched) -> None:
    await watched.through(lambda: (watched.folder / "flights" / "descriptor.yaml").write_text("a: 2"))
    assert watched.reloads == 1


async def test_nothing_is_reloaded_where_nothing_changes(watched: Watched) -> None:
    await watched.through(lambda: None, lambda: None)
    assert watched.reloads == 0


async def test_a_file_that_comes_and_one_that_goes_are_edits(watched: Watched) -> None:
    new = watched.folder / "flights" / "data" / "x.csv"
    await watched.through(lambda: new.write_text("a\n"), new.unlink)
    assert watched.reloads == 2


async def test_an_edit_that_keeps_size_and_time_is_seen(watched: Watched) -> None:
    path = watched.folder / "flights" / "descriptor.yaml"

    def sly() -> None:
        held = path.stat()
        path.write_text("a: 9")
        os.utime(path, ns=(held.st_atime_ns, held.st_mtime_ns))

    await watched.through(sly)
    assert watched.reloads == 1


async def test_what_is_still_being_written_is_left_alone(watched: Watched) -> None:
    path = watched.folder / "flights" / "data" / "x.csv"
    watching = asyncio.ensure_future(
        watch(watched.folder, 10 * TICK, taken=lambda: watched.taken, reload=watched.reload)
    )
    with path.open("w") as file:
        for _ in range(60):
            file.write("1,2\n")
            file.flush()
            await asyncio.sleep(TICK / 2)
        assert watched.reloads == 0
    await watched.settled()
    watching.cancel()
    assert watched.reloads == 1


async def test_a_reload_that_fails_is_not_tried_again_until_the_next_edit(watched: Watched) -> None:
    watched.fails = True
    path = watched.folder / "flights" / "descriptor.yaml"
    await watched.through(lambda: path.write_text("b"), lambda: None, lambda: path.write_text("cc"))
    assert watched.reloads == 2


async def test_a_reload_that_somebody_asked_for_is_not_done_again(watched: Watched) -> None:
    def edited_and_taken() -> None:
        (watched.folder / "flights" / "descriptor.yaml").write_text("a: 2")
        watched.taken = stamps_of(watched.folder)

    await watched.through(edited_and_taken)
    assert watched.reloads == 0


@pytest.mark.parametrize("name", [".descriptor.yaml.swp", "descriptor.yaml~", "__pycache__/x.pyc"])
def test_what_editors_leave_beside_a_file_is_no_edit(watched: Watched, name: str) -> None:
    before = stamps_of(watched.folder)
    path = watched.folder / "flights" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("x")
    assert stamps_of(watched.folder) == before


def test_a_link_to_a_file_elsewhere_has_the_stamp_of_that_file(watched: Watched, tmp_path_factory: Any) -> None:
    elsewhere = tmp_path_factory.mktemp("mounted") / "descriptor.yaml"
    elsewhere.write_text("a: 1")
    (watched.folder / "flights" / "link.yaml").symlink_to(elsewhere)
    before = stamps_of(watched.folder)
    elsewhere.write_text("a: 22")
    assert stamps_of(watched.folder) != before


def test_a_link_in_a_circle_ends(watched: Watched) -> None:
    (watched.folder / "flights" / "again").symlink_to(watched.folder)
    assert len(stamps_of(watched.folder)) < 20


def test_a_folder_that_is_gone_has_no_files(tmp_path: Path) -> None:
    assert stamps_of(tmp_path / "none") == {}
