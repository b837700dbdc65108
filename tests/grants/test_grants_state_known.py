"""What a connection remembers of the state file is what it would read, whoever wrote in between and however."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contract.verdict import Reason
from grants import state_file, state_rows
from grants.state import RevocationKind
from grants.state_header import read_header
from grants.state_known import MOST_KNOWN, Reading
from grants.state_rows import REVOKE, held_of
from grants.state_sqlite import SqliteState
from tests.grants.grants_world import NOW, accept, make_chain
from tests.grants.state_worlds import POLICY, issued, refused, refused_again


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "state.sqlite3"


@contextmanager
def statements_of(store: SqliteState) -> Iterator[list[str]]:
    """What the loop's connection is asked while this lasts."""
    told: list[str] = []
    reading = store._here._reading
    assert reading is not None
    reading.connection.set_trace_callback(told.append)
    yield told
    reading.connection.set_trace_callback(None)


SPEND = "INSERT OR IGNORE INTO spent VALUES ('{0}', {0})"
COUNT = "UPDATE memory SET seq = seq + 1, clock = {0}.5"
TAKE_BACK = "REPLACE INTO revoked VALUES ('txn', 't{1}', {0})"
ALLOW = "DELETE FROM revoked WHERE value = 't{1}'"
EMPTY = "DELETE FROM memory"
ACTIONS = st.tuples(
    st.sampled_from(("here", "here, undone", "beside", "beside, undone", "elsewhere", "log", "touch", "wrote")),
    st.sampled_from((SPEND, COUNT, TAKE_BACK, ALLOW, EMPTY)),
    st.integers(1, 40),
)
NAMES = [(RevocationKind.TXN, f"t{number}") for number in range(41)]


class _Files:
    """One reader, a connection beside it and others that come and go."""

    def __init__(self, path: Path) -> None:
        self._path = path
        asyncio.run(self._begun())
        self.own, self.beside = (sqlite3.connect(path, isolation_level=None) for _ in range(2))
        self.reading = Reading(self.own)

    async def _begun(self) -> None:
        await SqliteState.open(self._path, now=NOW).close()

    def do(self, who: str, statement: str, number: int, count: int) -> None:
        text = statement.format(count, number)
        if who == "wrote":
            self._write(count)
        elif who.startswith(("here", "beside")):
            connection = self.own if who.startswith("here") else self.beside
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(text)
            connection.execute("ROLLBACK" if who.endswith("undone") else "COMMIT")
        elif who == "elsewhere":
            with closing(sqlite3.connect(self._path, isolation_level=None)) as other:
                other.execute(text)
        elif who == "log":
            self.beside.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        else:
            os.utime(self._path, ns=(count, count))

    def _write(self, count: int) -> None:
        """As a spend does: look, write under the lock, and say what was written."""
        self.own.execute("BEGIN IMMEDIATE")
        header = self.reading.look(self.modified).header
        self.own.execute(COUNT.format(count))
        written = read_header(self.own)
        self.own.execute("COMMIT")
        if header is not None and written is not None:
            self.reading.wrote(written)

    @property
    def modified(self) -> int:
        return self._path.stat().st_mtime_ns

    def close(self) -> None:
        self.own.close()
        self.beside.close()


@settings(max_examples=60, deadline=None)
@given(st.lists(ACTIONS, max_size=25))
def test_what_is_remembered_is_what_a_new_connection_reads(actions: list[tuple[str, str, int]]) -> None:
    with TemporaryDirectory() as folder:
        files = _Files(Path(folder) / "state.sqlite3")
        for count, (who, statement, number) in enumerate(actions, 1):
            files.do(who, statement, number, count)
            known, instants = files.reading.look(files.modified), files.reading.instants(NAMES)
            with closing(sqlite3.connect(Path(folder) / "state.sqlite3")) as fresh:
                assert known.header == read_header(fresh)
                held = held_of(fresh, NAMES)
            assert list(instants) == [held.get(name) for name in NAMES]
            assert files.reading.revokes == bool(held)
        files.close()


def test_a_file_that_another_hand_wrote_in_place_is_read_again(tmp_path: Path) -> None:
    files = _Files(tmp_path / "state.sqlite3")
    files.do("log", COUNT, 1, 0)
    before = (tmp_path / "state.sqlite3").read_bytes()
    files.do("beside", COUNT, 1, 7)
    files.do("log", COUNT, 1, 0)
    known = files.reading.look(files.modified)
    subprocess.run(["cp", "/dev/stdin", str(tmp_path / "state.sqlite3")], input=before, check=True)
    files.do("touch", COUNT, 1, 5)
    files.own.execute("PRAGMA shrink_memory")  # SQLite holds no page of it any more
    assert known.header is not None
    assert files.reading.look(files.modified).header != known.header
    files.close()


async def test_a_process_that_writes_alone_reads_nothing_that_it_knows(path: Path) -> None:
    store = SqliteState.open(path, now=NOW)
    await store.spend(accept(make_chain()), policy=POLICY, now=NOW)
    with statements_of(store) as told:
        grant = accept(make_chain())
        await store.spend(grant, policy=POLICY, now=NOW)
        await store.recheck(grant, policy=POLICY, now=NOW)
    words = [statement.split()[0] for statement in told]
    assert words == ["BEGIN", "PRAGMA", "INSERT", "UPDATE", "COMMIT", "PRAGMA"]
    await store.close()


