"""Changing a key: stage, switch, retire, each with its guard, for every role; and keys that are not in a file."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from contract.errors import Category, DatasetAgentError
from contract.settings import Settings
from contract.signing import PublicKey
from grants.key_files import FileSigner, LocalSigner
from grants.key_store import KeyName, KeyStore
from grants.keys import init_keys
from grants.rotation import AHEAD, RETIRE_AFTER, accepted_keys, retire, stage, switch
from grants.signers import open_signer
from grants.trust import Trust, load_trust
from tests.grants.grants_world import NOW, signer

EVERY = pytest.mark.parametrize("name", list(KeyName))
AGENTS = pytest.mark.parametrize("name", [KeyName.ROOT, KeyName.REMOTE])


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    made = Settings(home=tmp_path / "home")
    init_keys(made)
    return made


def trust_of(settings: Settings) -> Trust:
    return load_trust(settings.trust_path)


def accepted(settings: Settings, name: KeyName) -> list[str]:
    return [key.thumbprint for key in accepted_keys(settings, name, trust_of(settings))]


def signs(settings: Settings, name: KeyName) -> str:
    return open_signer(settings, name).public_key.thumbprint


def refused(stop: pytest.ExceptionInfo[DatasetAgentError]) -> str:
    assert stop.value.category is Category.CONFIGURATION
    assert "\n" not in stop.value.message
    return stop.value.code.removeprefix("grants.keys.")


@EVERY
def test_a_staged_key_is_published_and_does_not_sign(settings: Settings, name: KeyName) -> None:
    before = signs(settings, name)
    staged = stage(settings, name, now=NOW)
    assert stage(settings, name, now=NOW + 9) == staged
    assert accepted(settings, name) == [before, staged.thumbprint]
    assert signs(settings, name) == before
    assert KeyStore.of(settings, name).dates(staged.thumbprint).published_at == NOW


@EVERY
def test_a_key_signs_only_after_everybody_could_read_it(settings: Settings, name: KeyName) -> None:
    before = signs(settings, name)
    with pytest.raises(DatasetAgentError, match="--stage") as stop:
        switch(settings, name, now=NOW)
    assert refused(stop) == "not_staged"
    staged = stage(settings, name, now=NOW)
    with pytest.raises(DatasetAgentError, match="1 s left") as stop:
        switch(settings, name, now=NOW + AHEAD - 1)
    assert refused(stop) == "too_early"
    assert signs(settings, name) == before
    assert switch(settings, name, now=NOW + AHEAD) == staged
    assert signs(settings, name) == staged.thumbprint
    assert set(accepted(settings, name)) == {before, staged.thumbprint}


@EVERY
def test_in_haste_a_key_is_made_published_and_signs_in_one_step(settings: Settings, name: KeyName) -> None:
    before = signs(settings, name)
    key = switch(settings, name, now=NOW, at_once=True)
    assert signs(settings, name) == key.thumbprint != before
    assert set(accepted(settings, name)) == {before, key.thumbprint}


@AGENTS
def test_the_key_that_signs_is_the_one_that_grants_for_the_agent_name(settings: Settings, name: KeyName) -> None:
    agent_id = settings.root_id if name is KeyName.ROOT else settings.agent_id
    before = trust_of(settings).agents[agent_id].key
    key = switch(settings, name, now=NOW, at_once=True)
    entry = trust_of(settings).agents[agent_id]
    assert (entry.key, entry.further_keys, entry.retired_keys) == (key, (before,), ())


@EVERY
def test_a_replaced_key_stays_in_hand_until_it_is_retired(settings: Settings, name: KeyName) -> None:
    before = open_signer(settings, name).public_key
    key = switch(settings, name, now=NOW, at_once=True)
    assert open_signer(settings, name).holding(before) is not None
    with pytest.raises(DatasetAgentError, match="1 s left") as stop:
        retire(settings, name, before.thumbprint, now=NOW + RETIRE_AFTER[name] - 1)
    assert refused(stop) == "too_early"
    retire(settings, name, before.thumbprint, now=NOW + RETIRE_AFTER[name])
    assert accepted(settings, name) == [key.thumbprint]
    assert open_signer(settings, name).holding(before) is None
    with pytest.raises(DatasetAgentError, match="keys list") as stop:
        retire(settings, name, before.thumbprint, now=NOW + 2 * RETIRE_AFTER[name])
    assert (stop.value.code, stop.value.category) == ("grants.keys.unknown", Category.NOT_FOUND)


@EVERY
def test_the_key_that_signs_is_never_retired(settings: Settings, name: KeyName) -> None:
    with pytest.raises(DatasetAgentError, match="keys rotate") as stop:
        retire(settings, name, signs(settings, name), now=NOW, force=True)
    assert refused(stop) == "in_use"


@EVERY
def test_a_key_that_somebody_may_have_is_retired_at_once(settings: Settings, name: KeyName) -> None:
    before = signs(settings, name)
    key = switch(settings, name, now=NOW, at_once=True)
    retire(settings, name, before, now=NOW, force=True)
    assert accepted(settings, name) == [key.thumbprint]
    files = [path for path in KeyStore.of(settings, name).folder.glob("*.jwk") if "identity" not in path.name]
    assert all(FileSigner.load(path).public_key.thumbprint != before for path in files)


@AGENTS
def test_a_retired_key_of_an_agent_still_verifies_what_is_kept(settings: Settings, name: KeyName) -> None:
    before = open_signer(settings, name).public_key
    switch(settings, name, now=NOW, at_once=True)
    retire(settings, name, before.thumbprint, now=NOW, force=True)
    agent_id = settings.root_id if name is KeyName.ROOT else settings.agent_id
    assert trust_of(settings).agents[agent_id].retired_keys == (before,)


@EVERY
def test_a_staged_key_that_is_not_wanted_is_taken_back(settings: Settings, name: KeyName) -> None:
    before = signs(settings, name)
    staged = stage(settings, name, now=NOW)
    retire(settings, name, staged.thumbprint, now=NOW)
    assert accepted(settings, name) == [before]
    assert not KeyStore.of(settings, name).staged.exists()
    assert all(agent.retired_keys == () for agent in trust_of(settings).agents.values())


@EVERY
def test_a_key_of_which_nobody_wrote_down_when_is_not_hurried(settings: Settings, name: KeyName) -> None:
    before = signs(settings, name)
    stage(settings, name, now=NOW)
    store = KeyStore.of(settings, name)
    (store.folder / "history.json").unlink()
    with pytest.raises(DatasetAgentError, match="not known"):
        switch(settings, name, now=NOW + 10 * AHEAD)
    switch(settings, name, now=NOW, at_once=True)
    (store.folder / "history.json").unlink()
    with pytest.raises(DatasetAgentError, match="not known"):
        retire(settings, name, before, now=NOW + 10 * RETIRE_AFTER[name])


@AGENTS
def test_a_switch_that_was_interrupted_is_finished_by_the_next_one(settings: Settings, name: KeyName) -> None:
    staged = stage(settings, name, now=NOW)
    kept = settings.trust_path.read_bytes()
    switch(settings, name, now=NOW + AHEAD)
    settings.trust_path.write_bytes(kept)  # as after a crash between the two files
    assert signs(settings, name) == staged.thumbprint
    assert switch(settings, name, now=NOW + AHEAD) == staged
    agent_id = settings.root_id if name is KeyName.ROOT else settings.agent_id
    assert trust_of(settings).agents[agent_id].key == staged


def test_keys_init_in_the_middle_of_a_change_changes_nothing(settings: Settings) -> None:
    for name in KeyName:
        stage(settings, name, now=NOW)
    switch(settings, KeyName.ROOT, now=NOW, at_once=True)
    before = {path: path.read_bytes() for path in settings.home.rglob("*") if path.is_file()}
    init_keys(settings)
    assert {path: path.read_bytes() for path in settings.home.rglob("*") if path.is_file()} == before


def test_keys_init_by_force_leaves_no_private_half_behind(settings: Settings) -> None:
    for name in KeyName:
        switch(settings, name, now=NOW, at_once=True)
        stage(settings, name, now=NOW)
    before = {FileSigner.load(path).public_key for path in settings.home.rglob("*.jwk")}
    init_keys(settings, force=True)
    after = {FileSigner.load(path).public_key for path in settings.home.rglob("*.jwk")}
    assert (len(after), before & after) == (4, set())
    assert all(len(accepted(settings, name)) == 1 for name in KeyName)


def test_a_history_that_does_not_read_is_named(settings: Settings) -> None:
    history = settings.root_dir / "history.json"
    history.write_text("[1]")
    history.chmod(0o600)
    with pytest.raises(DatasetAgentError, match="history.json"):
        stage(settings, KeyName.ROOT, now=NOW)


# keys that are not in a file


def jwk_text(seed: int) -> str:
    return json.dumps(signer(seed)._private_jwk())


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    return tmp_path / "bare"


@EVERY
def test_a_key_may_come_from_the_environment(bare: Path, name: KeyName) -> None:
    settings = Settings(home=bare, **{f"{name}_jwk": jwk_text(31)})
    ring = open_signer(settings, name)
    assert ring.public_key == signer(31).public_key
    assert ring.public_key.verifies(ring.sign(b"m"), b"m")
    assert not ring.waits


@EVERY
def test_a_key_of_the_environment_is_shown_nowhere(bare: Path, name: KeyName) -> None:
    settings = Settings(home=bare, **{f"{name}_jwk": jwk_text(31)})
    secret = json.loads(jwk_text(31))["d"]
    shown = [repr(settings), str(settings.model_dump()), settings.model_dump_json(), repr(open_signer(settings, name))]
    with pytest.raises(DatasetAgentError) as stop:
        open_signer(Settings(home=bare, **{f"{name}_jwk": jwk_text(31).replace("OKP", "EC")}), name)
    assert refused(stop) == "invalid"
    assert f"DATASET_AGENT_{name.upper()}_JWK" in stop.value.message
    chain = [stop.value, stop.value.__cause__, stop.value.__context__]
    assert not any(secret in text for text in [*shown, *map(repr, chain)])


def test_the_variables_are_named_as_they_are_documented(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATASET_AGENT_REMOTE_JWK", jwk_text(31))
    assert signs(Settings(home=bare), KeyName.REMOTE) == signer(31).public_key.thumbprint


@EVERY
def test_a_key_has_one_source(settings: Settings, name: KeyName) -> None:
    both = Settings(home=settings.home, **{f"{name}_jwk": jwk_text(31)})
    with pytest.raises(DatasetAgentError, match="drop one") as stop:
        open_signer(both, name)
    assert refused(stop) == "two_sources"
    with pytest.raises(DatasetAgentError, match="unset one") as stop:
        open_signer(Settings(home=settings.home, **{f"{name}_jwk": jwk_text(31), f"{name}_signer": "m:f"}), name)
    assert refused(stop) == "two_sources"


def test_keys_init_pins_what_the_environment_gives_and_makes_no_file_for_it(bare: Path) -> None:
    settings = Settings(home=bare, issuer_jwk=jwk_text(31), remote_jwk=jwk_text(32))
    report = init_keys(settings)
    assert report.outside == {
        "DATASET_AGENT_ISSUER_JWK": signer(31).public_key.thumbprint,
        "DATASET_AGENT_REMOTE_JWK": signer(32).public_key.thumbprint,
    }
    assert {path.name for path in report.created} == {"identity.jwk", "holder.jwk", "cache.secret"}
    assert accepted(settings, KeyName.ISSUER) == [signer(31).public_key.thumbprint]
    assert accepted(settings, KeyName.REMOTE) == [signer(32).public_key.thumbprint]


@AGENTS
def test_a_file_is_replaced_by_a_key_of_the_environment_with_overlap(settings: Settings, name: KeyName) -> None:
    before = open_signer(settings, name).public_key
    coming = Settings(home=settings.home, **{f"{name}_jwk": jwk_text(31)})
    assert stage(coming, name, now=NOW) == signer(31).public_key
    assert signs(settings, name) == before.thumbprint
    switch(coming, name, now=NOW + AHEAD)
    ring = open_signer(coming, name)
    assert ring.public_key == signer(31).public_key
    assert ring.holding(before) is not None
    assert accepted(settings, name) == [signer(31).public_key.thumbprint, before.thumbprint]
    retire(coming, name, before.thumbprint, now=NOW + AHEAD + RETIRE_AFTER[name])
    assert accepted(settings, name) == [signer(31).public_key.thumbprint]


@AGENTS
def test_a_key_of_the_environment_is_replaced_by_another_with_overlap(bare: Path, name: KeyName) -> None:
    old, new = (Settings(home=bare, **{f"{name}_jwk": jwk_text(seed)}) for seed in (31, 32))
    init_keys(old)
    with pytest.raises(DatasetAgentError, match="set the next one") as stop:
        stage(old, name, now=NOW)
    assert refused(stop) == "in_use"
    stage(new, name, now=NOW)
    assert switch(new, name, now=NOW + AHEAD) == signer(32).public_key
    retire(new, name, signer(31).public_key.thumbprint, now=NOW + AHEAD + RETIRE_AFTER[name])
    assert accepted(new, name) == [signer(32).public_key.thumbprint]


# signers that other code makes


class Elsewhere(ModuleType):
    """A module as an operator installs it; ``factory`` makes a signer that does what a test wants."""

    def __init__(self, made: object) -> None:
        super().__init__("elsewhere_kms")
        self.made = made
        self.asked: list[tuple[str, str]] = []

    def factory(self, settings: Settings, name: str) -> object:
        self.asked.append((settings.agent_id, name))
        if isinstance(self.made, Exception):
            raise self.made
        return self.made


class Broken:
    def __init__(self, key: PublicKey, answer: object) -> None:
        self.public_key = key
        self.answer = answer

    def sign(self, message: bytes) -> object:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def with_signer(bare: Path, monkeypatch: pytest.MonkeyPatch, made: object) -> tuple[Settings, Elsewhere]:
    module = Elsewhere(made)
    monkeypatch.setitem(sys.modules, "elsewhere_kms", module)
    return Settings(home=bare, remote_signer="elsewhere_kms:factory"), module


def test_a_signer_is_made_by_the_code_that_the_setting_names(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings, module = with_signer(bare, monkeypatch, signer(33))
    ring = open_signer(settings, KeyName.REMOTE)
    assert module.asked == [(settings.agent_id, "remote")]
    assert ring.waits
    assert signer(33).public_key.verifies(ring.sign(b"m"), b"m")
    assert init_keys(settings).outside == {"DATASET_AGENT_REMOTE_SIGNER": signer(33).public_key.thumbprint}


@pytest.mark.parametrize(
    "answer",
    [TimeoutError("secret"), ConnectionRefusedError("secret"), ValueError("secret"), b"", b"\x00" * 64, None, "text",
     signer(34).sign(b"m")],
    ids=["late", "gone", "fault", "nothing", "zeros", "none", "text", "another key's"],
)  # fmt: skip
def test_a_signer_that_has_no_signature_is_unavailable_and_not_quoted(
    bare: Path, monkeypatch: pytest.MonkeyPatch, answer: object
) -> None:
    settings, _ = with_signer(bare, monkeypatch, Broken(signer(33).public_key, answer))
    ring = open_signer(settings, KeyName.REMOTE)
    with pytest.raises(DatasetAgentError) as stop:
        ring.sign(b"m")
    assert (stop.value.category, stop.value.code) == (Category.UNAVAILABLE, "grants.signer.unavailable")
    assert "secret" not in repr(stop.value) + repr(stop.value.__cause__)


@pytest.mark.parametrize(
    "made",
    [None, "text", RuntimeError("secret"), object(), Broken("no key", b"")],
    ids=lambda made: type(made).__name__,  # type: ignore[arg-type]
)
def test_a_factory_that_makes_no_signer_is_named(bare: Path, monkeypatch: pytest.MonkeyPatch, made: object) -> None:
    settings, _ = with_signer(bare, monkeypatch, made)
    with pytest.raises(DatasetAgentError, match="DATASET_AGENT_REMOTE_SIGNER names elsewhere_kms:factory") as stop:
        open_signer(settings, KeyName.REMOTE)
    assert refused(stop) == "signer"
    assert "secret" not in stop.value.message


@pytest.mark.parametrize("name", ["no_such_module:factory", "json:no_such_name"])
def test_code_that_is_not_there_is_named(bare: Path, name: str) -> None:
    with pytest.raises(DatasetAgentError, match=name):
        open_signer(Settings(home=bare, remote_signer=name), KeyName.REMOTE)


@pytest.mark.parametrize("name", ["os", "os.path", ":f", "m:", "m:f()", "m:f.g", "a b:c", "m:f:g", "../m:f"])
def test_what_names_no_function_of_a_module_is_no_setting(bare: Path, name: str) -> None:
    with pytest.raises(ValueError, match="remote_signer"):
        Settings(home=bare, remote_signer=name)


def test_a_private_jwk_in_memory_prints_no_secret() -> None:
    made = LocalSigner.of_jwk(jwk_text(31).encode(), "here")
    assert json.loads(jwk_text(31))["d"] not in repr(made)
