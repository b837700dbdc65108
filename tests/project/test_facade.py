"""What other people's code may import from ``dataset_agent``."""

from __future__ import annotations

import subprocess
import sys

import pytest

import dataset_agent


@pytest.mark.parametrize("name", dataset_agent.__all__)
def test_a_public_name_loads(name: str) -> None:
    assert getattr(dataset_agent, name) is not None


def test_every_lazy_name_is_public() -> None:
    assert set(dataset_agent._PUBLIC) == set(dataset_agent.__all__) - {"AGENTS_DIR"}


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = dataset_agent.nothing


def test_importing_the_package_loads_nothing_else() -> None:
    code = "import sys, dataset_agent; print(sorted(set(dataset_agent.PACKAGES) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"
