"""How a ledger begins."""

from __future__ import annotations

import secrets

from contract.signing import Signer
from evidence.checkpoint import Checkpoint
from evidence.entry import Head
from evidence.merkle import Frontier
from evidence.row import rfc3339


def first_head(signer: Signer, now: float) -> Head:
    """The head of a ledger without rows: a random origin and a signed checkpoint of the empty tree."""
    empty = Frontier()
    origin = f"urn:dataset-agent:ledger:{secrets.token_hex(16)}"
    return Head(Checkpoint.sign(signer, origin=origin, size=0, root=empty.root(), time=rfc3339(now)), empty)
