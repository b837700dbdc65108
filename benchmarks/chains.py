"""Chains of grants for a benchmark: fresh ones, with the claims that the product writes."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from dataclasses import replace

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from contract.call import Operation
from contract.grant import VerifiedGrant
from contract.principal import Principal
from contract.scope import Scope, Sensitivity
from contract.verdict import Decision, Reason
from grants.derive import derive, header_value
from grants.key_files import FileSigner
from grants.mint import mint_root
from grants.trust import Trust, TrustedAgent, TrustedIssuer
from grants.verify import verify

ISSUER = "https://issuer.dataset-agent.example"
AGENTS = ("urn:dataset-agent:root", "urn:dataset-agent:remote", "urn:dataset-agent:second", "urn:dataset-agent:third")
CALL = Operation("SendMessage", call_hash="c" * 64)


class Chains:
    """Keys of an issuer and of four agents that pass a grant on; all keys are of this run."""

    def __init__(self) -> None:
        self.now = time.time()
        self.issuer = FileSigner(Ed25519PrivateKey.generate())
        self.signers = {name: FileSigner(Ed25519PrivateKey.generate()) for name in AGENTS}
        self.agents = {
            name: TrustedAgent(name, "http://127.0.0.1:8801", signer.public_key)
            for name, signer in self.signers.items()
        }
        issuer = TrustedIssuer(ISSUER, (self.issuer.public_key,), (), frozenset({"acme"}), "u-")
        self.trust = Trust(issuers={ISSUER: issuer}, agents=self.agents)
        self.scope = Scope(
            dataset="purification-batches",
            dataset_version="2026.08.31",
            revision="s3-etag-4c1f9a",
            actions=frozenset({"compare_batches"}),
            locations=frozenset(AGENTS[1:2]),
            max_sensitivity=Sensitivity.INTERNAL,
        )
        self._principal = Principal(
            issuer=ISSUER,
            subject="u-eng-01",
            tenant="acme",
            name="process_engineer",
            principal_class="process-engineer",
            clearance=Sensitivity.INTERNAL,
        )

    def root(self, scope: Scope | None = None) -> str:
        return mint_root(
            self.issuer,
            issuer_url=ISSUER,
            decision=Decision(
                Reason.PRINCIPAL_AUTHORIZED,
                policy_id="BPD-DATA-014",
                policy_version="2026.09.01",
                rationale="the principal may",
            ),
            principal=self._principal,
            holder=self.agents[AGENTS[0]],
            scope=scope or self.scope,
            intent="compare_batches",
            rctx={"trace_id": secrets.token_hex(16)},
            now=self.now,
        )

    def passed_on(self, tokens: int, root: str | None = None) -> str:
        """The header of a chain of ``tokens`` tokens, its root token fresh where none is given."""
        to = AGENTS[1:tokens]
        chain: tuple[str, ...] = (root or self.root(replace(self.scope, locations=frozenset(to))),)
        for holder, audience in zip(AGENTS, to, strict=False):
            chain = self.derive(chain, holder, audience)
        return header_value(chain)

    def derive(self, chain: Sequence[str], holder: str, audience: str) -> tuple[str, ...]:
        return derive(chain, self.signers[holder], audience=self.agents[audience], operation=CALL, now=self.now)

    def verify(self, header: str) -> VerifiedGrant:
        """As the last receiver of the chain, called by the one before."""
        last = header.count(",")
        return verify(
            header, trust=self.trust, audience=AGENTS[last], client=AGENTS[last - 1], operation=CALL, now=self.now
        )
