"""A writer as a process: ``python writer_child.py FOLDER [file-limit] ADDRESS``; it ends with its standard input."""

from __future__ import annotations

import resource
import socket
import sys
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from evidence.writer import Writer
from tests.evidence.evidence_builders import SeedSigner, open_ledger


def main(folder: str, *more: str) -> None:
    *limit, address = more
    ledger = open_ledger(Path(folder))
    if limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit[0]), int(limit[0])))
    signer = SeedSigner()
    with suppress(FileNotFoundError):
        Path(address).unlink()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(address)
        listener.listen()
        Writer(
            ledger, listener, sys.stdin.fileno(), lambda key: signer if key == signer.public_key.raw.hex() else None
        ).run()
    ledger.close()
    with suppress(OSError):
        Path(address).unlink()
        Path(address).parent.rmdir()


if __name__ == "__main__":
    main(*sys.argv[1:])
