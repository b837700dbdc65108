"""The ledger of a dataset agent: where it lies, and who may have signed it."""

from __future__ import annotations

import time

from contract.settings import Settings
from contract.signing import Signer
from evidence.ledger import Ledger
from evidence.opening import open_own
from evidence.row import Side
from grants.trust import Trust


def open_ledger(settings: Settings, signer: Signer, trust: Trust, *, serves: bool = True) -> Ledger:
    """This agent's own ledger, which goes on under a new key, and the erasable keys of the people in it.

    Whoever ``serves`` ends the requests of processes that died, and leaves its own to be ended so.
    """
    folder = settings.home / "remote"
    own = trust.agent(settings.agent_id)
    retired = own.every_key if own else ()
    ledger = open_own(settings, settings.agent_id, folder, signer, now=time.time(), retired=retired)
    if serves:
        try:
            ledger.attend(folder / "arrivals", side=Side.REMOTE, agent_id=settings.agent_id, now=time.time())
        except BaseException:
            ledger.close()
            raise
    return ledger
