"""An address from which it is learned whom to believe."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from contract.address import UnsafeUrl, for_development, is_loopback, loopback_url, plain_url, same_origin, secure_url


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
        "https://idp.example/a\\b",
        "https://idp.example/ä",
        "https://idp.exämple",
        "https://[::1",
        "https://evil.example[::1]/",
        "https://[::1]evil.example",
        "https://idp.example:",
        "https://:443",
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


def test_a_plain_address_may_be_http_anywhere() -> None:
    assert plain_url("http://remote-agent:8801").hostname == "remote-agent"
    with pytest.raises(UnsafeUrl):
        secure_url("http://remote-agent:8801")


@pytest.mark.parametrize(
    ("url", "private", "so"),
    [
        ("http://127.0.0.1:8801", False, True),
        ("https://localhost:8801", False, True),
        ("http://[::1]", False, True),
        ("http://remote-agent:8801", True, True),
        ("http://remote-agent:8801", False, False),
        ("https://remote-agent:8801", True, False),
        ("https://localhost.", False, False),
        ("https://127.0.0.1.nip.io", False, False),
        ("http://0.0.0.0:8801", False, False),
        # no address at all says nothing about who is real
        ("", False, False),
        ("//127.0.0.1", True, False),
        ("https://dåta.example", True, False),
        ("http://user@127.0.0.1", True, False),
        ("http://127.0.0.1/?t=1", True, False),
        ("http://evil.example[::1]/", True, False),
    ],
)
def test_an_address_is_for_development_only_where_that_is_certain(url: str, private: bool, so: bool) -> None:
    assert for_development(url, private_network=private) is so


def test_an_address_of_this_machine_is_no_other_machines() -> None:
    assert loopback_url("http://127.0.0.1:9050").port == 9050
    with pytest.raises(UnsafeUrl, match="on this machine"):
        loopback_url("http://10.0.0.7:9050")
