"""Which session, and which run in it: two identities that are never merged, nor with who is authenticated.

``AdkIdentity`` addresses a session and holds no scopes; ``ExecutionIdentity`` addresses one run
inside it. Who asks is ``RequestContext`` at the root agent and a verified grant at a dataset
agent. None of them is authority. What names are made of is checked where they enter, and they are compared as
tuples: no store's key is made by putting them behind one another.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Protocol

from contract.canonical import canonical_json
from contract.ids import AppName, InvalidId, InvocationId, SessionId, UserId


def person_user(issuer: str, subject: str) -> UserId:
    """One ADK user per verified (issuer, subject): a digest, so that no two pairs can meet in one text."""
    return UserId("person-" + hashlib.sha256(canonical_json([issuer, subject])).hexdigest())


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
        _expect(self.adk, AdkIdentity)
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
