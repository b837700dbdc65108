"""No command leaves keys or a trust file that do not work: what is refused has changed nothing, and one works at a time."""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from contract.errors import DatasetAgentError
from contract.settings import Settings
from grants.key_files import FileSigner
from grants.key_store import KeyName, KeyStore
from grants.keys import init_keys
from grants.rotation import AHEAD, RETIRE_AFTER, accepted_keys, retire, stage, switch
from grants.signers import open_signer
from grants.trust import MAX_KEYS, load_trust
from grants.trust_editor import edit_trust
from tests.grants.grants_world import NOW, public, signer

EVERY = pytest.mark.parametrize("name", list(KeyName))
AGENTS = pytest.mark.parametrize("name", [KeyName.ROOT, KeyName.REMOTE])


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home")


def jwk(seed: int) -> str:
    return json.dumps(signer(seed)._private_jwk())


def given(settings: Settings, **seeds: int) -> Settings:
    return Settings(home=settings.home, **{f"{name}_jwk": jwk(seed) for name, seed in seeds.items()})


def files(settings: Settings) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in settings.home.rglob("*") if path.is_file() and path.suffix != ".lock"}


def refused(settings: Settings, work: Callable[[], object]) -> DatasetAgentError:
    """The fault by which ``work`` was refused, after which everything is as before."""
    before = files(settings)
    with pytest.raises(DatasetAgentError) as stop:
        work()
    assert files(settings) == before
    assert "\n" not in stop.value.message
    return stop.value


def accepted(settings: Settings, name: KeyName) -> list[str]:
    return [key.thumbprint for key in accepted_keys(settings, name, load_trust(settings.trust_path))]


def signs(settings: Settings, name: KeyName) -> str:
    return open_signer(settings, name).public_key.thumbprint


# what would not load


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("pair", [("root", "remote"), ("issuer", "remote"), ("issuer", "identity")])
def test_one_key_for_two_roles_is_refused(settings: Settings, pair: tuple[str, str], force: bool) -> None:
    same = given(settings, **dict.fromkeys(pair, 31))
    fault = refused(settings, lambda: init_keys(same, force=force))
    assert (fault.code, "make another one" in fault.message) == ("grants.trust.conflict", True)
    assert not settings.trust_path.exists()


@pytest.mark.parametrize("force", [False, True])
def test_another_agents_key_is_refused(settings: Settings, force: bool) -> None:
    init_keys(settings)
    taken = Settings(
        home=settings.home, remote_jwk=json.dumps(FileSigner.load(settings.root_dir / "holder.jwk")._private_jwk())
    )
    (settings.remote_dir / "agent.jwk").unlink()
    assert refused(settings, lambda: init_keys(taken, force=force, roles=("remote",))).code == "grants.trust.conflict"


@pytest.mark.parametrize("name", [KeyName.ISSUER, KeyName.IDENTITY])
def test_a_key_too_many_is_refused_by_every_command(settings: Settings, name: KeyName) -> None:
    init_keys(settings)
    for _ in range(MAX_KEYS - 1):
        KeyStore.of(settings, name).current.unlink()
        init_keys(settings)
    KeyStore.of(settings, name).current.unlink()
    assert "retire one first" in refused(settings, lambda: init_keys(settings)).message
    assert "retire one first" in refused(settings, lambda: stage(settings, name, now=NOW)).message
    assert "retire one first" in refused(settings, lambda: switch(settings, name, now=NOW, at_once=True)).message
    assert len(accepted(settings, name)) == MAX_KEYS


def test_a_key_that_cannot_be_staged_leaves_no_private_half(settings: Settings) -> None:
    init_keys(settings)
    with edit_trust(settings.trust_path) as trust:
        for seed in range(40, 40 + MAX_KEYS):
            trust.stage_agent_key(settings.agent_id, public(seed))
    assert refused(settings, lambda: stage(settings, KeyName.REMOTE, now=NOW)).code == "grants.trust.agent"


