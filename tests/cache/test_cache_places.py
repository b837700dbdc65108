"""What a Redis URL says, in every form there is, and what is wrong with another one: never a password."""

from __future__ import annotations

from contextlib import suppress
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.redis_options import read_place
from contract.redis_route import ClusterRoute, OneRoute, SentinelRoute, route_to

TEXT = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1, max_size=20)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("redis://host", {"kind": "one", "nodes": (("host", 6379),), "db": 0, "tls": None}),
        ("redis://host:1/3", {"nodes": (("host", 1),), "db": 3}),
        ("redis://host?db=3", {"db": 3}),
        ("redis://[::1]:2", {"nodes": (("::1", 2),)}),
        ("redis://:pw@host", {"username": None, "password": "pw"}),
        ("redis://u:p%40w@host", {"username": "u", "password": "p@w"}),
        ("redis://host?username=u&password=p", {"username": "u", "password": "p"}),
        ("rediss://host", {"tls": {}}),
        ("rediss://host?ssl_ca_certs=/ca&ssl_certfile=/c&ssl_keyfile=/k", {
            "tls": {"ssl_ca_certs": "/ca", "ssl_certfile": "/c", "ssl_keyfile": "/k"}
        }),
        ("unix:///run/redis.sock?db=2", {"socket": True, "nodes": (("/run/redis.sock", 0),), "db": 2}),
        ("unix://u:p@/run/redis.sock", {"username": "u", "password": "p", "nodes": (("/run/redis.sock", 0),)}),
        ("redis+sentinel://a,b:2/main", {
            "kind": "sentinel", "nodes": (("a", 26379), ("b", 2)), "service": "main", "db": 0
        }),
        ("rediss+sentinel://u:p@a/main/4?sentinel_username=s&sentinel_password=t", {
            "service": "main", "db": 4, "tls": {}, "password": "p", "sentinel_username": "s", "sentinel_password": "t"
        }),
        ("redis+cluster://u:p@a:1,b", {"kind": "cluster", "nodes": (("a", 1), ("b", 6379)), "username": "u"}),
    ],
)  # fmt: skip
def test_a_url_says_where_the_server_is_and_who_asks(url: str, said: dict[str, Any]) -> None:
    place = read_place(url)
    assert {name: getattr(place, name) for name in said} == said


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://u:hunter2@host", "must start with"),
        ("hunter2", "must start with"),
        ("redis://u:hunter2@[::1", "not a URL"),
        ("redis://u:hunter2@a,b", "at most 1"),
        ("redis://u:hun/ter2@host", "percent-encoded"),
        ("redis://u:hunter2@host:99999", "1 to 65535"),
        ("redis://u:hunter2@host:0", "1 to 65535"),
        ("redis://u:hunter2@host/x", "must be a number"),
        ("redis://u:hunter2@host/0/1", "takes /DB only"),
        ("redis://u:hunter2@host?db=x", "must be a number"),
        ("redis://u:hunter2@host?socket_timeout=9", "db, password, username only"),
        ("redis://u:hunter2@host?ssl_ca_certs=/ca", "db, password, username only"),
        ("redis://u:hunter2@host#x", "only"),
        ("rediss://u:hunter2@host?ssl_cert_reqs=never", "required, optional or none"),
        ("rediss://u:hunter2@host?ssl_keyfile=/k", "needs an ssl_certfile"),
        ("unix://u:hunter2@", "path of a socket"),
        ("unix://u:hunter2@host/path", "path of a socket"),
        ("redis+sentinel://u:hunter2@a", "/SERVICE"),
        ("redis+sentinel://u:hunter2@a/se rvice", "/SERVICE"),
        ("redis+sentinel://u:hunter2@a/s/0/1", "/SERVICE"),
        ("redis+cluster://u:hunter2@a/1", "one database"),
        ("redis+cluster://u:hunter2@a?db=1", "password, username only"),
        ("redis+cluster://u:hunter2@" + ",".join("abcdefgh" * 5), "at most 32"),
    ],
)
def test_another_url_is_refused_with_what_is_wrong_and_never_its_password(url: str, why: str) -> None:
    with pytest.raises(ValueError, match=why) as refused:
        read_place(url)
    assert "hunter" not in str(refused.value)


@given(st.sampled_from(["redis", "redis+cluster", "redis+sentinel"]), TEXT, TEXT)
def test_whatever_the_account_is_percent_encoded_it_is_read_as_it_was_and_shown_by_nothing(
    scheme: str, username: str, password: str
) -> None:
    service = "/main" if scheme == "redis+sentinel" else ""
    place = read_place(f"{scheme}://{quote(username, safe='')}:{quote(password, safe='')}@host{service}")
    assert (place.username, place.password) == (username, password)
    assert repr(place) == repr(read_place(f"{scheme}://host{service}"))


@given(st.text(max_size=60))
def test_no_text_raises_anything_else(text: str) -> None:
    for start in ("", "redis://", "redis+sentinel://", "rediss+cluster://", "unix://"):
        with suppress(ValueError):
            read_place(start + text)


def test_files_of_tls_that_cannot_be_used_are_told_by_their_option() -> None:
    read_place("redis://host").check_files()
    with pytest.raises(ValueError, match="ssl_ca_certs"):
        read_place("rediss://host?ssl_ca_certs=/nowhere/ca.pem").check_files()


async def test_each_form_is_followed_in_its_own_way() -> None:
    assert isinstance(route_to(read_place("unix:///x")), OneRoute)
    assert isinstance(route_to(read_place("redis+sentinel://a/b")), SentinelRoute)
    assert isinstance(route_to(read_place("redis+cluster://a")), ClusterRoute)


async def test_a_slot_that_a_server_corrected_is_asked_there_until_a_server_is_lost() -> None:
    route = ClusterRoute(read_place("redis+cluster://a"))
    route._starts, route._ranges = [0, 8_192], [(8_191, ("a", 1)), (16_383, ("b", 2))]
    assert {route.known("{x}:1"), route.known("{y}:2")} <= {("a", 1), ("b", 2)}
    route.moved("{x}:1", ("c", 3))
    assert route.known("{x}:other") == ("c", 3)
    route.lost(("d", 4))
    assert route.known("{x}:1") == ("c", 3)
    route.lost(("a", 1))
    assert route.known("{x}:1") is None
