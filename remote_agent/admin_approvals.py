"""``/admin/approvals/…``: the approvers' desk behind the admin token.

The admin token opens the door and decides nothing: each request that shows an argument, or decides, brings
the approver's own identity token, in its body, where no log of a proxy has it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from remote_agent.admin_query import bad
from remote_agent.approval_desk import ApprovalDesk, People
from remote_agent.service import Service, World

PREFIX: Final = "/admin/approvals/"
Members = Mapping[str, Any]
Route = Callable[[Members], Awaitable[dict[str, Any]]]
_LONGEST: Final = 200
_TOKEN: Final = 16_384


def served_desk(service: Service, people: People) -> ApprovalDesk:
    """Where approvers decide, over what is served."""

    @asynccontextmanager
    async def served(_: str) -> AsyncIterator[World]:
        yield service.world

    return ApprovalDesk(
        service.agent_id,
        served,
        service.approvals,
        lambda: service.ledger,
        people,
        lambda: service.state,
        lambda: service.clock(),
    )


def approval_routes(desk: ApprovalDesk) -> Mapping[tuple[str, str], Route]:
    """By method and path."""
    return {
        ("GET", PREFIX + "list"): lambda asked: _listed(desk, asked),
        ("POST", PREFIX + "show"): lambda asked: _show(desk, asked),
        ("POST", PREFIX + "approve"): lambda asked: _approve(desk, asked),
        ("POST", PREFIX + "deny"): lambda asked: _deny(desk, asked),
    }


async def _listed(desk: ApprovalDesk, asked: Members) -> dict[str, Any]:
    _only(asked, "all")
    if asked.get("all", "false") not in ("true", "false"):
        raise bad("all is true or false")
    return await desk.listed(everything=asked.get("all") == "true")


async def _show(desk: ApprovalDesk, asked: Members) -> dict[str, Any]:
    _only(asked, "id", "person")
    return await desk.show(*_who(asked))


async def _approve(desk: ApprovalDesk, asked: Members) -> dict[str, Any]:
    _only(asked, "id", "person", "edits", "why")
    edits = asked.get("edits", {})
    if not isinstance(edits, dict):
        raise bad("edits is an object of arguments")
    return await desk.approve(*_who(asked), edits=edits, why=_why(asked))


async def _deny(desk: ApprovalDesk, asked: Members) -> dict[str, Any]:
    _only(asked, "id", "person", "why")
    return await desk.deny(*_who(asked), why=_why(asked))


def _who(asked: Members) -> tuple[str, str]:
    return _text(asked, "id", _LONGEST), _text(asked, "person", _TOKEN)


def _why(asked: Members) -> str:
    why = asked.get("why", "")
    if not isinstance(why, str):  # how long it may be is said at the desk
        raise bad("why is text")
    return why


def _text(asked: Members, name: str, longest: int) -> str:
    value = asked.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= longest:
        raise bad(f"{name} is text of 1 to {longest} characters")
    return value


def _only(asked: Members, *names: str) -> None:
    if not asked.keys() <= set(names):
        raise bad(f"it takes {', '.join(names)} and nothing else")
