"""People by an organisation's identity provider: the one door for its tokens.

Reading keys is here (``contract.published`` says how seldom), what a key may verify in
``oidc_keys``, what a token must be in ``oidc_token``. One provider at a time: two would need a
rule about which of them may speak for whom, and a provider can federate others itself.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from contract.address import UnsafeUrl, same_origin, secure_url
from contract.errors import Category, Component, DatasetAgentError
from contract.provider import IdentityProvider
from contract.published import Published, Unreadable, fetch, read_object
from control_plane.oidc_keys import ProviderKey, fitting, holds, read_keys
from control_plane.oidc_token import UnverifiedToken, VerifiedPerson, judge, read_token, refused

DISCOVERY_PATH: Final = "/.well-known/openid-configuration"

Fetch = Callable[[str], Awaitable[bytes]]


class OidcVerifier:
    """Verifies identity tokens of ``provider``; one per process, for one event loop."""

    def __init__(self, provider: IdentityProvider, fetch: Fetch | None = None) -> None:
        self.provider = provider
        self._fetch = fetch or _fetching(provider)
        self._published = Published(self._read, holds=holds, name=provider.issuer)

    async def verify(self, token: str, now: float) -> VerifiedPerson:
        """The person a token stands for; ``now`` is POSIX seconds.

        Raises UNAUTHENTICATED with its own code per failure, and UNAVAILABLE with
        ``retry_after`` where it cannot be told because the provider's keys cannot be read.
        Whether the directory knows the person is not checked here.
        """
        read = read_token(token, self.provider)
        key = fitting(await self._keys(read.kid, now), kid=read.kid, algorithm=read.algorithm)
        if key is None:
            raise refused("key", "the identity token names no key of the provider's that fits it")
        _check_signature(read, key)
        return judge(read.payload, self.provider, now)

    def available(self, now: float) -> bool:
        """Whether keys are there to verify by. Looks for them where that is due, and waits for nothing."""
        self._published.look_for(None, now)
        return self._published.usable(now) is not None

    async def warm(self, now: float) -> bool:
        """Read the keys before the first token; whether they are there."""
        await self._published.look(None, now)
        return self._published.usable(now) is not None

    def forget(self) -> None:
        """Believe no key that was read so far; the next token waits until they are read anew."""
        self._published.forget()

    async def probe(self) -> None:
        """Read the keys now, for an operator who asks why. Raises UNAVAILABLE, or CONFIGURATION where none is of use."""
        try:
            keys = await self._read()
        except Unreadable as error:
            raise _fault(Category.UNAVAILABLE, "unreadable", f"its keys cannot be read: {error}") from error
        if not any(key.algorithms & self.provider.algorithms for key in keys):
            useless = "none of its keys is for an algorithm of DATASET_AGENT_OIDC_ALGORITHMS"
            raise _fault(Category.CONFIGURATION, "algorithms", useless)

    async def close(self) -> None:
        await self._published.close()

    async def _keys(self, kid: str | None, now: float) -> tuple[ProviderKey, ...]:
        await self._published.look(kid, now)
        keys = self._published.usable(now)
        unknown = kid is not None and not self._published.knows(kid, now)
        if keys is None or (unknown and not self._published.reached(now)):
            raise _fault(
                Category.UNAVAILABLE,
                "unavailable",
                "who asks cannot be told: the identity provider's keys cannot be read; try again later",
                retry_after=max(1.0, self._published.retry_in(now)),
            )
        return keys

    async def _read(self) -> tuple[ProviderKey, ...]:
        url = self.provider.jwks_url
        if url is None:
            issuer = self.provider.issuer
            url = discovered(await self._fetch(issuer.rstrip("/") + DISCOVERY_PATH), issuer)
        return read_keys(await self._fetch(url))


def discovered(document: bytes, issuer: str) -> str:
    """The ``jwks_uri`` of a discovery document (OpenID Connect Discovery 1.0, section 4.3).

    Raises ``Unreadable`` unless the document names exactly this issuer, and a key set at the
    issuer's own scheme, host and port: another place has to be set by an operator.
    """
    found = read_object(document)
    if found.get("issuer") != issuer:
        raise Unreadable("its discovery document is another issuer's")
    url = found.get("jwks_uri")
    try:
        elsewhere = not isinstance(url, str) or not same_origin(secure_url(url, query=True), secure_url(issuer))
    except UnsafeUrl as error:
        raise Unreadable("the jwks_uri of its discovery document is not accepted") from error
    if elsewhere:
        raise Unreadable("its key set is at another host: set DATASET_AGENT_OIDC_JWKS_URL if that is right")
    return str(url)


def _check_signature(read: UnverifiedToken, key: ProviderKey) -> None:
    if not key.verifies(read.algorithm, read.signature, read.signing_input):
        raise refused("signature", "the identity token's signature is not valid")


def _fetching(provider: IdentityProvider) -> Fetch:
    """Raises CONFIGURATION where the file of authorities is none."""
    if provider.authorities is not None:
        try:
            ssl.create_default_context(cafile=str(provider.authorities))
        except OSError as error:  # SSLError is one
            none = f"DATASET_AGENT_OIDC_CA_FILE names {provider.authorities}, which holds no certificates in PEM"
            raise _fault(Category.CONFIGURATION, "authorities", none) from error
    return partial(fetch, authorities=provider.authorities)


def _fault(category: Category, code: str, message: str, *, retry_after: float | None = None) -> DatasetAgentError:
    name = f"control_plane.oidc.{code}"
    return DatasetAgentError(Component.CONTROL_PLANE, category, name, message, retry_after=retry_after)
