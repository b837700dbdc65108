"""A root agent as a process, a provider that signs people in, a dataset agent behind it: over HTTP from end to end."""

from __future__ import annotations

import json
import shutil
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from contract.canonical import b64url
from contract.settings import SHIPPED_DATASETS
from evidence.reader import LedgerFile
from tests.control_plane.oidc_world import AUDIENCE, SUBJECT, claims, jwk, token
from tests.dataset_agent.command_line import CommandLine, Served, served
from tests.root_agent.scripted_provider import ScriptedProvider, scripted_provider
from tests.running_agent import RunningAgent, agent_home, running_agent

pytestmark = pytest.mark.live

QUESTION = {"question": "Compare the recovery of batches B001 and B002"}


@pytest.fixture(scope="module")
def provider() -> Iterator[ScriptedProvider]:
    with scripted_provider() as started:
        yield started


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAgent]:
    with running_agent(agent_home(tmp_path_factory.mktemp("agent"))) as running:
        yield running


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory, provider: ScriptedProvider) -> Path:
    """The root's own folder: the process engineer signs in at the provider, the dataset agent knows nothing of it."""
    folder = Path(shutil.copytree(SHIPPED_DATASETS, tmp_path_factory.mktemp("root") / "datasets"))
    directory = folder / "principals.yaml"
    listed = f"    subject: u-eng-01\n    signs_in_as: [{{issuer: '{provider.issuer}', subject: {SUBJECT}}}]\n"
    directory.write_text(directory.read_text("utf-8").replace("    subject: u-eng-01\n", listed), "utf-8")
    return folder


@pytest.fixture(scope="module")
def settings(agent: RunningAgent, provider: ScriptedProvider, datasets: Path) -> dict[str, str]:
    return {
        "HOME": str(agent.settings.home),
        "URL": agent.url,
        "DATASETS": str(datasets),
        "OIDC_ISSUER": provider.issuer,
        "OIDC_AUDIENCE": AUDIENCE,
        "OIDC_REQUIRED": '{"azp": "portal"}',
        "LOG_LEVEL": "DEBUG",
    }


@pytest.fixture(scope="module")
def root(settings: dict[str, str]) -> Iterator[Served]:
    with served("root", **settings) as process:
        yield process


def post(root: Served, sent: str | None) -> httpx.Response:
    headers = {} if sent is None else {"Authorization": f"Bearer {sent}"}
    return httpx.post(f"{root.url}/ask", json=QUESTION, headers=headers, timeout=30)


def rows(agent: RunningAgent) -> int:
    return sum(1 for _ in LedgerFile(agent.settings.home / "root" / "ledger.sqlite").rows())


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
def test_a_person_of_the_provider_gets_rows(root: Served, provider: ScriptedProvider, algorithm: str) -> None:
    answer = post(root, provider.token(algorithm=algorithm))
    assert answer.status_code == 200
    view = answer.json()
    assert (view["verdict"], view["result"]["row_count"], view["provenance"]["verified"]) == ("GRANTED", 2, True)


def test_somebody_the_directory_does_not_know_gets_a_verdict_and_no_rows(
    root: Served, provider: ScriptedProvider
) -> None:
    view = post(root, provider.token(sub="somebody-else")).json()
    assert (view["verdict"], view["decision"]["reason"], view["result"]) == ("INDETERMINATE", "UNKNOWN_PRINCIPAL", None)


def _wrong(provider: ScriptedProvider) -> list[tuple[str, str | None]]:
    now, sign = time.time(), provider.token
    head, payload, signed = sign().split(".")
    forged = b64url(json.dumps(claims(now, iss=provider.issuer, sub="u-clin-01")).encode())
    wrong: list[tuple[str, str | None]] = [
        ("root_agent.person.missing", None),
        ("malformed", "x"),
        ("malformed", f"{head}.{payload}"),
        ("malformed", f"{head}.{payload}.{signed}="),
        ("malformed", "x" * 20_000),
        ("encrypted", f"{head}.{payload}.{signed}.a.b"),
        ("signature", f"{head}.{forged}.{signed}"),
        ("signature", sign(signed_by="rsa2", header={"kid": "rsa"})),
        ("algorithm", _unsigned(payload)),
        ("algorithm", sign(algorithm="HS256")),
        ("algorithm", sign(algorithm="EdDSA")),
        ("header", sign(header={"jwk": jwk("rsa2")}, signed_by="rsa2")),
        ("header", sign(header={"jku": f"{provider.issuer}/keys"})),
        ("header", sign(header={"crit": ["exp"]})),
        ("type", sign(header={"typ": "at+jwt"})),
        ("type", sign(header={"typ": "execution-grant+jwt"})),
        ("key", sign(header={"kid": "unknown"})),
        ("key", sign(header={"kid": "ec"})),
        ("issuer", sign(iss=provider.issuer + "/")),
        ("audience", sign(aud="another-client")),
        ("audience", sign(aud=[])),
        ("required", sign(azp="another-client")),
        ("expired", sign(now=now - 3_600)),
        ("not_yet_valid", sign(now=now + 3_600)),
        ("too_old", sign(iat=int(now) - 80_000)),
        ("claims", sign(exp=str(int(now) + 60))),
        ("claims", sign(exp=...)),
        ("subject", sign(sub="")),
        ("bound", sign(cnf={"jkt": "x"})),
        ("type", sign(events={})),
    ]
    return wrong


