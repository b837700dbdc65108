"""What the manifests for Kubernetes promise: keys apart, nothing writable or open that need not be, and agents that start so."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from contract.settings import PREFIX, Settings
from dataset_agent.child_services import answers, free_ports, stop
from dataset_agent.login import identity_token
from grants.keys import init_keys

ROOT = Path(__file__).resolve().parents[2]
MANIFESTS: list[dict[str, Any]] = list(
    yaml.safe_load_all((ROOT / "deploy" / "kubernetes.yaml").read_text(encoding="utf-8"))
)
PORTS = {"remote-agent": 8801, "root-agent": 8800}


def named(kind: str) -> dict[str, dict[str, Any]]:
    return {one["metadata"]["name"]: one for one in MANIFESTS if one["kind"] == kind}


PODS: dict[str, dict[str, Any]] = {name: one["spec"]["template"]["spec"] for name, one in named("StatefulSet").items()}


def container(name: str) -> dict[str, Any]:
    (only,) = PODS[name]["containers"]
    return dict(only)


def source(variable: dict[str, Any]) -> tuple[str, str, str]:
    """The kind, name and key that a variable is taken from."""
    ((kind, reference),) = variable["valueFrom"].items()
    return kind, reference["name"], reference["key"]


def secret_of(name: str) -> set[str]:
    return {
        source(one)[1] for one in container(name)["env"] if "valueFrom" in one and "secretKeyRef" in one["valueFrom"]
    }


def test_both_agents_are_there_and_each_is_one_pod() -> None:
    sets = named("StatefulSet")
    assert sets.keys() == PORTS.keys()
    assert all(one["spec"]["replicas"] == 1 for one in sets.values())


def test_only_the_root_agent_has_the_issuers_key() -> None:
    assert secret_of("root-agent") == {"issuer", "root-agent"}
    assert secret_of("remote-agent") == {"remote-agent", "stores"}


def test_no_secret_is_a_value_or_a_file() -> None:
    for name in PODS:
        kinds = {kind for volume in PODS[name]["volumes"] for kind in volume if kind != "name"}
        assert kinds == {"configMap", "emptyDir"}
        for variable in container(name)["env"]:
            field = variable["name"].removeprefix(PREFIX).lower()
            assert field in Settings.model_fields
            if field.endswith(("_jwk", "_secret", "_token")):
                assert source(variable)[0] == "secretKeyRef"


@pytest.mark.parametrize("name", PORTS)
def test_a_pod_may_do_nothing_that_it_need_not(name: str) -> None:
    pod, only = PODS[name], container(name)
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 10001,
        "runAsGroup": 10001,
        "fsGroup": 10001,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert only["securityContext"] == {
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {mount["name"]: mount.get("readOnly", False) for mount in only["volumeMounts"]} == {
        "home": False,
        "trust": True,
        "tmp": False,
    }


@pytest.mark.parametrize(("name", "port"), PORTS.items())
def test_it_is_asked_where_it_listens(name: str, port: int) -> None:
    only = container(name)
    assert only["args"][-1] == str(port) and only["ports"] == [{"containerPort": port}]
    probes = {probe: only[probe]["httpGet"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert {place["port"] for place in probes.values()} == {port}
    assert probes["readinessProbe"]["path"] == "/readyz" and probes["livenessProbe"]["path"] == "/healthz"
    (listed,) = named("Service")[name]["spec"]["ports"]
    assert listed["port"] == port


def test_nobody_but_the_root_agent_reaches_the_dataset_agent() -> None:
    policies = named("NetworkPolicy")
    assert policies["nothing"]["spec"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    (rule,) = policies["remote-agent"]["spec"]["ingress"]
    assert rule["from"] == [{"podSelector": {"matchLabels": {"app": "root-agent"}}}]
    reaching = {name for name, one in policies.items() if {"port": 8801, "protocol": "TCP"} in _ports(one, "egress")}
    assert reaching == {"root-agent"}


def _ports(policy: dict[str, Any], way: str) -> list[Any]:
    return [port for rule in policy["spec"].get(way, []) for port in rule["ports"]]


@pytest.mark.live
def test_agents_start_with_keys_from_the_environment_on_a_disk_of_the_group(tmp_path: Path) -> None:
    """As the manifests start them, but for the stores, which are files here, and for people, who are of the development issuer."""
    made = Settings(home=tmp_path / "made")
    init_keys(made)
    keys = made.home / "keys"
    data = tmp_path / "trust" / "..data"
    data.mkdir(parents=True)
    (data / "trust.toml").write_bytes(made.trust_path.read_bytes())
    (tmp_path / "trust" / "trust.toml").symlink_to("..data/trust.toml")  # as a mounted ConfigMap has it
    held = {
        ("issuer", "grant.jwk"): (keys / "issuer" / "grant.jwk").read_text(),
        ("root-agent", "holder.jwk"): (keys / "root" / "holder.jwk").read_text(),
        ("root-agent", "memo.secret"): secrets.token_hex(32) + "\n",
        ("remote-agent", "agent.jwk"): (keys / "remote" / "agent.jwk").read_text(),
        ("remote-agent", "cache.secret"): (keys / "remote" / "cache.secret").read_text(),
    }
    ports = dict(zip(PORTS, free_ports(2), strict=True))
    running: list[subprocess.Popen[bytes]] = []
    try:
        for name, port in ports.items():
            home = tmp_path / name
            home.mkdir(mode=0o2775)
            env = {key: value for key, value in os.environ.items() if not key.startswith(PREFIX)}
            env |= {f"{PREFIX}HOME": str(home)}
            for variable in container(name)["env"]:
                if "value" in variable:
                    env[variable["name"]] = variable["value"]
                elif source(variable)[1:] in held:
                    env[variable["name"]] = held[source(variable)[1:]]
            env[f"{PREFIX}TRUST_FILE"] = str(tmp_path / "trust" / "trust.toml")
            env |= {f"{PREFIX}PUBLIC_URL": f"http://127.0.0.1:{ports['remote-agent']}"}
            env |= {f"{PREFIX}URL": f"http://127.0.0.1:{ports['remote-agent']}"}
            command = [container(name)["args"][0], "--port", str(port)]
            program = [sys.executable, "-c", "from dataset_agent.cli import main; main()", *command]
            running.append(subprocess.Popen(program, env=env, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL))
            assert answers(f"http://127.0.0.1:{port}/readyz", running[-1], within_s=60)
        token = identity_token(made, "process_engineer")
        told = httpx.post(
            f"http://127.0.0.1:{ports['root-agent']}/ask",
            json={"question": "Compare the recovery of batches B001 and B002"},
            headers={"Authorization": f"Bearer {token}"},
            timeout=60,
            trust_env=False,
        )
        assert json.loads(told.text)["verdict"] == "GRANTED"
    finally:
        for process in running:
            stop(process)