def test_a_trust_file_that_would_not_load_is_not_written(settings: Settings) -> None:
    init_keys(settings)

    def spoil() -> None:
        with edit_trust(settings.trust_path) as trust:
            trust._put_agent(trust.trust.agents[settings.agent_id].__class__("urn:x", "no address", public(50)))
            trust.before.add(lambda: settings.trust_path.with_name("never").touch())

    fault = refused(settings, spoil)
    assert (fault.code, "nothing was changed" in fault.message) == ("grants.trust.refused", True)


def test_a_file_of_a_key_that_is_somebody_elses_business_stops_the_whole_run(settings: Settings) -> None:
    settings.root_dir.mkdir(parents=True)
    (settings.root_dir / "something").touch()
    settings.root_dir.chmod(0o755)
    refused(settings, lambda: init_keys(settings))


# links


def test_a_linked_trust_file_is_changed_where_it_is(settings: Settings, tmp_path: Path) -> None:
    init_keys(settings)
    shared = tmp_path / "shared" / "trust.toml"
    shared.parent.mkdir()
    settings.trust_path.rename(shared)
    settings.trust_path.symlink_to(shared)
    key = switch(settings, KeyName.ROOT, now=NOW, at_once=True)
    assert settings.trust_path.is_symlink()
    assert load_trust(shared).agents[settings.root_id].key == key
    init_keys(settings, force=True)
    assert settings.trust_path.is_symlink()
    assert load_trust(shared).agents[settings.root_id].key.thumbprint == signs(settings, KeyName.ROOT)


@pytest.mark.parametrize("to", ["nowhere/trust.toml", "trust.toml"], ids=["no folder", "itself"])
def test_a_link_that_leads_nowhere_is_refused(settings: Settings, to: str) -> None:
    settings.home.mkdir()
    settings.trust_path.symlink_to(settings.home / to)
    assert refused(settings, lambda: init_keys(settings)).code == "grants.trust.unwritable"


def test_a_home_that_cannot_be_made_is_told_with_the_setting_that_names_it() -> None:
    nowhere = Settings(home=Path("/proc/nobody/home"))  # where not even root makes a folder
    with pytest.raises(DatasetAgentError, match="cannot be written: .*; run this .* or correct DATASET_AGENT_HOME$"):
        init_keys(nowhere)


# revoked


@EVERY
def test_a_key_retired_by_force_is_revoked_and_one_that_has_ended_is_not(settings: Settings, name: KeyName) -> None:
    init_keys(settings)
    first, second = signs(settings, name), switch(settings, name, now=NOW, at_once=True).thumbprint
    switch(settings, name, now=NOW + 1, at_once=True)
    retire(settings, name, first, now=NOW + RETIRE_AFTER[name])
    assert load_trust(settings.trust_path).revoked_keys == frozenset()
    retire(settings, name, second, now=NOW + 2, force=True)
    assert load_trust(settings.trust_path).revoked_keys == {second}
    retire(settings, name, second, now=NOW + 3, force=True)
    assert load_trust(settings.trust_path).revoked_keys == {second}


def test_a_key_that_is_only_published_is_revoked_by_its_thumbprint(settings: Settings) -> None:
    init_keys(settings)
    kid = public(60).thumbprint
    refused(settings, lambda: retire(settings, KeyName.ISSUER, kid, now=NOW))
    retire(settings, KeyName.ISSUER, kid, now=NOW, force=True)
    assert load_trust(settings.trust_path).revoked_keys == {kid}


@pytest.mark.parametrize("kid", ["x", "../../" + "A" * 37, "A" * 44])
def test_what_is_no_thumbprint_is_not_revoked(settings: Settings, kid: str) -> None:
    init_keys(settings)
    assert (
        refused(settings, lambda: retire(settings, KeyName.ROOT, kid, now=NOW, force=True)).code == "grants.trust.kid"
    )


def test_anothers_key_is_not_revoked_by_a_slip(settings: Settings) -> None:
    init_keys(settings)
    kid = signs(settings, KeyName.REMOTE)
    fault = refused(settings, lambda: retire(settings, KeyName.ROOT, kid, now=NOW, force=True))
    assert fault.code == "grants.trust.conflict"