def _unsigned(payload: str) -> str:
    header = b64url(json.dumps({"alg": "none", "typ": "JWT", "kid": "rsa"}).encode())
    return f"{header}.{payload}.AA"


def test_every_token_that_is_not_right_is_401_by_its_name_and_leaves_no_row(
    root: Served, provider: ScriptedProvider, agent: RunningAgent
) -> None:
    before, asked = rows(agent), len(provider.asked)
    for code, sent in _wrong(provider):
        answer = post(root, sent)
        problem = answer.json()
        assert (answer.status_code, problem["code"].removeprefix("control_plane.oidc.")) == (401, code)
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.headers["www-authenticate"].startswith('Bearer realm="dataset-agent"')
        assert answer.headers["cache-control"] == "no-store"
        assert sent is None or len(sent) < 20 or sent not in answer.text
    assert rows(agent) == before
    assert len(provider.asked) <= asked + 2  # one attempt at most, of two documents
    assert post(root, provider.token()).json()["verdict"] == "GRANTED"
    assert rows(agent) == before + 1


def test_the_development_issuers_token_is_401(root: Served, settings: dict[str, str]) -> None:
    development = {name: value for name, value in settings.items() if not name.startswith("OIDC")}
    signed = CommandLine(development)("login", "--as", "process_engineer").out.strip()
    assert post(root, signed).json()["code"] == "control_plane.oidc.algorithm"


def test_a_claim_fills_what_the_policies_of_the_root_read(
    settings: dict[str, str], provider: ScriptedProvider, datasets: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(datasets, tmp_path / "datasets"))
    schema = folder / "policies" / "schema.cedarschema"
    schema.write_text(schema.read_text("utf-8").replace("attributes: {}", "attributes: {site: String}"), "utf-8")
    forbid = '@id("SITE-1")\nforbid (principal, action, resource) unless { principal.attributes.site == "north" };\n'
    (folder / "policies" / "site.cedar").write_text(forbid, "utf-8")
    mapped = settings | {"DATASETS": str(folder), "OIDC_ATTRIBUTES": '{"site": "/org/site"}'}
    with served("root", **mapped) as root:
        said = {
            "north": post(root, provider.token(org={"site": "north"})),
            "south": post(root, provider.token(org={"site": "south"})),
            "nothing": post(root, provider.token()),
        }
        unusable = post(root, provider.token(org={"site": {"a": 1}}))
    assert {name: answer.json()["decision"]["reason"] for name, answer in said.items()} == {
        "north": "PRINCIPAL_AUTHORIZED",
        "south": "INSUFFICIENT_PRIVILEGE",
        "nothing": "MISSING_PRINCIPAL_ATTRIBUTE",
    }
    assert (unusable.status_code, unusable.json()["code"]) == (401, "control_plane.oidc.attribute")


def test_a_provider_that_is_away_at_the_start_is_503_and_readiness_says_so(settings: dict[str, str]) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        issuer = f"http://127.0.0.1:{nobody.getsockname()[1]}/realm"
        with served("root", **settings | {"OIDC_ISSUER": issuer}) as root:
            told = [line.strip() for line in root.said if issuer in line]
            assert told[0] == f"reading the keys of {issuer} …"
            assert f"the keys of {issuer} cannot be read yet" in told[-1]
            answer = post(root, token(now=time.time(), iss=issuer))
            ready = httpx.get(f"{root.url}/readyz")
            nobody_named = post(root, None)
    assert (answer.status_code, answer.json()["code"]) == (503, "control_plane.oidc.unavailable")
    assert 1 <= int(answer.headers["retry-after"]) <= 30
    assert (ready.status_code, nobody_named.status_code) == (503, 401)


def test_a_provider_that_goes_away_later_leaves_its_people_in(root: Served, provider: ScriptedProvider) -> None:
    provider.up = False
    try:
        assert post(root, provider.token()).json()["verdict"] == "GRANTED"
        assert httpx.get(f"{root.url}/readyz").status_code == 200
    finally:
        provider.up = True


def test_no_token_was_logged(root: Served, provider: ScriptedProvider) -> None:
    good, bad = provider.token(), provider.token(aud="marker-audience")
    post(root, good)
    assert post(root, bad).status_code == 401
    root.process.terminate()
    root.end()
    said = "".join(root.said)
    assert "control_plane.oidc.audience" in said
    assert [text for text in (*good.split("."), *bad.split("."), "marker-audience", SUBJECT) if text in said] == []


def test_a_reload_forgets_the_providers_keys_at_once(settings: dict[str, str], tmp_path: Path) -> None:
    with scripted_provider() as own:
        folder = Path(shutil.copytree(settings["DATASETS"], tmp_path / "datasets"))
        directory = folder / "principals.yaml"
        directory.write_text(directory.read_text("utf-8").replace(settings["OIDC_ISSUER"], own.issuer), "utf-8")
        home = Path(shutil.copytree(settings["HOME"], tmp_path / "home", ignore=shutil.ignore_patterns("run")))
        mine = settings | {"OIDC_ISSUER": own.issuer, "DATASETS": str(folder), "HOME": str(home)}
        with served("root", **mine) as root:
            stolen = own.token()
            assert post(root, stolen).json()["verdict"] == "GRANTED"
            own.keys = ("ec",)
            assert CommandLine({"HOME": str(home)})("reload", "--wait").code == 0
            assert httpx.get(f"{root.url}/readyz").status_code == 200
            assert post(root, stolen).json()["code"] == "control_plane.oidc.key"
            assert post(root, own.token(algorithm="ES256")).json()["verdict"] == "GRANTED"
