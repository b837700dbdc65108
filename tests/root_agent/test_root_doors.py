"""By which door a call goes: as whoever asks says, else as the publisher prefers, and never by one that no card names."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from contract.call import ARROW_MEDIA_TYPE, RESULT_MEDIA_TYPE, Call
from contract.errors import DatasetAgentError
from contract.mcp import MCP_METHOD
from contract.verdict import NotGranted, Reason
from root_agent.doors import bytes_of, operation_of, read_via, tool_for
from root_agent.wanted import TypedCall
from tests.control_plane.control_plane_world import make_descriptor, raw_capability

PREFERRED = raw_capability("read", tool_name=None, mcp_tool_name="read_rows")
BESIDE = raw_capability("count", mcp_tool_name="count_rows", preferred="tool")
BEHIND_MCP = make_descriptor(PREFERRED, BESIDE, raw_capability("compare"), endpoints={"mcp": "/mcp/plants"})
AT_NO_SUCH_DOOR = make_descriptor(PREFERRED)


def asked(via: str | None = None, *, task: str = "", media_type: str = RESULT_MEDIA_TYPE) -> Any:
    """As much of an asking as the choice of a door looks at."""
    return SimpleNamespace(wanted=SimpleNamespace(via=via, media_type=media_type), continued=task)


def tool(asking: Any, name: str, descriptor: Any = BEHIND_MCP) -> str | None:
    return tool_for(asking, descriptor, descriptor.capability(name))


def test_the_publisher_prefers_a_door_and_whoever_asks_may_name_another() -> None:
    assert [tool(asked(), name) for name in ("read", "count", "compare")] == ["read_rows", None, None]
    assert [tool(asked("mcp"), name) for name in ("read", "count")] == ["read_rows", "count_rows"]
    assert [tool(asked("a2a"), name) for name in ("read", "count")] == [None, None]


@pytest.mark.parametrize("only_a2a", [asked(task="task-1"), asked(media_type=ARROW_MEDIA_TYPE)])
def test_what_only_a2a_has_goes_there_whatever_is_preferred(only_a2a: Any) -> None:
    assert tool(only_a2a, "read") is None


@pytest.mark.parametrize(("name", "descriptor"), [("compare", BEHIND_MCP), ("read", AT_NO_SUCH_DOOR)])
def test_a_tool_that_no_card_offers_is_not_called(name: str, descriptor: Any) -> None:
    assert tool(asked(), name, descriptor) is None
    with pytest.raises(NotGranted) as stop:
        tool(asked("mcp"), name, descriptor)
    assert stop.value.reason is Reason.UNREGISTERED_CAPABILITY
    assert stop.value.message == f"plants offers {name} as no MCP tool: ask it via a2a"


def test_the_door_that_is_named_is_one_of_two_and_holds_what_is_asked() -> None:
    assert [read_via(via, only_a2a=False) for via in (None, "a2a", "mcp")] == [None, "a2a", "mcp"]
    assert read_via("a2a", only_a2a=True) == "a2a"
    for via, only_a2a in (("http", False), ("", False), (1, False), ("mcp", True)):
        with pytest.raises(DatasetAgentError) as stop:
            read_via(via, only_a2a=only_a2a)
        assert stop.value.code == "root_agent.ask.via"
        assert "leave via out" in stop.value.message


@pytest.mark.parametrize("followed", [False, True])
def test_the_leaf_of_a_tool_call_is_for_a_tool_call(followed: bool) -> None:
    call = Call.parse(bytes_of(TypedCall("plants", "read", {}), "read_rows"))
    operation = operation_of(SimpleNamespace(tool="read_rows", call=call), followed=followed)  # type: ignore[arg-type]
    assert operation is not None
    assert (operation.method, operation.call_hash) == (MCP_METHOD, call.call_hash)