def test_force_revokes_every_key_it_replaces_and_none_that_stays(settings: Settings) -> None:
    init_keys(settings)
    old = {name: signs(settings, name) for name in KeyName}
    staged = stage(settings, KeyName.ROOT, now=NOW).thumbprint
    outside = given(settings, remote=31)
    stage(outside, KeyName.REMOTE, now=NOW)
    init_keys(outside, force=True)
    assert load_trust(settings.trust_path).revoked_keys == {*old.values(), staged}
    assert accepted(outside, KeyName.REMOTE) == [signer(31).public_key.thumbprint]


@AGENTS
def test_a_revoked_key_does_not_come_back(settings: Settings, name: KeyName) -> None:
    old, new = given(settings, **{name: 31}), given(settings, **{name: 32})
    init_keys(old)
    switch(new, name, now=NOW, at_once=True)
    retire(new, name, signer(31).public_key.thumbprint, now=NOW, force=True)
    for work in (
        lambda: stage(old, name, now=NOW + 1),
        lambda: switch(old, name, now=NOW + 1, at_once=True),
        lambda: init_keys(old),
        lambda: init_keys(old, force=True),
    ):
        assert refused(settings, work).code == "grants.trust.revoked"


@EVERY
def test_a_staged_key_that_was_revoked_by_hand_never_signs(settings: Settings, name: KeyName) -> None:
    init_keys(settings)
    staged = stage(settings, name, now=NOW)
    settings.trust_path.write_text(f'revoked_keys = ["{staged.thumbprint}"]\n' + settings.trust_path.read_text())
    assert refused(settings, lambda: switch(settings, name, now=NOW + AHEAD)).code == "grants.trust.revoked"
    retire(settings, name, staged.thumbprint, now=NOW, force=True)
    assert switch(settings, name, now=NOW, at_once=True) != staged


# overlap


@AGENTS
def test_a_key_that_is_published_again_waits_again(settings: Settings, name: KeyName) -> None:
    old, new = given(settings, **{name: 31}), given(settings, **{name: 32})
    init_keys(old)
    retire(new, name, stage(new, name, now=NOW).thumbprint, now=NOW + 1)
    stage(new, name, now=NOW + 10 * AHEAD)
    with pytest.raises(DatasetAgentError, match="1 s left"):
        switch(new, name, now=NOW + 11 * AHEAD - 1)
    switch(new, name, now=NOW + 11 * AHEAD)


@EVERY
def test_a_key_that_signed_again_is_retired_after_the_last_time(settings: Settings, name: KeyName) -> None:
    a, b = given(settings, **{name: 31}), given(settings, **{name: 32})
    init_keys(a)
    kid, later = signer(31).public_key.thumbprint, NOW + 10 * RETIRE_AFTER[name]
    stage(b, name, now=NOW)
    for who, now in ((b, NOW + AHEAD), (a, NOW + 2 * AHEAD), (b, later)):
        switch(who, name, now=now, at_once=True)
    with pytest.raises(DatasetAgentError, match="1 s left"):
        retire(b, name, kid, now=later + RETIRE_AFTER[name] - 1)
    retire(b, name, kid, now=later + RETIRE_AFTER[name])


# crashes


class Crash(BaseException):
    """The process ends here."""


