"""The fifteen assertions of the kit are held by our own tests too, the four that carry the rest on both sides.

The kit judges what can be observed from outside; these look at the walls themselves. A name that is
moved or lost is told here.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[1]
PATH, WORKFLOW, MINTS = (
    "root_agent/test_root_path.py",
    "root_agent/test_root_workflow.py",
    "root_agent/test_root_mints.py",
)
GOVERNED, WALLS = "remote_agent/test_governed_calls.py", "remote_agent/test_two_walls.py"
DENY, ATTACKS = "remote_agent/test_default_deny.py", "attacks/test_attack_table.py"

OURS: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "AD-001": {
        "control_plane/test_descriptor_model.py": ("test_a_descriptor_that_breaks_a_rule_is_refused",),
        "control_plane/test_registry_load.py": ("test_registering_a_malformed_descriptor_takes_the_old_one_away",),
        "remote_agent/test_reload_and_limits.py": ("test_a_dataset_that_was_never_served_is_invalid",),
    },
    "AD-002": {
        "control_plane/test_registry_load.py": ("test_every_template_that_is_not_there_is_told_by_its_capability",),
        "remote_agent/test_tasks_and_cards.py": (
            "test_the_public_card_verifies_with_the_pinned_key_and_shows_no_restricted_dataset",
        ),
    },
    "AD-003": {
        WORKFLOW: ("test_the_workflow_run_without_the_plugin_does_nothing",),
        "root_agent/test_root_two_walls.py": ("test_only_the_exchange_that_was_admitted_is_carried",),
        GOVERNED: ("test_six_bad_grants_are_rejected_by_six_names_with_six_rows_and_no_execution",),
        WALLS: ("test_without_the_plugin_the_executor_refuses_a_tool_that_nobody_admitted",),
        DENY: ("test_an_authority_is_the_only_way_in",),
        ATTACKS: ("test_an_attack_is_refused_by_its_name_and_leaves_one_row",),
    },
    "AD-004": {
        MINTS: ("test_refusal_mints_no_grant",),
        GOVERNED: ("test_this_agents_own_policy_refuses_what_the_root_granted",),
        "remote_agent/test_reload_and_limits.py": ("test_an_entitlement_taken_away_here_refuses_after_a_reload",),
    },
    "AD-005": {
        MINTS: ("test_indeterminate_mints_no_grant",),
        GOVERNED: ("test_a_dataset_that_is_not_here_is_indeterminate_by_its_own_name",),
        "remote_agent/test_policy_versions_served.py": (
            "test_a_grant_of_a_version_that_is_not_accepted_is_decided_by_nobody",
        ),
        "remote_agent/test_unknown_people.py": ("test_a_call_for_a_person_nobody_knows_is_indeterminate",),
    },
    "AD-006": {
        PATH: ("test_an_unknown_dataset_is_indeterminate_and_an_unknown_capability_refused",),
        WORKFLOW: ("test_every_tool_is_blocked",),
        DENY: ("test_a_tool_added_by_mistake_is_blocked_and_its_body_never_runs",),
        "remote_agent/test_framework_tools.py": (
            "test_a_tool_of_the_framework_or_of_a_server_is_blocked_and_its_body_never_runs",
        ),
    },
    "AD-007": {
        PATH: ("test_the_grant_covers_this_capability_of_this_revision_and_no_more",),
        GOVERNED: ("test_a_call_outside_the_grant_would_widen_it",),
    },
    "AD-008": {
        GOVERNED: ("test_another_principal_class_has_a_partition_of_its_own",),
        "remote_agent/test_reload_and_limits.py": ("test_a_new_revision_makes_old_grants_stale_and_the_cache_miss_once",),
    },
    "AD-009": {
        GOVERNED: ("test_a_granted_call_returns_rows_with_provenance_that_the_agents_key_signed",),
        "evidence/test_provenance.py": ("test_a_result_without_complete_provenance_is_not_returned",),
    },
    "AD-010": {
        PATH: ("test_every_asking_leaves_exactly_one_terminal_row",),
        GOVERNED: ("test_a_refused_call_is_recorded_with_what_was_asked_for_and_without_what_was_not_resolved",),
    },
    "AD-011": {"evidence/test_ledger_row.py": ("test_granted_on_a_dataset_says_which_data",)},
    "AD-012": {"control_plane/test_evaluator_contract.py": ("test_the_version_of_the_policies_is_on_every_decision",)},
    "AD-013": {
        "root_agent/test_root_mcp.py": ("test_an_answer_by_a_tool_has_rows_verified_provenance_and_one_mcp_call",),
        "attacks/test_attack_mcp.py": ("test_an_attack_at_the_mcp_door_is_refused_by_its_name_and_leaves_one_row",),
    },
    "AD-014": {
        "remote_agent/test_hop.py": ("test_what_is_passed_on_covers_the_one_call_and_nothing_else",),
        "root_agent/test_root_delegated.py": (
            "test_the_grant_of_a_plain_call_names_one_dataset_and_cannot_be_passed_on",
            "test_an_answer_that_rests_on_more_than_was_admitted_is_not_shown",
        ),
    },
    "AD-015": {
        "adversarial/test_adversarial.py": (
            "test_an_attack_on_the_root_runs_nothing_that_the_person_may_not_run",
            "test_an_attack_on_the_dataset_agent_runs_nothing_that_the_person_may_not_run",
        ),
    },
}  # fmt: skip
LOAD_BEARING: Final = ("AD-003", "AD-004", "AD-005", "AD-006")


def names(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    functions = (node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))
    return {node.name for node in functions}


def sides(paths: Iterable[str]) -> set[str]:
    return {path.partition("/")[0] for path in paths}


def test_there_are_fifteen_assertions() -> None:
    assert sorted(OURS) == [f"AD-{number:03d}" for number in range(1, 16)]


@pytest.mark.parametrize("assertion", OURS)
def test_an_assertion_is_held_by_tests_that_are_there(assertion: str) -> None:
    held = OURS[assertion]
    assert any(held.values())
    assert {path: set(wanted) - names(path) for path, wanted in held.items() if set(wanted) - names(path)} == {}


@pytest.mark.parametrize("assertion", LOAD_BEARING)
def test_the_four_that_carry_the_rest_are_held_at_the_root_and_at_the_dataset_agent(assertion: str) -> None:
    assert {"root_agent", "remote_agent"} <= sides(OURS[assertion])
