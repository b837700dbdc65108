"""The public kit against the served product, and one of its faults that it must notice, as `make conformance` runs them."""

from __future__ import annotations

from pathlib import Path

import pytest

from conformance.__main__ import run
from conformance.faults import BY_NAME
from conformance.kit import ROOT, installed
from conformance.mutants import judged
from mutants.copies import Copy

pytestmark = pytest.mark.live


def test_every_assertion_of_the_kit_holds_of_the_served_product() -> None:
    done = run()
    assert [finding.detail for finding in done.failed] == []
    assert (len(done.findings), done.vectors, done.steps) == (15, 17, 90)


def test_the_faults_are_those_of_the_kit_with_its_targets() -> None:
    installed()
    from agentic_dataset_conformance.mutations import TARGETS  # type: ignore[import-not-found, unused-ignore]

    named = {mutant.name.removeprefix("mutant:"): target for mutant, target in TARGETS.items()}
    assert named == {name: fault.target for name, fault in BY_NAME.items()}


def test_a_widened_leaf_that_is_taken_is_noticed(tmp_path: Path) -> None:
    caught = judged(Copy(ROOT, tmp_path), BY_NAME["delegation-widens-scope"], matrix=False)
    assert "AD-007" in caught.by
