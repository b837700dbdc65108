"""A ledger whose key another process has: the event loop goes on while a checkpoint is signed."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from contract.errors import SignerUnavailable
from contract.key_ring import KeyRing
from contract.signing import PublicKey
from contract.verdict import NotGranted, Reason
from evidence.checkpoint import Receipt
from evidence.verify import verify_ledger
from tests.evidence.evidence_builders import SeedSigner, make_row, open_ledger

LOCAL = SeedSigner(1)


class Elsewhere:
    """Signs when it is let, or says that it cannot; from any thread but the event loop's."""

    def __init__(self) -> None:
        self.public_key: PublicKey = LOCAL.public_key
        self.may = threading.Event()
        self.may.set()
        self.asked = threading.Event()
        self.gone = False
        self.threads: set[int] = set()

    def sign(self, message: bytes) -> bytes:
        self.asked.set()
        self.may.wait(30)
        self.threads.add(threading.get_ident())
        if self.gone:
            raise SignerUnavailable("it is gone")
        return LOCAL.sign(message)


async def test_the_loop_goes_on_while_rows_wait_for_a_signature(tmp_path: Path) -> None:
    signer = Elsewhere()
    ledger = open_ledger(tmp_path, KeyRing(signer, waits=True))
    signer.threads.clear()
    signer.asked.clear()
    signer.may.clear()
    rows = [asyncio.ensure_future(ledger.append_async(make_row(number))) for number in range(8)]
    while not signer.asked.is_set():
        await asyncio.sleep(0)
    rows += [asyncio.ensure_future(ledger.append_async(make_row(number))) for number in range(8, 32)]
    for _ in range(10):
        await asyncio.sleep(0)  # this loop runs, though nothing is signed yet
    ledger.health()
    assert not any(row.done() for row in rows)
    signer.may.set()
    receipts = await asyncio.gather(*rows)
    assert [receipt.index for receipt in receipts] == list(range(32))
    assert threading.get_ident() not in signer.threads
    ledger.close()
    assert verify_ledger(ledger.path, LOCAL.public_key).size == 32


async def test_a_signer_that_is_gone_leaves_no_row_and_comes_back(tmp_path: Path) -> None:
    signer = Elsewhere()
    ledger = open_ledger(tmp_path, KeyRing(signer, waits=True))
    signer.gone = True
    outcomes = await asyncio.gather(
        *(ledger.append_async(make_row(number)) for number in range(5)), return_exceptions=True
    )
    assert {outcome.reason for outcome in outcomes if isinstance(outcome, NotGranted)} == {Reason.EVIDENCE_UNAVAILABLE}
    assert len(outcomes) == 5
    signer.gone = False
    assert (await ledger.append_async(make_row(9))).index == 0
    ledger.close()
    assert verify_ledger(ledger.path, LOCAL.public_key).size == 1


async def test_a_caller_that_leaves_takes_no_row_with_it(tmp_path: Path) -> None:
    signer = Elsewhere()
    ledger = open_ledger(tmp_path, KeyRing(signer, waits=True))
    signer.asked.clear()
    signer.may.clear()

    async def recorded(number: int) -> Receipt:
        return await ledger.append_async(make_row(number))

    rows = [asyncio.ensure_future(recorded(number)) for number in range(3)]
    while not signer.asked.is_set():
        await asyncio.sleep(0)
    rows[1].cancel()
    signer.may.set()
    outcomes = await asyncio.gather(*rows, return_exceptions=True)
    assert isinstance(outcomes[1], asyncio.CancelledError)
    assert ledger.size == 3
    ledger.close()


async def test_another_process_that_writes_is_waited_for_in_the_thread(tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path, KeyRing(Elsewhere(), waits=True))
    other = open_ledger(tmp_path, LOCAL)
    other._store.connection.execute("BEGIN IMMEDIATE")
    row = asyncio.ensure_future(ledger.append_async(make_row(0)))
    for _ in range(50):
        await asyncio.sleep(0.001)
    assert not row.done()
    other._store.connection.execute("ROLLBACK")
    assert (await row).index == 0
    ledger.close()
    other.close()


@pytest.mark.parametrize("begins", [True, False], ids=["from elsewhere to here", "from here to elsewhere"])
async def test_a_ring_that_takes_other_keys_takes_where_they_are_too(tmp_path: Path, begins: bool) -> None:
    there, here = KeyRing(Elsewhere(), waits=True), KeyRing(SeedSigner(2), LOCAL)
    first, second = (there, here) if begins else (here, there)
    ring = KeyRing(first.current, waits=first.waits)
    ledger = open_ledger(tmp_path, ring, retired=(LOCAL.public_key, SeedSigner(2).public_key))
    rows = [asyncio.ensure_future(ledger.append_async(make_row(number))) for number in range(4)]
    await asyncio.sleep(0)
    ring.take(second)
    rows += [asyncio.ensure_future(ledger.append_async(make_row(number))) for number in range(4, 8)]
    assert sorted(receipt.index for receipt in await asyncio.gather(*rows)) == list(range(8))
    ledger.close()
    assert verify_ledger(ledger.path, (LOCAL.public_key, SeedSigner(2).public_key)).ok
