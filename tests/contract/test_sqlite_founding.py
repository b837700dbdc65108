"""A SQLite file that several begin at once is waited for, where SQLite itself does not wait."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

import pytest

from contract.sqlite_founding import create_private, in_turn


def test_a_file_that_another_holds_is_changed_when_it_is_let_go(tmp_path: Path) -> None:
    path = tmp_path / "f.sqlite3"
    holder = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    holder.execute("CREATE TABLE t (x)")
    holder.execute("BEGIN EXCLUSIVE")
    asked = sqlite3.connect(path, isolation_level=None, timeout=0)
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        asked.execute("PRAGMA journal_mode = WAL").fetchone()
    tries: list[int] = []

    def change() -> None:
        tries.append(1)
        if len(tries) == 3:
            holder.execute("COMMIT")
        asked.execute("PRAGMA journal_mode = WAL").fetchone()

    in_turn(change, wait=60)
    assert len(tries) == 3
    assert asked.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    holder.close()
    asked.close()


def test_who_waits_in_vain_and_what_is_no_lock_are_told(tmp_path: Path) -> None:
    path = tmp_path / "f.sqlite3"
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    asked = sqlite3.connect(path, isolation_level=None, timeout=0)
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        in_turn(lambda: asked.execute("CREATE TABLE t (x)"), wait=0.02)
    holder.close()
    with pytest.raises(sqlite3.OperationalError, match="syntax"):
        in_turn(lambda: asked.execute("NO SQL"), wait=60)
    asked.close()


def test_threads_that_begin_a_file_at_once_all_write_ahead(tmp_path: Path) -> None:
    modes: list[object] = []

    def begin() -> None:
        db = sqlite3.connect(tmp_path / "f.sqlite3", isolation_level=None, timeout=0)
        in_turn(lambda: db.execute("PRAGMA journal_mode = WAL"), wait=60)
        modes.append(db.execute("PRAGMA journal_mode").fetchone())
        db.close()

    threads = [threading.Thread(target=begin) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert modes == [("wal",)] * 8


def test_a_file_that_is_made_is_its_owners_alone_and_one_that_is_there_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "store.sqlite"
    create_private(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    path.write_bytes(b"held")
    path.chmod(0o640)
    create_private(path)
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"held", 0o640)
