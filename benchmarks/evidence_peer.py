"""A dataset agent whose ledger is written as ``MODE`` says: ``python -m benchmarks.evidence_peer MODE PORT``."""

from __future__ import annotations

import asyncio
import sys
from contextlib import closing

from contract.settings import Settings
from contract.telemetry import quiet_content_loggers
from dataset_agent.configuration import load_settings
from dataset_agent.ledger_writer import ledger_writer
from dataset_agent.process import address_of, bind_port, serve_app
from evidence.checkpoint import Receipt
from evidence.ledger import Ledger
from evidence.row import LedgerRow
from remote_agent.app import create_app
from remote_agent.lifecycle import Lifecycle

WRITER, IN_PROCESS, NONE = "by the writer", "in process", "no row"


def leave_out(ledger: Ledger) -> None:
    """After the first row nothing is concealed, signed or written: every row has the first one's receipt."""
    write, kept = ledger.append_async, list[Receipt]()

    def append(row: LedgerRow) -> asyncio.Future[Receipt]:
        if not kept:
            first = write(row)
            first.add_done_callback(lambda done: kept.append(done.result()))
            return first
        future: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
        future.set_result(kept[0])
        return future

    ledger._attendance = None  # what is taken in here never ends in a row
    setattr(ledger, "append_async", append)  # noqa: B010 - a method, for the benchmark alone


async def serve(settings: Settings, mode: str, port: int) -> None:
    with closing(bind_port("127.0.0.1", port)) as listener, ledger_writer(settings) as writer:
        used = writer if mode == WRITER else None
        lifecycle = await Lifecycle.open(settings, public_url=address_of(listener), writer=used)
        if mode == NONE:
            leave_out(lifecycle.service.ledger)
        await serve_app(
            create_app(lifecycle),
            listener,
            settings=settings,
            kind="serve",
            status=lifecycle.status,
            reload=lifecycle.reload,
            ready=lambda: None,
        )


if __name__ == "__main__":
    quiet_content_loggers()
    asyncio.run(serve(load_settings(), sys.argv[1], int(sys.argv[2])))
