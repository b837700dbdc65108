"""That one identifier is not another is seen before anything runs: the type checker refuses what is swapped."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

pytestmark = pytest.mark.live
ROOT: Final = Path(__file__).resolve().parents[2]
PROGRAM: Final = """\
from contract.identity import AdkIdentity
from contract.ids import AppName, SessionId, UserId

def swapped(app: AppName, user: UserId, session: SessionId) -> None:
    AdkIdentity(app, user, session)
    AdkIdentity(app, session, session)
    AdkIdentity(app, user, user)
    AdkIdentity(user, user, session)
    AdkIdentity(app, user, "s")
"""


def test_an_identifier_of_another_kind_is_no_argument(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    nothing = os.devnull
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", nothing, "--cache-dir", nothing, "program.py"]
    environment = {**os.environ, "MYPYPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
    told = re.findall(r'^program\.py:(\d+): .* type "(\w+)"; expected "(\w+)"', done.stdout, re.MULTILINE)
    assert told == [
        ("6", "SessionId", "UserId"),
        ("7", "UserId", "SessionId"),
        ("8", "UserId", "AppName"),
        ("9", "str", "SessionId"),
    ]
