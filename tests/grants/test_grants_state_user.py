"""Who serves as one user does not make files in the home as another, which would shut that one out."""

from __future__ import annotations

from pathlib import Path

import pytest

from contract.errors import DatasetAgentError
from grants import state
from grants.state import check_user


def test_files_of_another_user_are_a_fault_that_names_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_user(tmp_path)
    monkeypatch.setattr(state, "of_another_user", lambda *_: (tmp_path / "state.sqlite", 4711))
    with pytest.raises(DatasetAgentError, match="belongs to user 4711") as refused:
        check_user(tmp_path)
    assert refused.value.code == "grants.state.user"
