"""Three identities that are never merged: who is authenticated, which session, which run.

``RequestContext`` says who asks and holds no session; ``AdkIdentity`` addresses a session and
holds no scopes; ``ExecutionIdentity`` addresses one run inside it. None of them is authority.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from contract.canonical import canonical_json
from contract.ids import AppName, InvalidId, InvocationId, SessionId, UserId
from contract.principal import AttributeValue

APP_NAME = AppName("root_agent")


@dataclass(frozen=True, slots=True)
class RequestContext:
    """A verified person. ``issuer`` and ``subject`` come from a verified identity token only.

    They are the directory's own names of the person where it lists the token's, and the
    token's otherwise. ``attributes`` are what mapped claims of that token state: they fill
    what the directory leaves open (``principals.with_claims``) and are no authority.
    """

    issuer: str
    subject: str
    scopes: frozenset[str] = frozenset()
    metadata: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    attributes: Mapping[str, AttributeValue] = field(default_factory=lambda: MappingProxyType({}), repr=False)

    @property
    def user_id(self) -> UserId:
        """One ADK user per (issuer, subject): a digest, so that no two pairs can meet in one text."""
        return UserId("person-" + hashlib.sha256(canonical_json([self.issuer, self.subject])).hexdigest())


@dataclass(frozen=True, slots=True)
class AdkIdentity:
    """The (application, user, session) triple that separates conversations."""

    app_name: AppName
    user_id: UserId
    session_id: SessionId

    def __post_init__(self) -> None:
        _expect(self.app_name, AppName)
        _expect(self.user_id, UserId)
        _expect(self.session_id, SessionId)


@dataclass(frozen=True, slots=True)
class ExecutionIdentity:
    """One invocation of one agent inside a session; every evidence row can be joined to one."""

    adk: AdkIdentity
    invocation_id: InvocationId
    branch: str
    agent_name: str

    def __post_init__(self) -> None:
        _expect(self.invocation_id, InvocationId)


class _Session(Protocol):
    @property
    def id(self) -> str: ...
    @property
    def app_name(self) -> str: ...
    @property
    def user_id(self) -> str: ...


class AdkContext(Protocol):
    """What is read of an ADK context."""

    @property
    def session(self) -> _Session: ...
    @property
    def invocation_id(self) -> str: ...


def try_identity(context: AdkContext) -> AdkIdentity | str:
    """The session identity of an ADK context, or one sentence that says what is wrong with it."""
    try:
        session = context.session
        return AdkIdentity(AppName(session.app_name), UserId(session.user_id), SessionId(session.id))
    except (AttributeError, InvalidId) as error:
        return f"the context has no usable session identity: {error}"


def try_execution_identity(context: AdkContext, *, branch: str, agent_name: str) -> ExecutionIdentity | str:
    """The execution identity of an ADK context, or one sentence that says what is wrong with it."""
    adk = try_identity(context)
    if isinstance(adk, str):
        return adk
    try:
        return ExecutionIdentity(adk, InvocationId(context.invocation_id), branch, agent_name)
    except (AttributeError, InvalidId) as error:
        return f"the context has no usable execution identity: {error}"


def _expect(value: object, kind: type) -> None:
    if not isinstance(value, kind):
        raise InvalidId(f"expected {kind.__name__}, got {type(value).__name__}")