class Crashing:
    """The ``step``-th change of a file, counted from nought, is where the process ends."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left: int | None = None
        for name in ("replace", "link", "unlink", "fsync"):
            monkeypatch.setattr(os, name, self._counted(getattr(os, name)))

    def _counted(self, real: Callable[..., object]) -> Callable[..., object]:
        def change(*arguments: object, **options: object) -> object:
            if self.left is not None:
                if self.left == 0:
                    raise Crash
                self.left -= 1
            return real(*arguments, **options)

        return change

    def at(self, step: int, work: Callable[[], object]) -> bool:
        """Whether ``work`` got to its end before."""
        self.left = step
        try:
            work()
        except Crash:
            return False
        finally:
            self.left = None
        return True


def crash_everywhere(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    prepare: Callable[[Settings], object],
    work: Callable[[Settings], object],
) -> list[Settings]:
    """Homes in which ``work`` was ended at each of its steps and then repeated."""
    crashing, homes, done = Crashing(monkeypatch), [], False
    while not done:
        settings = Settings(home=tmp_path / str(len(homes)))
        prepare(settings)
        done = crashing.at(len(homes), lambda settings=settings: work(settings))  # type: ignore[misc]
        if not done:
            work(settings)
        homes.append(settings)
    assert len(homes) > 3
    return homes


@EVERY
def test_a_switch_may_be_repeated_wherever_it_was_interrupted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: KeyName
) -> None:
    old: dict[Path, str] = {}

    def prepare(settings: Settings) -> None:
        init_keys(settings)
        old[settings.home] = signs(settings, name)
        stage(settings, name, now=NOW)

    homes = crash_everywhere(monkeypatch, tmp_path, prepare, lambda made: switch(made, name, now=NOW + AHEAD))
    for settings in homes:
        kid = old[settings.home]
        assert signs(settings, name) != kid
        assert set(accepted(settings, name)) == {kid, signs(settings, name)}
        assert KeyStore.of(settings, name).dates(kid).replaced_at == NOW + AHEAD
        with pytest.raises(DatasetAgentError) as stop:
            switch(settings, name, now=NOW + 2 * AHEAD)
        assert stop.value.code == "grants.keys.not_staged"


@pytest.mark.parametrize("name", [KeyName.ISSUER, KeyName.REMOTE])
@pytest.mark.parametrize("force", [False, True])
def test_keys_may_be_made_and_staged_and_retired_again_wherever_it_was_interrupted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: KeyName, force: bool
) -> None:
    def work(settings: Settings) -> None:
        init_keys(settings)
        if KeyStore.of(settings, name).dates(signs(settings, name)).replaced_at is None:
            stage(settings, name, now=NOW)
        for kid in accepted(settings, name)[1:]:
            retire(settings, name, kid, now=NOW, force=force)

    for settings in crash_everywhere(monkeypatch, tmp_path, lambda made: None, work):
        assert accepted(settings, name) == [signs(settings, name)]


def test_what_init_by_force_replaces_is_in_step_wherever_it_was_interrupted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def work(settings: Settings) -> None:
        init_keys(settings, force=True)

    for settings in crash_everywhere(monkeypatch, tmp_path, init_keys, work):
        assert all(accepted(settings, name) == [signs(settings, name)] for name in KeyName)


# at the same time


def _at_once(*works: Callable[[], object]) -> None:
    """Each in a process of its own; a refusal is an end as well."""

    def run(work: Callable[[], object]) -> None:
        try:
            work()
        except DatasetAgentError:
            os._exit(3)
        os._exit(0)

    fork = multiprocessing.get_context("fork")
    processes = [fork.Process(target=run, args=(work,)) for work in works]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode in (0, 3)


@pytest.mark.parametrize("other", ["force", "rotate", "init"])
def test_whoever_changes_keys_at_the_same_time_leaves_the_key_that_signs_pinned(settings: Settings, other: str) -> None:
    works: dict[str, Callable[[], object]] = {
        "force": lambda: init_keys(settings, force=True, roles=("remote",)),
        "rotate": lambda: switch(settings, KeyName.REMOTE, now=NOW, at_once=True),
        "init": lambda: init_keys(settings),
    }
    init_keys(settings)
    for _ in range(4):
        _at_once(works["force"], works[other])
        assert signs(settings, KeyName.REMOTE) in accepted(settings, KeyName.REMOTE)


def test_two_who_make_the_first_keys_make_one_set(tmp_path: Path) -> None:
    for number in range(4):
        settings = Settings(home=tmp_path / str(number))
        _at_once(lambda made=settings: init_keys(made), lambda made=settings: init_keys(made))  # type: ignore[misc]
        assert all(accepted(settings, name) == [signs(settings, name)] for name in KeyName)
