"""A file of a folder is opened as what it was looked at: nothing that is put in its place meanwhile leads out."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from contract.files import OutsideFolder, open_inside, path_of


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a file below it, beside a secret."""
    made = tmp_path / "own"
    (made / "data").mkdir(parents=True)
    (made / "data" / "x.csv").write_text("own")
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "x.csv").write_text("secret")
    return made


def test_a_file_below_the_folder_is_read_also_by_a_link_that_stays_inside(folder: Path) -> None:
    (folder / "link.csv").symlink_to("data/x.csv")
    (folder / "again").symlink_to("data")
    for name in ("data/x.csv", "link.csv", "again/x.csv", "data/../link.csv"):
        with open_inside(folder, name) as file:
            assert file.readall() == b"own"


@pytest.mark.parametrize("name", ["../secret/x.csv", "/etc/passwd", "out.csv", "away/x.csv"])
def test_what_leads_out_is_not_opened(folder: Path, name: str) -> None:
    (folder / "out.csv").symlink_to("../secret/x.csv")
    (folder / "away").symlink_to("../secret")
    with pytest.raises(OutsideFolder):
        open_inside(folder, name)


def _file(folder: Path) -> None:
    (folder / "data" / "x.csv").unlink()
    (folder / "data" / "x.csv").symlink_to("../../secret/x.csv")


def _folder(folder: Path) -> None:
    (folder / "data").rename(folder / "before")
    (folder / "data").symlink_to("../secret")


@pytest.mark.parametrize("exchange", [_file, _folder])
def test_a_link_that_is_put_there_after_the_look_is_not_followed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, exchange: Callable[[Path], None]
) -> None:
    opened = os.open
    calls: list[object] = []

    def late(*arguments: object, **more: object) -> int:
        if not calls:
            exchange(folder)  # between the look and the first open
        calls.append(arguments)
        return opened(*arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", late)
    with pytest.raises(OSError, match="symbolic links|Not a directory"):
        open_inside(folder, "data/x.csv")


@pytest.mark.parametrize("name", [".", "data", "pipe", "nothing", "data/x.csv/y"])
def test_what_is_no_file_is_none(folder: Path, name: str) -> None:
    os.mkfifo(folder / "pipe")
    with pytest.raises(OSError, match="regular file|No such|Not a directory"):
        open_inside(folder, name)


def test_no_descriptor_is_left_open(folder: Path) -> None:
    before = len(os.listdir("/dev/fd"))
    for name in ("data/x.csv", "data", "nothing", "data/x.csv/y"):
        try:
            open_inside(folder, name).close()
        except OSError:
            continue
    assert len(os.listdir("/dev/fd")) == before


def test_the_path_of_what_is_open_outlives_its_name(folder: Path) -> None:
    with open_inside(folder, "data/x.csv") as file:
        (folder / "data" / "x.csv").unlink()
        (folder / "data" / "x.csv").symlink_to("../../secret/x.csv")
        assert path_of(file).read_bytes() == path_of(file).read_bytes() == b"own"
