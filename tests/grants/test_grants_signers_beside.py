"""Code that makes a signer is somebody else's: a reload waits for it beside the event loop, and not for ever."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from contract.errors import DatasetAgentError
from contract.settings import Settings
from grants.key_store import KeyName
from grants.signers import open_signer, reopen
from tests.grants.grants_world import signer


class Elsewhere(ModuleType):
    """A module as an operator installs it; its factory does what a test wants."""

    def __init__(self, make: Callable[[], object]) -> None:
        super().__init__("elsewhere_hsm")
        self.make = make

    def factory(self, settings: Settings, name: str) -> object:
        return self.make()


class Raises:
    """A signer whose ``sign`` ends by ``fault``."""

    def __init__(self, fault: BaseException) -> None:
        self.public_key = signer(33).public_key
        self.fault = fault

    def sign(self, message: bytes) -> bytes:
        raise self.fault


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Elsewhere:
    module = Elsewhere(lambda: signer(33))
    monkeypatch.setitem(sys.modules, "elsewhere_hsm", module)
    return module


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path, remote_signer="elsewhere_hsm:factory")


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Shut while a test runs; open when it ends, so that no thread stays."""
    made = threading.Event()
    yield made
    made.set()


async def test_the_event_loop_goes_on_while_a_signer_is_made(
    elsewhere: Elsewhere, settings: Settings, gate: threading.Event
) -> None:
    elsewhere.make = lambda: (gate.wait(), signer(33))[1]
    opening = asyncio.ensure_future(reopen(settings, KeyName.REMOTE))
    for _ in range(10):
        await asyncio.sleep(0)
    assert not opening.done()
    gate.set()
    (ring,) = await opening
    assert ring.public_key == signer(33).public_key


async def test_a_signer_that_is_never_made_is_not_waited_for_for_ever(
    elsewhere: Elsewhere, settings: Settings, gate: threading.Event
) -> None:
    elsewhere.make = lambda: (gate.wait(), signer(33))[1]
    with pytest.raises(DatasetAgentError, match="remote") as stop:
        await reopen(settings, KeyName.REMOTE, patience=0.05)
    assert stop.value.code == "grants.signer.unavailable"


@pytest.mark.parametrize(
    "fault", [RuntimeError("secret"), SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError()]
)
async def test_whatever_is_raised_there_ends_nothing_here(
    elsewhere: Elsewhere, settings: Settings, fault: BaseException
) -> None:
    def fails() -> object:
        raise fault

    elsewhere.make = fails
    with pytest.raises(DatasetAgentError) as stop:
        await reopen(settings, KeyName.REMOTE)
    assert (stop.value.code, "secret" in stop.value.message) == ("grants.keys.signer", False)
    elsewhere.make = lambda: Raises(fault)
    (ring,) = await reopen(settings, KeyName.REMOTE)
    with pytest.raises(DatasetAgentError) as stop:
        await asyncio.to_thread(ring.sign, b"m")
    assert stop.value.code == "grants.signer.unavailable"


def test_ctrl_c_still_ends_a_command(elsewhere: Elsewhere, settings: Settings) -> None:
    elsewhere.make = lambda: Raises(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        open_signer(settings, KeyName.REMOTE).sign(b"m")
