"""One agent under attack for each test file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.attacks.attack_world import Target, served


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with served(tmp_path_factory.mktemp("home")) as agent:
        yield agent
