"""Who decides about approvals: a person, by an identity token that is for this very agent.

As at the root agent's door an identity provider's token is believed where one is configured, and
the development issuer's elsewhere. A development token names this agent as its audience, so one that
was shown to a root agent approves nothing; give the provider's tokens for approvers an audience of
their own too (``DATASET_AGENT_OIDC_AUDIENCE`` of this agent).
"""

from __future__ import annotations

from collections.abc import Callable

from contract.errors import Category, Component, DatasetAgentError
from contract.principal import Principal
from contract.settings import Settings
from contract.verdict import NotGranted, Reason
from control_plane.identity import verify_person
from control_plane.oidc import OidcVerifier
from control_plane.principals import Directory, with_claims
from grants.trust import Trust


class Approvers:
    """Verifies approvers' tokens. ``trust`` is read anew at each."""

    def __init__(self, settings: Settings, trust: Callable[[], Trust]) -> None:
        self._issuer_url = settings.issuer_url
        self._audience = settings.agent_id
        self._development = settings.development_issuer
        self._provider = None if settings.identity_provider is None else OidcVerifier(settings.identity_provider)
        self._trust = trust

    async def verified(self, token: str, directory: Directory, now: float) -> Principal:
        """The person of the token, as the directory knows them.

        Raises ``DatasetAgentError`` UNAUTHENTICATED or UNAVAILABLE for a token that is not believed, and
        ``NotGranted`` UNKNOWN_PRINCIPAL, PRINCIPAL_ATTRIBUTE_CONFLICT.
        """
        if self._provider is not None:
            person = await self._provider.verify(token, now)
            known = directory.signed_in(person.issuer, person.subject)
            return with_claims(_known(known), person.attributes)
        issuer = self._trust().issuer(self._issuer_url)
        if issuer is None or not self._development:
            raise DatasetAgentError(
                Component.REMOTE_AGENT,
                Category.UNAUTHENTICATED,
                "remote_agent.approvals.nobody",
                "no identity token is accepted here: no identity provider is configured",
            )
        who, subject = verify_person(
            token, keys=issuer.identity_keys, issuer_url=self._issuer_url, audience=self._audience, now=now
        )
        return _known(directory.find(who, subject))

    async def close(self) -> None:
        if self._provider is not None:
            await self._provider.close()


def _known(principal: Principal | None) -> Principal:
    if principal is None:
        raise NotGranted(Reason.UNKNOWN_PRINCIPAL, "the directory knows no principal of this identity")
    return principal
