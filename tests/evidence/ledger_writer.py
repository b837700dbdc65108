"""A process that appends until it is done or killed: ``python ledger_writer.py FOLDER NAME COUNT [file-limit]``.

Prints the receipt of every row after the row is committed, or ``withheld REASON``.
"""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from contract.verdict import NotGranted
from tests.evidence.evidence_builders import make_row, open_ledger


def main(folder: str, name: str, count: str, limit: str = "") -> None:
    ledger = open_ledger(Path(folder))
    if limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
    for number in range(int(count)):
        try:
            receipt = ledger.append(make_row(number, request_id=f"{name}-{number}", subject=f"{name}-{number % 3}"))
        except NotGranted as stopped:
            print(f"withheld {stopped.reason}", flush=True)
            return
        print(json.dumps(receipt.to_json()), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
