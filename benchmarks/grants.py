"""What verifying, deriving and minting cost, beside one raw OpenSSL verification of a message of the same size."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from cryptography.hazmat.backends.openssl import backend
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from nacl import __version__ as pynacl_version

from benchmarks.chains import AGENTS, Chains
from benchmarks.report import Figure, Section, Side, machine
from contract.canonical import unb64url
from dataset_agent.process import settle_memory
from evidence.dsse import open_envelope, sign_envelope
from grants.client import authenticate_client, client_assertion

RAW: Final = "raw OpenSSL verify"
TWO, THREE, FOUR = (f"verify {tokens} tokens, fresh root token" for tokens in (2, 3, 4))
UNSEEN: Final = "verify 2 tokens, fresh root token, entries never seen"
REMEMBERED: Final = "verify 2 tokens, remembered root token"
_ROOT, _REMOTE = AGENTS[:2]


@dataclass(frozen=True, slots=True)
class Work:
    """One side: ``prepare`` makes what ``run`` is timed on; bytes are decoded in between, as a server does."""

    name: str
    prepare: Callable[[], Any]
    run: Callable[[Any], object]


def measure(blocks: int = 7, calls: int = 300) -> Section:
    """Every side in interleaved ``blocks`` of ``calls``; times in microseconds.

    Every call has tokens of its own, which were never seen before, except where the side's
    name says otherwise. Garbage is collected as the servers do.
    """
    settle_memory()
    chains = Chains()
    works = _works(chains)
    times: dict[str, list[tuple[float, ...]]] = {work.name: [] for work in works}
    for block in range(blocks + 1):
        for work in works:
            taken = tuple(_block(work, calls))
            if block:  # the first block warms every side
                times[work.name].append(taken)
    sides = {name: Side(name, tuple(blocks)) for name, blocks in times.items()}
    facts = machine() | {
        "openssl": backend.openssl_version_text(),
        "pynacl": pynacl_version,
        "bytes_of_a_2_token_chain": len(chains.passed_on(2)),
    }
    return Section("Execution grants", "us", list(sides.values()), _figures(sides), facts)


def _block(work: Work, calls: int) -> Iterator[float]:
    for item in [work.prepare() for _ in range(calls)]:
        value = item.decode() if isinstance(item, bytes) else item
        started = time.perf_counter_ns()
        work.run(value)
        yield (time.perf_counter_ns() - started) / 1_000


def _works(chains: Chains) -> list[Work]:
    return [*_signatures(chains), *_verifications(chains), *_others(chains)]


def _signatures(chains: Chains) -> list[Work]:
    key = chains.issuer.public_key
    openssl = Ed25519PublicKey.from_public_bytes(key.raw)

    def signed() -> tuple[bytes, bytes]:
        message, _, signature = chains.root().rpartition(".")
        return unb64url(signature), message.encode()

    return [
        Work(RAW, signed, lambda pair: openssl.verify(*pair)),
        Work("the product's verify of one signature", signed, lambda pair: key.verifies(*pair)),
    ]


def _verifications(chains: Chains) -> list[Work]:
    held = chains.root()

    def unseen() -> bytes:
        scope = replace(chains.scope, revision=secrets.token_hex(8))
        return chains.passed_on(2, chains.root(scope)).encode()

    return [
        Work(TWO, lambda: chains.passed_on(2).encode(), chains.verify),
        Work(THREE, lambda: chains.passed_on(3).encode(), chains.verify),
        Work(FOUR, lambda: chains.passed_on(4).encode(), chains.verify),
        Work(UNSEEN, unseen, chains.verify),
        Work(REMEMBERED, lambda: chains.passed_on(2, held).encode(), chains.verify),
    ]


def _others(chains: Chains) -> list[Work]:
    signer, key = chains.signers[_REMOTE], chains.agents[_REMOTE].key

    def assertion() -> bytes:
        return client_assertion(chains.signers[_ROOT], agent_id=_ROOT, audience=_REMOTE, now=chains.now).encode()

    def authenticate(token: str) -> None:
        authenticate_client(token, trust=chains.trust, audience=_REMOTE, now=chains.now)

    held = assertion()
    return [
        Work("mint a root token", lambda: None, lambda _: chains.root()),
        Work("derive a leaf", lambda: (chains.root(),), lambda chain: chains.derive(chain, _ROOT, _REMOTE)),
        Work("client assertion, fresh", assertion, authenticate),
        Work("client assertion, remembered", lambda: held, authenticate),
        Work("DSSE sign, 2 kB", _statement, lambda statement: sign_envelope(statement, signer)),
        Work("DSSE verify, 2 kB", lambda: sign_envelope(_statement(), signer), lambda made: open_envelope(made, key)),
    ]


def _statement() -> dict[str, Any]:
    """As large as the statement of a small answer."""
    return {"predicate": {f"member_{number:02}": secrets.token_hex(20) for number in range(32)}}


def _figures(sides: dict[str, Side]) -> list[Figure]:
    raw = sides[RAW].p50
    return [
        Figure(f"{TWO}, p50 / raw", sides[TWO].p50 / raw, most=2.5),
        Figure(f"{TWO}, p99", sides[TWO].p99 / 1_000, most=0.5, unit="ms"),
        Figure(f"{THREE}, p50 / raw", sides[THREE].p50 / raw, most=3.5),
        *(
            Figure(f"{name}, p50 / raw", side.p50 / raw)
            for name, side in sides.items()
            if name not in (RAW, TWO, THREE)
        ),
    ]
