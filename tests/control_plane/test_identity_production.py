"""What is for development does not start where people are real."""

from __future__ import annotations

from typing import Any

import pytest

from contract.errors import Category, DatasetAgentError
from contract.settings import Settings
from control_plane.identity import refuse_in_production

PROVIDER = {"oidc_issuer": "https://idp.example", "oidc_audience": "root"}
PUBLIC = {"public_url": "https://agent.example"}


@pytest.mark.parametrize("production", [PROVIDER, PUBLIC, {"root_url": "https://root.example"}, PROVIDER | PUBLIC])
@pytest.mark.parametrize(
    ("development", "named"),
    [
        ({"dev_issuer": True}, ["DATASET_AGENT_DEV_ISSUER=true"]),
        ({"as_principal": "analyst"}, ["DATASET_AGENT_AS_PRINCIPAL"]),
        ({"dev_issuer": False, "as_principal": "analyst"}, ["DATASET_AGENT_AS_PRINCIPAL"]),
        (
            {"dev_issuer": True, "as_principal": "analyst"},
            ["DATASET_AGENT_DEV_ISSUER=true", "DATASET_AGENT_AS_PRINCIPAL"],
        ),
    ],
)
def test_both_together_are_one_line_that_names_what_to_unset_and_why(
    production: dict[str, Any], development: dict[str, Any], named: list[str]
) -> None:
    settings = Settings(**production, **development)
    with pytest.raises(DatasetAgentError) as fault:
        refuse_in_production(settings)
    assert fault.value.category is Category.CONFIGURATION
    assert [name for name in (*named, *settings.production) if name not in fault.value.message] == []
    assert "\n" not in fault.value.message and "analyst" not in fault.value.message


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"dev_issuer": True},
        {"as_principal": "analyst", "host": "0.0.0.0"},
        PROVIDER,
        PROVIDER | {"dev_issuer": False},
    ],
)
def test_either_alone_starts(given: dict[str, Any]) -> None:
    refuse_in_production(Settings(**given))
