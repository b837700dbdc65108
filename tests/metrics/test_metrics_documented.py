"""Every metric is in the operator's page, and no other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from metrics.table import Kind, Metric
from remote_agent import measures as remote
from root_agent import measures as root

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "operate.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("\n## Metrics\n")[2].partition("\n## ")[0]
REMOTE, _, ROOT = SECTION.partition("Of a root agent")


def told(metric: Metric, prefix: str) -> str:
    name = metric.name.removeprefix(prefix) + ("_total" if metric.kind is Kind.COUNTER else "")
    return name + ("{" + ",".join(metric.labels) + "}" if metric.labels else "")


@pytest.mark.parametrize("metric", remote.METRICS, ids=lambda metric: metric.name)
def test_a_metric_of_a_dataset_agent_is_documented_with_its_labels(metric: Metric) -> None:
    assert f"`{told(metric, 'dataset_agent_')}`" in REMOTE


@pytest.mark.parametrize("metric", root.METRICS, ids=lambda metric: metric.name)
def test_a_metric_of_a_root_agent_is_documented_with_its_labels(metric: Metric) -> None:
    shown = told(metric, "dataset_agent_root_")
    assert f"`{shown}`" in ROOT or f"`{shown.partition('{')[0]}`" in ROOT


def test_no_metric_is_documented_that_is_not_told() -> None:
    known = {told(metric, "dataset_agent_") for metric in remote.METRICS}
    rows = re.findall(r"^\| (`[^|]+) \|", REMOTE, re.MULTILINE)
    names = {name for row in rows for name in re.findall(r"`([a-z_]+(?:\{[a-z,]+\})?)`", row)}
    assert names <= known


def test_the_alerts_ask_for_metrics_that_are_told() -> None:
    series = set(re.findall(r"dataset_agent_[a-z_]+(?=[{\[ ]|$)", ROOT.partition("groups:")[2], re.MULTILINE))
    known = {"dataset_agent_" + told(metric, "dataset_agent_").partition("{")[0] for metric in remote.METRICS}
    assert series
    assert series <= known
