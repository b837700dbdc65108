"""What rubbish costs the doors in CPU, beside one raw OpenSSL verification: 64 KiB must be turned away in under 1 ms."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from benchmarks.chains import AGENTS, Chains
from benchmarks.report import Figure, Section, Side, machine
from contract.call import Operation
from contract.canonical import InvalidJson, check_shape, unb64url
from contract.errors import DatasetAgentError
from contract.verdict import NotGranted
from dataset_agent.process import settle_memory
from grants.claims import GRANT_TYP
from grants.client import authenticate_client
from grants.verify import verify
from remote_agent.authentication import MAX_VALUES
from tests.grants.grants_world import forge
from tests.grants.rubbish import families, fitting, odd_bodies, odd_payloads

RAW: Final = "raw OpenSSL verify"
MOST_MS: Final = 1.0
_ROOT, _REMOTE = AGENTS[:2]

Door = Callable[[Any], object]


def measure(blocks: int = 7, calls: int = 100) -> Section:
    """Every family through every door in interleaved ``blocks`` of ``calls``; CPU time of the thread, in microseconds.

    The dearest call of each door is a figure, in milliseconds and as a ratio to the median of
    one raw verification; nothing is taken away for what the machine did meanwhile.
    """
    settle_memory()
    chains = Chains()
    works = {RAW: _raw(chains)} | dict(_works(chains))
    times: dict[str, list[tuple[float, ...]]] = {name: [] for name in works}
    for block in range(blocks + 1):
        for name, work in works.items():
            taken = tuple(_cpu(work) for _ in range(calls))
            if block:  # the first block warms every side
                times[name].append(taken)
    sides = {name: Side(name, tuple(blocks)) for name, blocks in times.items()}
    return Section("Rubbish at the doors (CPU)", "us", list(sides.values()), list(_figures(sides)), machine())


def _cpu(work: Callable[[], object]) -> float:
    started = time.thread_time_ns()
    work()
    return (time.thread_time_ns() - started) / 1_000


def _works(chains: Chains) -> Iterator[tuple[str, Callable[[], object]]]:
    doors: Mapping[str, tuple[Door, Mapping[str, Any]]] = {
        "grant, 64 KiB": (_grant(chains), families()),
        "grant, as much as is read": (_grant(chains), fitting()),
        "grant, signed by its issuer": (_grant(chains), _signed(chains)),
        "assertion, 64 KiB": (_assertion(chains), families()),
        "assertion, as much as is read": (_assertion(chains), fitting()),
        "body, 64 KiB": (_body, odd_bodies()),
    }
    for door, (knock, texts) in doors.items():
        for family, text in texts.items():
            yield f"{door}: {family}", partial(knock, text)


def _raw(chains: Chains) -> Callable[[], object]:
    message, _, signature = chains.root().rpartition(".")
    key = Ed25519PublicKey.from_public_bytes(chains.issuer.public_key.raw)
    return lambda: key.verify(unb64url(signature), message.encode())


def _signed(chains: Chains) -> Mapping[str, str]:
    """The worst that somebody trusted can sign within the size that is read."""
    head = {"alg": "Ed25519", "typ": GRANT_TYP, "kid": chains.issuer.public_key.thumbprint}
    return {name: forge(payload, chains.issuer, head) for name, payload in odd_payloads().items()}


def _grant(chains: Chains) -> Door:
    operation = Operation("SendMessage", call_hash="c" * 64)

    def knock(text: str) -> None:
        with contextlib.suppress(NotGranted):
            verify(text, trust=chains.trust, audience=_REMOTE, client=_ROOT, operation=operation, now=time.time())
            raise SystemExit("rubbish was accepted as a grant")

    return knock


def _assertion(chains: Chains) -> Door:
    def knock(text: str) -> None:
        with contextlib.suppress(DatasetAgentError):
            authenticate_client(text, trust=chains.trust, audience=_REMOTE, now=time.time())
            raise SystemExit("rubbish was accepted as an assertion")

    return knock


def _body(data: bytes) -> None:
    with contextlib.suppress(InvalidJson):
        check_shape(data, max_values=MAX_VALUES)


def _figures(sides: Mapping[str, Side]) -> Iterator[Figure]:
    raw = sides[RAW].p50
    for door in dict.fromkeys(name.partition(":")[0] for name in sides if name != RAW):
        most, dearest = max(
            (max(max(block) for block in side.blocks), name.partition(": ")[2])
            for name, side in sides.items()
            if name.startswith(f"{door}:")
        )
        of_grants = door.startswith(("grant", "assertion"))
        yield Figure(f"{door}, dearest ({dearest})", most / 1_000, "ms", most=MOST_MS if of_grants else None)
        yield Figure(f"{door}, dearest / {RAW}", most / raw)
