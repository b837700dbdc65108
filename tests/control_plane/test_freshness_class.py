"""A publisher names how fresh stored results are; the name is with the time of reuse in every key."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from contract.settings import SHIPPED_DATASETS
from control_plane.descriptor import DatasetDescriptor, Freshness
from control_plane.manifest import DatasetManifest

SHIPPED: dict[str, Any] = yaml.safe_load((SHIPPED_DATASETS / "purification-batches" / "descriptor.yaml").read_text())


def test_without_a_name_the_class_is_the_time() -> None:
    assert Freshness.model_validate({"maximum_age_s": 9, "reuse_s": 60}).reuse_class == "60s"


def test_a_name_never_stands_for_two_times() -> None:
    """Who shortens the time finds nothing that was stored for longer, though the name is the same."""
    classes = {
        Freshness.model_validate({"maximum_age_s": 9, "reuse_s": reuse_s, "class": name}).reuse_class
        for reuse_s in (60, 3_600)
        for name in ("live", "daily")
    }
    assert classes == {"live-60s", "live-3600s", "daily-60s", "daily-3600s"}


@pytest.mark.parametrize("name", ["", "Daily!", "a b", "a:b", "{p}", "x" * 300])
def test_a_class_is_a_name(name: str) -> None:
    with pytest.raises(ValidationError):
        Freshness.model_validate({"maximum_age_s": 9, "class": name})


@pytest.mark.parametrize("stale_s", [0, -1, 604_801, 1.5, "60"])
def test_a_time_to_be_answered_past_the_other_is_seconds_and_has_an_end(stale_s: object) -> None:
    with pytest.raises(ValidationError):
        Freshness.model_validate({"maximum_age_s": 9, "stale_s": stale_s})


def test_the_time_past_the_other_is_in_no_key() -> None:
    """It is judged when something is found: who changes it loses nothing that is fresh."""
    told = {Freshness.model_validate({"maximum_age_s": 9, "stale_s": n}).reuse_class for n in (None, 1, 604_800)}
    assert told == {"3600s"}


def test_a_dataset_with_a_restricted_capability_has_no_such_time() -> None:
    raw = SHIPPED | {"freshness": {"maximum_age_s": 9, "stale_s": 60}}
    DatasetManifest.model_validate_json(as_json(raw))
    raw["capabilities"] = [
        one | {"sensitivity": "restricted", "policy_id": raw["policies"][0]} for one in raw["capabilities"]
    ]
    with pytest.raises(ValidationError, match="publish them as two datasets"):
        DatasetManifest.model_validate_json(as_json(raw))


@pytest.mark.parametrize(
    "members", [{}, {"class": "daily"}, {"reuse_s": 60, "class": "live"}, {"reuse_s": 60, "stale_s": 30}]
)
def test_what_is_published_reads_back_as_it_was(members: dict[str, Any]) -> None:
    raw = SHIPPED | {
        "freshness": {"maximum_age_s": 86_400} | members,
        "revision": "r1",
        "as_of": "2026-01-01T00:00:00Z",
    }
    manifest = DatasetManifest.model_validate_json(as_json(raw))
    published = manifest.published()
    assert published.to_json()["freshness"] == {"maximum_age_s": 86_400} | members
    assert DatasetDescriptor.model_validate_json(as_json(published.to_json())) == published


def as_json(raw: dict[str, Any]) -> str:

    return json.dumps(raw, default=str)
