"""The console script: what ends while the command is still imported ends as the command says that it does."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest

from dataset_agent.script import main


class Interrupting:
    """Finds the command as Ctrl-C would: the import of it does not end."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name == "dataset_agent.cli":
            raise KeyboardInterrupt
        return None


def test_ctrl_c_while_the_command_is_imported_is_130(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "dataset_agent.cli", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Interrupting(), *sys.meta_path])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 130
    assert capfd.readouterr() == ("", "")


def test_otherwise_it_is_the_command(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["dataset-agent", "frobnicate"])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    assert capfd.readouterr().err.startswith("error: No such command 'frobnicate'")
