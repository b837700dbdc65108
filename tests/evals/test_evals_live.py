"""The eval set against the served product: every gate is met."""

from __future__ import annotations

import json

import pytest

from evals.__main__ import main

pytestmark = pytest.mark.live


def test_every_gate_is_met(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["met"] is True and told["turns"] >= 90
    assert told["metrics"]["hallucinations_v1"] is None
