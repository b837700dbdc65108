"""What equal data may answer differently is run each time; what it cannot is run once."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from contract.settings import SHIPPED_DATASETS
from tests.running_agent import Asker, agent_home, running_agent

pytestmark = pytest.mark.live

DATASET, CAPABILITY = "purification-batches", "calculate_yield"
OUTCOME = "urn:dataset-agent:ext:execution-grant:v1/cache"
WRITTEN = "s.medium AS medium"


@pytest.mark.parametrize(
    ("medium", "outcomes"),
    [
        ("s.medium", ["MISS", "HIT"]),
        ("LAST_VALUE(s.medium) OVER (ORDER BY s.step_no)", ["OFF", "OFF"]),
        ("LAST_VALUE(s.medium) OVER (ORDER BY s.step_no ROWS BETWEEN CURRENT ROW AND CURRENT ROW)", ["MISS", "HIT"]),
        ("CAST(CURRENT_DATE() AS STRING)", ["OFF", "OFF"]),
    ],
)
def test_only_what_equal_data_answers_alike_is_stored(tmp_path: Path, medium: str, outcomes: list[str]) -> None:
    datasets = Path(shutil.copytree(SHIPPED_DATASETS, tmp_path / "datasets"))
    path = datasets / DATASET / "templates" / f"{CAPABILITY}.sql"
    text = path.read_text(encoding="utf-8")
    assert text.count(WRITTEN) == 1
    path.write_text(text.replace(WRITTEN, f"{medium} AS medium"), encoding="utf-8")
    settings = agent_home(tmp_path / "home", datasets=datasets)
    with running_agent(settings) as agent:
        asker = Asker(settings, agent.url)
        tasks = [asker.ask(DATASET, CAPABILITY, {"batch_id": "B001"}) for _ in outcomes]
    assert [task["metadata"][OUTCOME]["outcome"] for task in tasks] == outcomes
