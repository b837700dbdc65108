"""Whose a task or a result is: a client agent's, and of the verified person who asks by it."""

from __future__ import annotations

from contract.grant import VerifiedGrant

Owner = tuple[str, ...]
"""Client agent, issuer, tenant, subject; the client agent alone where no person is known."""


def owner_of(grant: VerifiedGrant) -> Owner:
    """Who asks under a grant: its client, which is the agent that authenticated, and its person."""
    return grant.client, grant.issuer, grant.tenant, grant.subject
