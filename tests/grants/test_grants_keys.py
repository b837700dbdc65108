"""Private stores, one for each role, and the public file that pins them."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from contract.errors import Category, DatasetAgentError
from contract.settings import Settings
from contract.signing import PublicKey
from grants.key_files import FileSigner, read_private
from grants.keys import init_keys
from grants.trust import Trust, load_trust
from tests.grants.grants_world import public


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home")


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def code_of(stop: pytest.ExceptionInfo[DatasetAgentError]) -> str:
    assert stop.value.category is Category.CONFIGURATION
    assert "\n" not in stop.value.message
    return stop.value.code


def test_a_key_file_is_private_and_reads_back(tmp_path: Path) -> None:
    path = tmp_path / "store" / "a.jwk"
    made = FileSigner.generate(path)
    assert (mode_of(path), mode_of(path.parent)) == (0o600, 0o700)
    read = FileSigner.load(path)
    assert read.public_key == made.public_key
    assert made.public_key.verifies(read.sign(b"message"), b"message")
    jwk = json.loads(path.read_bytes())
    assert (jwk["alg"], jwk["use"], jwk["kid"]) == ("Ed25519", "sig", made.public_key.thumbprint)


def test_a_signer_prints_no_secret(tmp_path: Path) -> None:
    path = tmp_path / "store" / "a.jwk"
    signer = FileSigner.generate(path)
    assert json.loads(path.read_bytes())["d"] not in repr(signer)


def test_a_key_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "store" / "a.jwk"
    key = FileSigner.generate(path).public_key
    with pytest.raises(DatasetAgentError) as stop:
        FileSigner.generate(path)
    assert code_of(stop) == "grants.keys.exists"
    assert FileSigner.load(path).public_key == key


@pytest.mark.parametrize(("place", "mode", "fix"), [("file", 0o640, "chmod 600"), ("directory", 0o755, "chmod 700")])
def test_a_key_that_others_could_read_is_refused_with_the_command_that_closes_it(
    tmp_path: Path, place: str, mode: int, fix: str
) -> None:
    path = tmp_path / "store" / "a.jwk"
    FileSigner.generate(path)
    open_to_others = path if place == "file" else path.parent
    open_to_others.chmod(mode)
    with pytest.raises(DatasetAgentError, match=f"{fix} {open_to_others}") as stop:
        FileSigner.load(path)
    assert code_of(stop) == "grants.keys.permissions"
    path.parent.chmod(0o700)


def test_a_link_out_of_the_store_is_refused(tmp_path: Path) -> None:
    elsewhere, path = tmp_path / "elsewhere" / "a.jwk", tmp_path / "store" / "a.jwk"
    FileSigner.generate(elsewhere)
    path.parent.mkdir(mode=0o700)
    path.symlink_to(elsewhere)
    with pytest.raises(DatasetAgentError, match="a link out of its store") as stop:
        FileSigner.load(path)
    assert code_of(stop) == "grants.keys.permissions"


def test_a_link_inside_the_store_is_followed_as_secret_volumes_need_it(tmp_path: Path) -> None:
    version = tmp_path / "store" / "..2026" / "a.jwk"
    made = FileSigner.generate(version)
    version.parent.parent.chmod(0o700)
    (tmp_path / "store" / "..data").symlink_to("..2026")
    (tmp_path / "store" / "a.jwk").symlink_to("..data/a.jwk")
    assert FileSigner.load(tmp_path / "store" / "a.jwk").public_key == made.public_key
    version.chmod(0o640)
    with pytest.raises(DatasetAgentError, match="open to others"):
        FileSigner.load(tmp_path / "store" / "a.jwk")


@pytest.mark.parametrize("place", ["file", "directory"])
def test_a_key_that_another_user_could_replace_is_refused(
    tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store" / "a.jwk"
    FileSigner.generate(path)
    foreign = path if place == "file" else path.parent
    if os.geteuid() == 0:
        os.chown(foreign, 12345, -1)
    else:
        uid = os.geteuid() + 1  # nobody can give a file away: another reader instead of another owner
        monkeypatch.setattr(os, "geteuid", lambda: uid)
    with pytest.raises(DatasetAgentError, match="belongs to another user; run: chown") as stop:
        FileSigner.load(path)
    assert code_of(stop) == "grants.keys.permissions"


def test_what_is_no_file_is_no_key(tmp_path: Path) -> None:
    path = tmp_path / "store" / "a.jwk"
    path.parent.mkdir(mode=0o700)
    os.mkfifo(path, 0o600)
    with pytest.raises(DatasetAgentError, match="is no file"):
        FileSigner.load(path)


def test_a_missing_key_says_how_to_make_it(tmp_path: Path) -> None:
    with pytest.raises(DatasetAgentError, match="keys init") as stop:
        FileSigner.load(tmp_path / "none.jwk")
    assert code_of(stop) in ("grants.keys.missing", "grants.keys.permissions")


@pytest.mark.parametrize(
    "spoil",
    [
        lambda jwk: {},
        lambda jwk: [],
        lambda jwk: {name: value for name, value in jwk.items() if name != "d"},
        lambda jwk: {**jwk, "d": jwk["x"]},
        lambda jwk: {**jwk, "d": "AAAA"},
        lambda jwk: {**jwk, "crv": "X25519"},
        lambda jwk: {**jwk, "kid": "other"},
        lambda jwk: {**jwk, "use": "enc"},
    ],
)
def test_a_spoiled_key_is_refused_and_not_quoted(tmp_path: Path, spoil: object) -> None:
    path = tmp_path / "store" / "a.jwk"
    FileSigner.generate(path)
    secret = json.loads(path.read_bytes())["d"]
    path.write_text(json.dumps(spoil(json.loads(path.read_bytes()))))  # type: ignore[operator]
    with pytest.raises(DatasetAgentError) as stop:
        FileSigner.load(path)
    assert code_of(stop) == "grants.keys.invalid"
    assert secret not in stop.value.message


def test_keys_init_makes_three_separate_stores_and_pins_their_public_keys(settings: Settings) -> None:
    report = init_keys(settings)
    files = [
        settings.issuer_dir / "grant.jwk",
        settings.issuer_dir / "identity.jwk",
        settings.root_dir / "holder.jwk",
        settings.remote_dir / "agent.jwk",
        settings.remote_dir / "cache.secret",
    ]
    assert list(report.created) == files
    assert report.kept == ()
    assert {mode_of(path) for path in files} == {0o600}
    assert {mode_of(path.parent) for path in files} == {0o700}
    trust = load_trust(report.trust)
    issuer = trust.issuer(settings.issuer_url)
    assert issuer is not None
    assert issuer.keys == (FileSigner.load(files[0]).public_key,)
    assert issuer.identity_keys == (FileSigner.load(files[1]).public_key,)
    assert (issuer.tenants, issuer.subject_prefix) == ({"acme"}, "u-")
    for agent_id, path in ((settings.root_id, files[2]), (settings.agent_id, files[3])):
        agent = trust.agent(agent_id)
        assert agent is not None
        assert agent.key == FileSigner.load(path).public_key
    assert len(bytes.fromhex(read_private(files[4]).decode().strip())) == 32


def test_the_trust_file_holds_nothing_private(settings: Settings) -> None:
    init_keys(settings)
    text = settings.trust_path.read_text()
    assert mode_of(settings.trust_path) == 0o644
    for path in settings.home.rglob("*.jwk"):
        assert json.loads(path.read_bytes())["d"] not in text


def test_keys_init_again_changes_nothing(settings: Settings) -> None:
    first = init_keys(settings)
    before = {path: path.read_bytes() for path in settings.home.rglob("*") if path.is_file()}
    again = init_keys(settings)
    assert again.created == ()
    assert set(again.kept) == set(first.created)
    assert {path: path.read_bytes() for path in settings.home.rglob("*") if path.is_file()} == before


def test_roles_initialised_one_by_one_share_one_trust_file(settings: Settings, tmp_path: Path) -> None:
    shared = tmp_path / "shared" / "trust.toml"
    for role in ("remote", "issuer", "root"):
        own = Settings(home=tmp_path / role, trust_file=shared)
        report = init_keys(own, roles=(role,))
        assert {path.parent for path in report.created} == {getattr(own, f"{role}_dir")}
    trust = load_trust(shared)
    assert set(trust.agents) == {settings.root_id, settings.agent_id}
    assert set(trust.issuers) == {settings.issuer_url}


def test_what_others_entered_in_the_trust_file_is_kept(settings: Settings) -> None:
    init_keys(settings)
    other = public(21).jwk()["x"]
    with settings.trust_path.open("a") as file:
        file.write(f'\n[[agent]]\nid = "urn:other"\nurl = "https://other.example"\nkey = "{other}"\n')
    text = settings.trust_path.read_text()
    settings.trust_path.write_text('policy_versions = ["2026.1"]\n' + text)
    init_keys(settings, force=True)
    trust = load_trust(settings.trust_path)
    assert trust.agent("urn:other") is not None
    assert trust.policy_versions == {"2026.1"}


def test_force_replaces_the_keys_and_withdraws_the_old_ones(settings: Settings) -> None:
    init_keys(settings)
    before = load_trust(settings.trust_path)
    init_keys(settings, force=True)
    after = load_trust(settings.trust_path)
    old, new = before.issuer(settings.issuer_url), after.issuer(settings.issuer_url)
    assert old is not None
    assert new is not None
    assert not set(old.keys) & set(new.keys)
    assert len(new.keys) == 1
    assert before.agents[settings.root_id].key != after.agents[settings.root_id].key


def test_another_key_pinned_for_an_agent_is_not_replaced_silently(settings: Settings) -> None:
    init_keys(settings)
    (settings.root_dir / "holder.jwk").unlink()
    with pytest.raises(DatasetAgentError, match="--force") as stop:
        init_keys(settings)
    assert code_of(stop) == "grants.trust.conflict"
    assert "bring the newest trust.toml" in stop.value.message


def test_a_store_that_others_use_is_not_closed_behind_their_back(settings: Settings) -> None:
    settings.root_dir.mkdir(parents=True)
    (settings.root_dir / "something").touch()
    settings.root_dir.chmod(0o755)
    with pytest.raises(DatasetAgentError, match="chmod 700"):
        init_keys(settings)
    assert mode_of(settings.root_dir) == 0o755


def test_an_empty_store_is_closed(settings: Settings) -> None:
    settings.root_dir.mkdir(parents=True)
    settings.root_dir.chmod(0o755)
    init_keys(settings)
    assert mode_of(settings.root_dir) == 0o700


def test_an_unknown_role_is_refused(settings: Settings) -> None:
    with pytest.raises(DatasetAgentError) as stop:
        init_keys(settings, roles=("auditor",))  # type: ignore[arg-type]
    assert code_of(stop) == "grants.keys.role"


# the trust file


X1, X2 = (public(seed).jwk()["x"] for seed in (21, 22))
ISSUER_TEXT = f'[[issuer]]\nurl = "https://i.example"\nkeys = ["{X1}"]\ntenants = ["acme"]\n'
AGENT_TEXT = f'[[agent]]\nid = "urn:a"\nurl = "https://a.example"\nkey = "{X2}"\n'


def load(tmp_path: Path, text: str) -> Trust:
    path = tmp_path / "trust.toml"
    path.write_text(text)
    return load_trust(path)


def test_a_key_is_pinned_as_text_or_as_a_jwk(tmp_path: Path) -> None:
    text = f'[[agent]]\nid = "urn:a"\nurl = "https://a.example"\nkey = {{kty = "OKP", crv = "Ed25519", x = "{X2}"}}\n'
    assert load(tmp_path, text).agents["urn:a"].key == load(tmp_path, AGENT_TEXT).agents["urn:a"].key


def test_no_trust_file_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(DatasetAgentError, match="keys init") as stop:
        load_trust(tmp_path / "none.toml")
    assert code_of(stop) == "grants.trust.missing"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x = 1\n", "x"),
        ("policy_versions = 7\n", "policy_versions"),
        ("[[issuer]\n", "trust.toml"),
        (ISSUER_TEXT + "colour = 1\n", "colour"),
        (ISSUER_TEXT.replace('tenants = ["acme"]', "tenants = []"), "tenants"),
        (ISSUER_TEXT.replace("https://i.example", "ftp://i.example"), "url"),
        (ISSUER_TEXT.replace("https://i.example", "https://u:p@i.example"), "url"),
        (ISSUER_TEXT.replace(X1, X1[:-1]), "keys"),
        (ISSUER_TEXT.replace(f'"{X1}"', "7"), "keys"),
        (ISSUER_TEXT * 2, "twice"),
        (AGENT_TEXT * 2, "twice"),
        (AGENT_TEXT + AGENT_TEXT.replace("urn:a", "urn:b"), "twice"),
        (ISSUER_TEXT + AGENT_TEXT.replace(X2, X1), "twice"),
        (AGENT_TEXT.replace("urn:a", ""), "id"),
        (AGENT_TEXT.replace(f'"{X2}"', f'{{kty="OKP", crv="Ed25519", x="{X2}", d="{X1}"}}'), "private"),
        ("#" * (2**20 + 1), "larger"),
    ],
)
def test_a_trust_file_is_read_strictly_and_says_where_it_is_wrong(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(DatasetAgentError, match=says) as stop:
        load(tmp_path, text)
    assert code_of(stop) == "grants.trust.invalid"
    assert "trust.toml" in stop.value.message


def test_a_key_belongs_to_whom_it_is_pinned_to(tmp_path: Path) -> None:
    trust = load(tmp_path, ISSUER_TEXT + AGENT_TEXT)
    issuer_key = trust.issuers["https://i.example"].keys[0]
    agent_key = trust.agents["urn:a"].key
    owned = trust.grant_key(issuer_key.thumbprint)
    assert owned == (trust.issuers["https://i.example"], issuer_key)
    assert trust.grant_key(agent_key.thumbprint) is None
    assert trust.agent_key(agent_key.thumbprint) == (trust.agents["urn:a"], agent_key)
    assert trust.agent_key(issuer_key.thumbprint) is None
    assert trust.issuer("https://none") is None
    assert trust.agent("none") is None
    assert isinstance(issuer_key, PublicKey)
