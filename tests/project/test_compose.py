"""What the composition promises: keys apart, loopback ports, nothing writable or secret that need not be."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from contract.settings import PREFIX, Settings

ROOT = Path(__file__).resolve().parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]


def mounts(service: str) -> dict[str, str]:
    """Volume names of a service with ``rw`` or ``ro``."""
    found = {}
    for volume in SERVICES[service].get("volumes", []):
        name, _, *mode = volume.split(":")
        found[name] = mode[0] if mode else "rw"
    return found


def test_only_the_control_plane_can_read_the_issuers_key() -> None:
    holders = {name for name in SERVICES if "issuer-keys" in mounts(name)}
    assert holders == {"keys-issuer", "root-agent"}
    assert "issuer-keys" not in mounts("remote-agent")


@pytest.mark.parametrize(("role", "volume"), [("keys-root", "root-keys"), ("keys-remote", "remote-keys")])
def test_each_role_makes_its_keys_on_a_volume_of_its_own(role: str, volume: str) -> None:
    assert set(mounts(role)) == {volume, "trust"}
    assert SERVICES[role]["network_mode"] == "none"


def test_agents_read_keys_and_trust_and_write_neither() -> None:
    for service in ("remote-agent", "root-agent"):
        modes = {name: mode for name, mode in mounts(service).items() if not name.endswith("-home")}
        assert set(modes.values()) == {"ro"}


def test_ports_are_published_on_loopback_only() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_every_container_is_hardened_and_no_secret_is_in_its_environment() -> None:
    for name, service in SERVICES.items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert not any("SECRET" in key or "TOKEN" in key for key in service.get("environment", {})), name


def test_the_override_of_the_operators_page_adds_to_what_is_there_and_gives_both_agents_the_datasets_to_read() -> None:
    page = (ROOT / "docs" / "operate.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"`compose\.override\.yaml`.*?^```yaml\n(.*?)^```$", page, re.M | re.S)
    added: dict[str, dict[str, Any]] = yaml.safe_load(block)["services"]
    assert set(added) == {"remote-agent", "root-agent"} <= set(SERVICES)
    known = {PREFIX + name.upper() for name in Settings.model_fields}
    for service in added.values():
        assert set(service["environment"]) <= known
        assert service["environment"]["DATASET_AGENT_DATASETS"] == "/datasets"
        assert service["volumes"] == ["./world:/datasets:ro"]


def test_state_is_kept_and_cache_is_bounded() -> None:
    state, cache = " ".join(SERVICES["state-redis"]["command"]), " ".join(SERVICES["cache-redis"]["command"])
    assert "--appendonly yes" in state
    assert "--maxmemory-policy noeviction" in state
    assert "--maxmemory-policy volatile-lfu" in cache
