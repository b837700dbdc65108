"""The whole story from one command."""

from __future__ import annotations

import pytest

from tests.dataset_agent.command_line import from_nothing

pytestmark = pytest.mark.live


def test_the_demo_fits_eighty_columns_and_ends_with_what_to_do_next() -> None:
    run = from_nothing("demo")
    assert run.code == 0, run.out
    lines = run.out.splitlines()
    assert max(len(line) for line in lines) <= 80
    assert lines[-2:] == [
        "Everything held. Next: the four doors of README.md, which begin with",
        "  dataset-agent keys init",
    ]


def test_the_demo_holds_whatever_the_settings_of_its_caller_are() -> None:
    run = from_nothing("demo", "--json", HOME="/no/such/home", AGENT_ID="urn:somebody:else", URL="http://127.0.0.1:1")
    assert run.code == 0, run.err
    assert run.err == ""
    assert run.json["ok"] is True
    outcomes = [step["outcome"] for step in run.json["steps"]]
    assert [word in outcome for word, outcome in zip(("MISS", "HIT", "HIT", "MISS"), outcomes[1:5], strict=True)] == [
        True
    ] * 4
    assert outcomes[5].startswith("REFUSED INSUFFICIENT_PRIVILEGE by ")
    assert outcomes[6] == "REFUSED GRANT_SIGNATURE_INVALID"
    assert outcomes[7].startswith("INDETERMINATE EVALUATOR_UNAVAILABLE")
    assert outcomes[-1].startswith("named: row 1 was changed")
