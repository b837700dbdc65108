"""A process that takes requests in and ends each in a row: ``python attending.py FOLDER NAME COUNT [FILE-LIMIT] [CLOCK]``.

Says ``begun ID`` once a request is taken in, then ``written ID INDEX`` once its row is on disk, or ``withheld ID``.
``CLOCK`` is a number of seconds that its clock steps back in the middle.
"""

from __future__ import annotations

import asyncio
import resource
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from contract.verdict import NotGranted
from evidence.arrivals import Arrival
from evidence.ledger import Ledger
from evidence.row import Side
from tests.evidence.evidence_builders import AGENT, NOW, make_row, open_ledger

_AT_ONCE = 4


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


async def request(ledger: Ledger, name: str, number: int, at: float) -> None:
    told = f"{name}-{number}"
    try:
        ledger.expect(Arrival(told, client="urn:dataset-agent:root"))
    except NotGranted:
        say("refused", told)
        return
    say("begun", told)
    row = make_row(number, request_id=told, recorded_at=at, subject=f"{name}-{number % 3}")
    try:
        receipt = await ledger.append_async(row)
    except NotGranted:
        say("withheld", told)
        return
    say("written", told, receipt.index)


async def attend(ledger: Ledger, name: str, count: int, back: float) -> None:
    waiting = asyncio.Semaphore(_AT_ONCE)

    async def one(number: int) -> None:
        async with waiting:
            await request(ledger, name, number, NOW + number - (back if number >= count // 2 else 0))

    await asyncio.gather(*(one(number) for number in range(count)))


def main(folder: str, name: str, count: str, limit: str = "0", back: str = "0") -> None:
    ledger = open_ledger(Path(folder))
    ledger.attend(Path(folder, "arrivals"), side=Side.REMOTE, agent_id=AGENT, now=NOW)
    if int(limit):
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
    say("ready")
    asyncio.run(attend(ledger, name, int(count), float(back)))
    ledger.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
