"""An address in the trust file is scheme, host, port and path, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from contract.errors import DatasetAgentError
from grants.trust import load_trust
from tests.grants.grants_world import signer

KEY = signer(51).public_key.jwk()["x"]


def write(tmp_path: Path, url: str) -> Path:
    path = tmp_path / "trust.toml"
    path.write_text(f'[[agent]]\nid = "urn:a"\nurl = "{url}"\nkey = "{KEY}"\n')
    return path


@pytest.mark.parametrize("url", ["https://a.example", "http://127.0.0.1:8801", "https://a.example:8443/agents/a"])
def test_an_address_is_taken_as_it_stands(tmp_path: Path, url: str) -> None:
    assert load_trust(write(tmp_path, url)).agents["urn:a"].url == url


@pytest.mark.parametrize(
    "url",
    [
        "ftp://a.example",
        "a.example",
        "https://",
        "https:///agents",
        "https://user@a.example",
        "https://a.example/#there",
        "https://a.example/?to=b",
        "https://a.example[::1]",
    ],
)
def test_what_is_more_or_less_than_an_address_does_not_load(tmp_path: Path, url: str) -> None:
    with pytest.raises(DatasetAgentError) as stop:
        load_trust(write(tmp_path, url))
    assert stop.value.code == "grants.trust.invalid"
    assert "address" in stop.value.message
