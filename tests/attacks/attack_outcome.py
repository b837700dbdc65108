"""How a refusal looks from outside."""

from __future__ import annotations

from contract.canonical import sha256_hex
from contract.extension import CACHE_KEY, PROVENANCE_MEDIA_TYPE
from contract.verdict import VERDICTS, Reason
from remote_agent.refusals import OUTWARD
from tests.attacks.attack_world import Attempt, Reply


def refused(reply: Reply, reason: Reason, attempt: Attempt) -> None:
    """Refused by its own name in the task's metadata; nothing that was sent or asked for comes back."""
    outward = OUTWARD[reason]
    assert (reply.status, reply.decision["reason"], reply.state) == (200, reason.value, outward.state)
    assert reply.decision["verdict"] == VERDICTS[reason].value
    assert reply.error == {"retryable": outward.retryable, "hint": outward.hint}
    assert reply.shown == []
    assert CACHE_KEY not in reply.text
    assert PROVENANCE_MEDIA_TYPE not in reply.text
    for line in attempt.grants:
        text = line if isinstance(line, str) else line.decode("latin-1")
        assert not any(part in reply.text for part in text.replace(",", ".").split(".") if len(part) > 20)
    for word in ("u-eng-01", "Dublin", "B001", sha256_hex(attempt.call)):
        assert word not in reply.text
