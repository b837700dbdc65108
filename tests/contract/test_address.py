"""An address from which it is learned whom to believe."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from contract.address import UnsafeUrl, is_loopback, same_origin, secure_url


@pytest.mark.parametrize(
    "url",
    [
        "https://idp.example",
        "https://idp.example/",
        "https://idp.example:8443/realms/acme",
        "https://10.0.0.7/keys",
        "http://127.0.0.1:9000/keys",
        "http://127.8.8.8/keys",
        "http://[::1]:9000/keys",
        "http://localhost/keys",
        "HTTPS://IDP.example",
    ],
)
def test_https_and_loopback_are_accepted(url: str) -> None:
    assert secure_url(url).hostname


@pytest.mark.parametrize(
    "url",
    [
        "",
        "idp.example",
        "//idp.example",
        "https://",
        "https:///keys",
        "ftp://idp.example",
        "file:///etc/passwd",
        "http://idp.example",
        "http://127.0.0.1.nip.io/keys",
        "http://127.1/keys",
        "http://2130706433/keys",
        "http://0.0.0.0/keys",
        "http://localhost.example/keys",
        "http://localhost@idp.example/keys",
        "https://user@idp.example",
        "https://user:pw@idp.example",
        "https://@idp.example",
        "https://idp.example/#x",
        "https://idp.example/#",
        "https://idp.example/?a=b",
        "https://idp.example/?",
        "https://idp.example:port",
        "https://idp.example:99999",
        "https://idp.example/a b",
        "https://idp.example/a\nb",
        "https://idp.example\\@evil.example",
        "https://idp.example\\keys",
        "https://idp.exämple",
        "https://[::1",
        "https://idp.example/" + "a" * 500,
    ],
)
def test_anything_else_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(UnsafeUrl) as refused:
        secure_url(url)
    assert "user:pw" not in str(refused.value)


def test_a_query_is_accepted_where_one_may_be() -> None:
    assert secure_url("https://idp.example/keys?p=policy", query=True).query == "p=policy"


@pytest.mark.parametrize(
    ("host", "here"),
    [("127.0.0.1", True), ("::1", True), ("LOCALHOST", True), ("0.0.0.0", False), ("::", False), ("a", False)],
)
def test_loopback_is_this_machine_alone(host: str, here: bool) -> None:
    assert is_loopback(host) is here


@pytest.mark.parametrize(
    ("other", "same"),
    [
        ("https://IDP.example:443/keys", True),
        ("https://idp.example:444", False),
        ("http://idp.example", False),
        ("https://idp.example.evil.example", False),
    ],
)
def test_an_origin_is_scheme_host_and_port(other: str, same: bool) -> None:
    assert same_origin(urlsplit("https://idp.example/a"), urlsplit(other)) is same
