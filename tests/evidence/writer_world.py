"""Writers for the tests: in a thread, where the test looks into it, and as a process, where it is killed."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from contract.signing import Signer
from contract.verdict import NotGranted
from evidence.checkpoint import Receipt
from evidence.ledger import Ledger
from evidence.writer import Writer
from evidence.writer_process import WriterElsewhere, WriterProcess
from tests.evidence.evidence_builders import SeedSigner, make_row, open_ledger

CHILD = Path(__file__).with_name("writer_child.py")


def by_key(*signers: SeedSigner) -> dict[str, Signer]:
    return {signer.public_key.raw.hex(): signer for signer in signers}


@contextmanager
def thread_writer(ledger: Ledger, *signers: SeedSigner) -> Iterator[WriterElsewhere]:
    """A writer of ``ledger`` in a thread, until the block ends; it has ended then."""
    known = by_key(*(signers or (SeedSigner(),)))
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        address = Path(folder) / "writer"
        listener.bind(str(address))
        listener.listen()
        lifeline, end = os.pipe()
        writer = Writer(ledger, listener, lifeline, known.get)
        thread = threading.Thread(target=writer.run)
        thread.start()
        try:
            yield WriterElsewhere(address)
        finally:
            os.close(end)
            thread.join()
            os.close(lifeline)


@contextmanager
def child_writer(folder: Path, *limit: str) -> Iterator[WriterProcess]:
    """A writer of the ledger in ``folder`` that is a process of its own."""
    process = WriterProcess([sys.executable, str(CHILD), str(folder), *limit])
    try:
        yield process
    finally:
        process.close()


async def connected(ledger: Ledger) -> None:
    """Until the ledger has met its writer."""
    writer = ledger._writer
    assert writer is not None
    while not writer.connected:
        writer._connect(asyncio.get_running_loop())
        await asyncio.sleep(0.005)


async def outcome(ledger: Ledger, number: int, name: str = "row") -> Receipt | NotGranted:
    try:
        return await ledger.append_async(make_row(number, request_id=f"{name}-{number}", subject=f"s{number % 3}"))
    except NotGranted as stop:
        return stop


def using(folder: Path, place: WriterElsewhere | WriterProcess, signer: Signer | None = None) -> Ledger:
    ledger = open_ledger(folder, signer)  # type: ignore[arg-type]
    ledger.use(place)
    return ledger
