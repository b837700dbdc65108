"""A ledger in PostgreSQL keeps the contract of every store, and fails closed where its server does not hold evidence."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import count
from pathlib import Path

import psycopg
import pytest

from contract.errors import DatasetAgentError
from contract.verdict import NotGranted, Reason
from evidence.export import entry_line, first_line
from evidence.ledger import Ledger
from evidence.postgres_place import check_url, place_of, schema_of
from evidence.postgres_store import PostgresStore
from evidence.postgres_subjects import PostgresSubjects
from evidence.store import StoreFault
from evidence.verify import verify_ledger
from tests.evidence.evidence_builders import ISSUER, NOW, SUBJECT, SeedSigner, make_row
from tests.evidence.store_contract import SIGNER, Place, StoreContract, write
from tests.postgres.postgres_server import PostgresServer

pytestmark = pytest.mark.live
_numbers = count()


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    made = PostgresServer()
    made.start()
    yield made
    made.close()


@pytest.fixture
def schema() -> str:
    return schema_of(f"urn:agent:{next(_numbers)}")


@pytest.fixture
def make_place(server: PostgresServer, schema: str) -> Place:
    return Place(lambda: PostgresStore(server.url, schema), lambda: PostgresSubjects(server.url, schema))


class TestPostgres(StoreContract):
    @pytest.fixture
    def make_place(self, server: PostgresServer, schema: str) -> Place:
        return Place(lambda: PostgresStore(server.url, schema), lambda: PostgresSubjects(server.url, schema))


def opened(url: str, schema: str) -> Ledger:
    return Ledger.on(PostgresStore(url, schema), lambda: PostgresSubjects(url, schema), SIGNER, now=NOW)


def _append(url: str, schema: str, first: int, number: int) -> int:
    ledger = opened(url, schema)
    for row in range(first, first + number):
        ledger.append(make_row(row))
    ledger.close()
    return number


def test_processes_that_write_at_once_make_one_tree_that_verifies_offline(
    server: PostgresServer, schema: str, tmp_path: Path
) -> None:
    with ProcessPoolExecutor(4, mp_context=multiprocessing.get_context("spawn")) as pool:
        done = [pool.submit(_append, server.url, schema, 100 * number, 25) for number in range(4)]
        assert sum(one.result() for one in done) == 100
    place = tmp_path / "export.jsonl"
    with PostgresStore(server.url, schema).reading() as reading:
        lines = [first_line(reading.head().checkpoint, reading.base()), *map(entry_line, reading.entries())]
    place.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    report = verify_ledger(place, SIGNER.public_key)
    assert (report.ok, report.size) == (True, 100)


def test_what_was_committed_is_there_after_the_server_lost_its_power(server: PostgresServer, schema: str) -> None:
    ledger = opened(server.url, schema)
    receipts = ledger.append_many([make_row(number) for number in range(3)])
    server.stop(killed=True)
    with pytest.raises(NotGranted) as stopped:
        ledger.append(make_row(3))
    assert stopped.value.reason is Reason.EVIDENCE_UNAVAILABLE
    server.start()
    ledger.append(make_row(3))
    again = opened(server.url, schema)
    assert [entry.leaf_hash for entry in again.rows()][:3] == [receipt.leaf_hash for receipt in receipts]
    assert again.size == 4
    ledger.close()
    again.close()


def test_a_ledger_that_was_put_back_is_not_written_on(server: PostgresServer, schema: str) -> None:
    ledger = opened(server.url, schema)
    ledger.append_many([make_row(number) for number in range(3)])
    with psycopg.connect(server.url, autocommit=True) as other:
        other.execute(f"CREATE TABLE {schema}.old AS SELECT * FROM {schema}.head")
        ledger.append(make_row(3))
        other.execute(f"DELETE FROM {schema}.entries WHERE idx = 3")
        other.execute(f"DELETE FROM {schema}.head")
        other.execute(f"INSERT INTO {schema}.head SELECT * FROM {schema}.old")
    with pytest.raises(NotGranted):
        ledger.append(make_row(4))
    ledger.close()


def test_another_ledger_in_its_place_is_not_written_on(server: PostgresServer, schema: str) -> None:
    ledger = opened(server.url, schema)
    ledger.append(make_row(0))
    with psycopg.connect(server.url, autocommit=True) as other:
        other.execute(f"DROP SCHEMA {schema} CASCADE")
    with pytest.raises(NotGranted):
        ledger.append(make_row(1))
    second = opened(server.url, schema)
    with pytest.raises(NotGranted):
        ledger.append(make_row(1))
    assert second.size == 0
    ledger.close()
    second.close()


def test_who_holds_the_lock_and_hangs_keeps_nobody_out_for_good(server: PostgresServer, schema: str) -> None:
    ledger = opened(server.url, schema)
    hanging = psycopg.connect(server.url)
    hanging.execute("SET idle_in_transaction_session_timeout = '300ms'")
    hanging.execute(f"SELECT 1 FROM {schema}.head FOR UPDATE")
    ledger.append(make_row(0))  # waits, as another process's write would make it wait
    hanging.close()
    assert ledger.size == 1
    ledger.close()


def test_a_server_that_does_not_sync_holds_no_evidence(schema: str) -> None:
    loose = PostgresServer()
    try:
        loose.start("fsync=off")
        with pytest.raises(DatasetAgentError, match="set fsync and full_page_writes to on"):
            opened(loose.url, schema)
    finally:
        loose.close()


def test_an_account_that_may_only_add_is_enough_once_the_place_is_laid(server: PostgresServer, schema: str) -> None:
    opened(server.url, schema).close()
    with psycopg.connect(server.url, autocommit=True) as owner:
        for statement in (
            f"CREATE ROLE only_{schema} LOGIN",
            f"GRANT USAGE ON SCHEMA {schema} TO only_{schema}",
            f"GRANT SELECT, INSERT ON {schema}.entries, {schema}.subject_key TO only_{schema}",
            f"GRANT SELECT, UPDATE ON {schema}.head TO only_{schema}",
            f"GRANT SELECT ON {schema}.base TO only_{schema}",
        ):
            owner.execute(statement)
    url = server.url.replace("auditor@", f"only_{schema}@")
    ledger = opened(url, schema)
    ledger.append(make_row(0))
    assert ledger.size == 1
    ledger.close()
    with psycopg.connect(url) as added, pytest.raises(psycopg.errors.InsufficientPrivilege):
        added.execute(f"DELETE FROM {schema}.entries")


def test_a_forgotten_key_is_in_no_page_of_the_table(server: PostgresServer, schema: str) -> None:
    keys = PostgresSubjects(server.url, schema)
    key = keys.key((ISSUER, SUBJECT))
    assert keys.forget((ISSUER, SUBJECT))
    keys.close()
    with psycopg.connect(server.url, autocommit=True) as other:
        other.execute("CHECKPOINT")
        row = other.execute("SELECT pg_relation_filepath(%s)", (f"{schema}.subject_key",)).fetchone()
    assert row is not None
    assert key not in (server.data / row[0]).read_bytes()


@pytest.mark.parametrize(
    "url",
    [
        "mysql://here/db",
        "postgresql:///db",
        "postgresql://db.internal/evidence",
        "postgresql://db.internal/evidence?sslmode=require",
        "postgresql://127.0.0.1,db.internal/evidence",
        "postgresql://localhost/x?hostaddr=10.0.0.7",
        "postgresql://localhost/x?service=elsewhere",
        "postgresql://[/x",
    ],
)
def test_a_server_elsewhere_must_prove_itself_and_every_url_says_where(url: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        check_url(url)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://127.0.0.1/evidence",
        "postgres://localhost:5433/evidence",
        "postgresql://u@/evidence?host=/run/postgresql",
        "postgresql://u:p@db.internal/evidence?sslmode=verify-full&sslrootcert=/etc/ca.pem",
    ],
)
def test_a_place_is_told_without_its_secret(url: str) -> None:
    check_url(url)
    assert ":p@" not in place_of(url)
    assert place_of(url).endswith("/evidence")


def test_a_server_that_is_not_there_is_told_without_the_password() -> None:
    store = PostgresStore("postgresql://u:geheim@127.0.0.1:1/evidence", "ledger_x")
    with pytest.raises(StoreFault) as fault:
        store.head()
    assert "geheim" not in f"{fault.value} {store.name}"


def test_the_contract_is_written_with_another_signer_too(make_place: Place) -> None:
    store = make_place.store()
    assert write(store, 2).checkpoint.size == 2
    with pytest.raises(DatasetAgentError):
        make_place.ledger(SeedSigner(3))
    make_place.close()
