"""The process that writes a dataset agent's ledger: ``python -P -m dataset_agent.ledger_writer ADDRESS``.

``serve`` starts it, with its own environment, and holds the other end of its standard input;
it is no command of its own. Signals that end ``serve`` do not end it: whoever drains still writes.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from typing import Final

from contract.errors import DatasetAgentError
from contract.key_ring import KeyRing, signer_of
from contract.settings import Settings
from contract.signing import PublicKey, Signer
from dataset_agent.configuration import load_settings
from evidence.writer import Writer
from evidence.writer_process import WriterProcess
from grants.key_store import KeyName
from grants.signers import open_signer
from grants.trust import load_trust
from remote_agent.own_ledger import open_ledger
from telemetry.logs import open_logs

log = logging.getLogger(__name__)

COMMAND: Final = (sys.executable, "-P", "-m", "dataset_agent.ledger_writer")
_BACKLOG: Final = 64


class Keys:
    """The agent's keys by their public ones; the store is read again for one that is not known yet."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.ring: KeyRing = open_signer(settings, KeyName.REMOTE)
        self._known: dict[str, Signer] = {}

    def named(self, key: str) -> Signer | None:
        """Whoever signs with the public key ``key`` (hex); ``None`` where the store has none such."""
        if key not in self._known:
            self._known.clear()
            with suppress(DatasetAgentError, ValueError):
                self.ring = open_signer(self._settings, KeyName.REMOTE)
                found = signer_of(self.ring, PublicKey(bytes.fromhex(key)))
                if found is not None:
                    self._known[key] = found
        return self._known.get(key)


@contextmanager
def listening(address: str) -> Iterator[socket.socket]:
    """A socket at ``address``, in the place of one whose process died."""
    with suppress(FileNotFoundError):
        os.unlink(address)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(address)
        os.chmod(address, 0o600)
        listener.listen(_BACKLOG)
        yield listener


@contextmanager
def ledger_writer(settings: Settings) -> Iterator[WriterProcess | None]:
    """A writer for the ledger of a process that serves; ``None`` where that writes itself.

    It does where another process holds its key, and where a writer has no place to listen.
    """
    writer = None
    if settings.remote_signer is None:
        try:
            writer = WriterProcess(COMMAND)
        except OSError as error:
            log.warning("the ledger is written by this process: %s", error)
    with nullcontext() if writer is None else closing(writer):
        yield writer


def main(address: str) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    settings = load_settings()
    open_logs(settings.log_level, settings.log_format)
    keys = Keys(settings)
    ledger = open_ledger(settings, keys.ring, load_trust(settings.trust_path), serves=False)
    try:
        with listening(address) as listener:
            gc.collect()
            gc.freeze()
            Writer(ledger, listener, sys.stdin.fileno(), keys.named).run()
        with suppress(OSError):  # whoever started this is gone, maybe without a word
            os.unlink(address)
            os.rmdir(os.path.dirname(address))
    finally:
        ledger.close()


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except DatasetAgentError as error:
        sys.exit(f"the writer of the ledger: {error.message}")
