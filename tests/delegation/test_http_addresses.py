"""Where a grant may be sent: to an address that is nothing else, over TLS or on this machine, and nowhere that a reply names."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import httpx
import pytest

from contract.settings import Settings
from delegation.http import Bounds, ReplyTooLarge, UnsafeAddress, checked_url, open_http, same_origin
from tests.delegation.test_http_bounds import get
from tests.root_agent.scripted_remote import listening


@pytest.mark.parametrize(
    "url",
    [
        "",
        "https:",
        "https://",
        "https:///cards",
        "https://user@agent.example",
        "https://:secret@agent.example",
        "https://@agent.example",
        "https://agent.example#part",
        "https://agent.example?x=1",
        "https://agent.example:99999",
        "https://[::1",
        # each of them is one host to a reader of URLs, and another to who connects
        "https://agent.example[::1]",
        "http://agent.example[::1]",
        "https://agent.example[v1.a]",
        "https://agent\u3002example",
        "https://agent.example\\@other.example",
        "https://agent.example /",
        "https://agent.example\t/",
        "https://agent.example%2f",
    ],
)
@pytest.mark.parametrize("private_network", [True, False])
def test_an_address_is_scheme_host_port_and_path_and_nothing_else(url: str, private_network: bool) -> None:
    with pytest.raises(UnsafeAddress):
        checked_url(url, private_network=private_network)
    with pytest.raises(UnsafeAddress):
        same_origin(url, "https://agent.example")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "localhost", "LOCALHOST", "[::1]"])
def test_in_the_clear_a_grant_stays_on_this_machine(host: str) -> None:
    assert checked_url(f"http://{host}:1/rpc/", private_network=False) == f"http://{host}:1/rpc"
    for other in ("agent.example", "10.0.0.1", "0.0.0.0", "localhost.example", "[fe80::1]"):
        with pytest.raises(UnsafeAddress, match="use https"):
            checked_url(f"http://{other}:1/rpc", private_network=False)


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ("https://a.example", "https://A.EXAMPLE:443/rpc", True),
        ("http://a.example:80/x", "http://a.example/y", True),
        ("https://a.example", "http://a.example", False),
        ("https://a.example", "https://a.example:444", False),
        ("https://a.example", "https://b.example", False),
        ("https://a.example", "https://a.example.b.example", False),
    ],
)
def test_an_origin_is_a_scheme_a_host_and_a_port(left: str, right: str, same: bool) -> None:
    assert same_origin(left, right) is same
    assert same_origin(right, left) is same


async def test_a_reply_that_names_another_address_is_not_followed_there() -> None:
    asked: list[str] = []

    async def app(scope: dict[str, str], receive: object, send: Callable[[dict[str, object]], object]) -> None:
        asked.append(scope["path"])
        headers = [(b"location", b"/elsewhere")]
        await send({"type": "http.response.start", "status": 307, "headers": headers})  # type: ignore[misc]
        await send({"type": "http.response.body", "body": b""})  # type: ignore[misc]

    async with listening(app) as port, open_http(Settings()) as client:
        reply = await client.post(f"http://127.0.0.1:{port}/rpc", headers={"Execution-Grant": "g"})
    assert (reply.status_code, asked) == (307, ["/rpc"])


async def test_a_body_that_cannot_be_read_in_pieces_is_none() -> None:
    class Whole(httpx.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            yield b"{}"

    class Saying(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            response = httpx.Response(200)
            response.stream = Whole()
            response.aclose = _nothing  # type: ignore[method-assign]
            return response

    async def _nothing() -> None:
        """Such a body has no end to wait for."""

    with pytest.raises(ReplyTooLarge):
        await get(Saying(), Bounds(10, 10))