REVOKER = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=5)
for line in sys.stdin:
    db.execute("INSERT INTO revoked VALUES ('txn', ?, 1e12)", (line.strip(),))
    print("done", flush=True)
"""


async def test_a_revocation_by_another_process_is_seen_by_the_very_next_question(path: Path) -> None:
    store = SqliteState.open(path, now=NOW)
    child = subprocess.Popen(
        [sys.executable, "-c", REVOKER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdin is not None and child.stdout is not None
    for ask in (refused, refused_again):
        for _ in range(20):
            grant = accept(make_chain())
            if ask is refused_again:
                await store.spend(grant, policy=POLICY, now=NOW)
            child.stdin.write(f"{grant.txn}\n")
            child.stdin.flush()
            assert child.stdout.readline() == "done\n"
            assert await ask(store, grant) is Reason.GRANT_REVOKED
    child.stdin.close()
    child.wait()
    child.stdout.close()
    await store.close()


@pytest.mark.parametrize("others", [0, MOST_KNOWN - 1, MOST_KNOWN, 3 * MOST_KNOWN])
async def test_a_revocation_holds_among_however_many(path: Path, others: int) -> None:
    store = SqliteState.open(path, now=NOW)
    for number in range(others):
        await store.revoke(RevocationKind.TXN, f"another-{number}", not_before=NOW)
    grant = accept(make_chain())
    await store.spend(grant, policy=POLICY, now=NOW)
    await store.revoke(RevocationKind.TXN, grant.txn, not_before=NOW)
    assert await refused_again(store, grant) is Reason.GRANT_REVOKED
    await store.spend(accept(make_chain()), policy=POLICY, now=NOW)
    await store.close()


@pytest.mark.parametrize("others", [0, 2 * MOST_KNOWN])
async def test_an_instant_that_is_no_number_stops_whom_it_names(path: Path, others: int) -> None:
    store = SqliteState.open(path, now=NOW)
    grant, another = accept(make_chain()), accept(make_chain())
    with closing(sqlite3.connect(path, isolation_level=None)) as tool:
        tool.execute("INSERT INTO revoked VALUES ('grant', ?, 'soon')", (grant.root_jti,))
        tool.executemany(REVOKE, [("grant", f"another-{number}", 1.0) for number in range(others)])
    assert await refused(store, grant) is Reason.STATE_UNAVAILABLE
    await store.spend(another, policy=POLICY, now=NOW)
    await store.close()


# forgetting


async def test_leaves_are_looked_through_now_and_then_and_none_stays(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_file, "SWEEP_EVERY", 4)
    monkeypatch.setattr(state_rows, "LOOKED_AT", 8)
    store = SqliteState.open(path, now=NOW)
    for _ in range(50):
        await store.spend(accept(make_chain()), policy=POLICY, now=NOW)
    later, sweeps = NOW + 400, 0
    for number in range(1, 61):
        with statements_of(store) as told:
            await store.spend(issued(later), policy=POLICY, now=later)
        swept = any(text.startswith("DELETE") for text in told)
        assert swept == ((50 + number) % 4 == 0)
        sweeps += swept
    with closing(sqlite3.connect(path)) as tool:
        assert tool.execute("SELECT count(*) FROM spent WHERE until < ?", (later,)).fetchone() == (0,)
        assert tool.execute("SELECT count(*) FROM spent").fetchone() == (60,)
    assert sweeps == 15
    await store.close()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.text("0123456789abcdef", min_size=1, max_size=4), st.booleans())),
    st.integers(1, 9),
    st.text("0123456789abcdef", max_size=3),
)
def test_a_hand_that_goes_round_twice_forgets_what_is_over_and_nothing_else(
    leaves: list[tuple[str, bool]], looked_at: int, start: str
) -> None:
    held = {leaf: 1.0 if over else 9.0 for leaf, over in leaves}
    with closing(sqlite3.connect(":memory:")) as db, pytest.MonkeyPatch.context() as patched:
        patched.setattr(state_rows, "LOOKED_AT", looked_at)
        db.executescript(state_rows.TABLES)
        db.executemany("INSERT INTO spent VALUES (?, ?)", held.items())
        hand, rounds = start, 0
        while rounds < 2:
            before = {leaf for (leaf,) in db.execute("SELECT leaf FROM spent")}
            hand = state_rows.forget_leaves(db, hand, 5.0)
            assert len(before) - db.execute("SELECT count(*) FROM spent").fetchone()[0] <= looked_at
            rounds += not hand
        assert dict(db.execute("SELECT leaf, until FROM spent")) == {
            leaf: until for leaf, until in held.items() if until > 5
        }


def test_a_file_of_an_earlier_release_loses_the_index_that_is_written_with_every_spend(path: Path) -> None:
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as db:
        db.executescript(
            state_rows.TABLES.replace("DROP INDEX IF EXISTS spent_until", "CREATE INDEX spent_until ON spent (until)")
        )
    with closing(sqlite3.connect(path)) as db:
        db.executescript(state_rows.TABLES)
        assert db.execute("SELECT name FROM sqlite_master WHERE name = 'spent_until'").fetchall() == []
