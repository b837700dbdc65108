"""Policy files are refused where Cedar would have skipped something in silence."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from contract.errors import Category, DatasetAgentError
from control_plane.policy import load_policies
from control_plane.registry import load_registry
from tests.control_plane.control_plane_world import DATASETS, SCHEMA, make_manifest, make_policies, write_policies

GOOD = '@id("P-1") permit (principal, action, resource) when { context.entitled };'


def test_the_shipped_policies_have_their_version_and_ids() -> None:
    policies = load_policies(DATASETS / "policies")
    assert policies.version == "2026.09.01"
    assert {"BPD-DATA-014", "BPD-DATA-021", "BPD-CLIN-002"} <= set(policies.policies)


def test_every_policy_that_a_shipped_capability_names_exists() -> None:
    policies = load_policies(DATASETS / "policies").policies
    named = {
        capability.policy_id
        for manifest in load_registry(DATASETS).datasets.values()
        for capability in manifest.capabilities
        if capability.policy_id
    }
    assert named <= set(policies)


def test_shipped_obligations_name_columns_that_exist() -> None:
    assert load_policies(DATASETS / "policies").problems(load_registry(DATASETS).datasets) == ()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (GOOD.replace('@id("P-1") ', ""), "needs an id"),
        (GOOD.replace("P-1", "lower"), "needs an id"),
        (GOOD.replace("P-1", "AD-POL-005"), "belong to the admission rules"),
        ('@row("{}") ' + GOOD, "unknown annotation @row"),
        (GOOD + GOOD, "already used in p0.cedar"),
        (GOOD.replace("context.entitled", "context.entitle"), "entitle"),
        (GOOD.replace("context.entitled", "principal.attributes.shoe == 4"), "shoe"),
        (GOOD.replace("action,", 'action == Action::"fly",'), "fly"),
        (GOOD.replace("permit (principal", "permit (principal == ?principal"), "templates"),
        (GOOD.replace(";", ""), "unexpected end"),
        ('@mask("{}") ' + GOOD.replace("permit", "forbid"), "a forbid carries no"),
        ('@rows("{") ' + GOOD, "@rows: not valid JSON"),
        ('@rows("[]") ' + GOOD, "@rows must be a JSON object"),
        ('@rows("{\\"plants\\": {\\"max\\": 1}}") ' + GOOD, "not table.column"),
        ('@rows("{\\"plants.id\\": {\\"like\\": \\"%\\"}}") ' + GOOD, "unknown constraint"),
        ('@rows("{\\"plants.id\\": {\\"one_of\\": {\\"env\\": \\"x\\"}}}") ' + GOOD, "bound value"),
        ('@rows("{\\"plants.id\\": {\\"max\\": 1, \\"max\\": 2}}") ' + GOOD, "duplicate member"),
        ('@columns("[\\"id\\"]") ' + GOOD, "not table.column"),
        ('@columns("[\\"plants.id\\", \\"plants.id\\"]") ' + GOOD, "stands twice"),
        ('@mask("{\\"plants.id\\": \\"blur\\"}") ' + GOOD, "blur"),
        ('@stale("60") ' + GOOD.replace("permit", "forbid"), "a forbid carries no"),
        *[
            (f'@stale("{text}") ' + GOOD, "@stale must be a number of seconds")
            for text in ("", "0", "-1", "060", "1.5", "60s", " 60", "604801", "9999999", "\u0661")
        ],
        ("@stale " + GOOD, "@stale must be a number of seconds"),
    ],
)
def test_a_policy_that_would_be_misread_stops_the_load(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(DatasetAgentError) as caught:
        make_policies(tmp_path, text)
    assert problem in caught.value.message
    assert caught.value.message.startswith("policies/p0.cedar:1: ")
    assert "policy0" not in caught.value.message
    assert caught.value.category is Category.CONFIGURATION


# Strings and comments that hold what ends a statement, and blank lines: nothing of it may shift a line.
ABOVE = """\
// one; two "three

@id("P-1")
@description("a; b // c \\" d")
permit (principal, action, resource)  // ; here
when { context.entitled };

"""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('@id("P-2")\npermit (principal, action, resource)\nwhen {\n  context.entitle\n};', "11: P-2: attribute `entitle`"),
        ('@id("P-2")\npermit (\n  principal,\n  action == Action::"fly",\n  resource\n);', '11: P-2: unrecognized action `Action::"fly"`'),
        ('@id("P-2")\npermit (principal, action, resource)\nwhen { 1 + "a" };', "8: P-2: unexpected type"),
        ('@id("P-2")\npermit (principal action, resource);', "9: unexpected token `action`"),
        ('@id("P-2")\npermit (principal, action, resource)\nwhen { context.entitled', "8: unexpected end of input"),
        ('// none\npermit (principal, action, resource);', "9: every policy needs an id"),
        ('@id("P-1")\npermit (principal, action, resource);', '8: @id("P-1") is already used in p0.cedar:3'),
        ('@id("P-2")\npermit (\n  principal == ?principal, action, resource);', "10: policy templates"),
    ],
)  # fmt: skip
def test_a_fault_of_a_policy_is_told_by_its_line_and_id(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(DatasetAgentError) as caught:
        make_policies(tmp_path, ABOVE + text)
    assert caught.value.message.startswith(f"policies/p0.cedar:{told}")
    assert "policy1" not in caught.value.message


def test_an_action_that_is_not_declared_is_told_once_with_what_to_do(tmp_path: Path) -> None:
    text = '@id("P-2")\npermit (principal, action in [Action::"fly", Action::"read"], resource);'
    with pytest.raises(DatasetAgentError) as caught:
        make_policies(tmp_path, ABOVE + text)
    assert "add fly to the actions of the .cedarschema" in caught.value.message
    assert "applicable" not in caught.value.message


def test_faults_of_several_policies_are_told_in_order_up_to_three(tmp_path: Path) -> None:
    bad = [f'@id("P-{n}") permit (principal, action, resource) when {{ context.c{n} }};\n' for n in range(2, 7)]
    with pytest.raises(DatasetAgentError) as caught:
        make_policies(tmp_path, "".join(bad))
    told = re.findall(r"(\d+): (P-\d): attribute `(c\d)`", caught.value.message)
    assert told == [("1", "P-2", "c2"), ("2", "P-3", "c3"), ("3", "P-4", "c4")]
    assert caught.value.message.endswith("; and 2 more")


@pytest.mark.parametrize(
    ("wrong", "line", "problem"),
    [("clearance: Strng", 3, "failed to resolve type: Strng"), ("clearance; String", 3, "unexpected token `;`")],
)
def test_a_fault_of_the_schema_is_told_by_its_line(tmp_path: Path, wrong: str, line: int, problem: str) -> None:
    schema = SCHEMA.replace("clearance: String", wrong)
    with pytest.raises(DatasetAgentError) as caught:
        load_policies(write_policies(tmp_path, GOOD, schema=schema))
    assert problem in caught.value.message
    assert caught.value.message.startswith(("policies/schema.cedarschema: ", f"policies/schema.cedarschema:{line}: "))


def test_an_id_cannot_be_used_in_two_files(tmp_path: Path) -> None:
    with pytest.raises(DatasetAgentError, match="already used in p0.cedar"):
        make_policies(tmp_path, GOOD, GOOD)


@pytest.mark.parametrize("version", ["", "two words", "a\nb"])
def test_the_version_is_one_word(tmp_path: Path, version: str) -> None:
    with pytest.raises(DatasetAgentError, match="must hold one version"):
        load_policies(write_policies(tmp_path, GOOD, version=version))


def test_a_folder_without_policies_or_with_two_schemas_is_refused(tmp_path: Path) -> None:
    folder = write_policies(tmp_path / "a")
    with pytest.raises(DatasetAgentError, match="no .cedar file"):
        load_policies(folder)
    write_policies(tmp_path / "b", GOOD)
    (tmp_path / "b" / "two.cedarschema").write_text("", encoding="utf-8")
    with pytest.raises(DatasetAgentError, match="exactly one .cedarschema"):
        load_policies(tmp_path / "b")


def test_a_missing_version_file_is_named(tmp_path: Path) -> None:
    folder = write_policies(tmp_path, GOOD)
    (folder / "version").unlink()
    with pytest.raises(DatasetAgentError, match="policies/version: cannot be read"):
        load_policies(folder)


def test_the_digest_follows_every_file(tmp_path: Path) -> None:
    first = make_policies(tmp_path / "a", GOOD).digest
    again = make_policies(tmp_path / "b", GOOD).digest
    changed = make_policies(tmp_path / "c", GOOD + "\n// a comment").digest
    assert first == again
    assert first != changed


def test_an_obligation_on_a_column_that_no_dataset_has_is_told(tmp_path: Path) -> None:
    policies = make_policies(tmp_path, '@mask("{\\"plants.nme\\": \\"null\\"}") ' + GOOD)
    problems = policies.problems({"plants": make_manifest()})
    assert problems == ("p0.cedar:1: P-1: plants.nme is no column of any dataset",)


def test_an_obligation_of_a_policy_about_one_dataset_needs_that_datasets_column(tmp_path: Path) -> None:
    about = '@mask("{\\"plants.id\\": \\"null\\"}") ' + GOOD.replace("resource)", 'resource == Dataset::"trees")')
    trees = make_manifest(
        dataset="trees", tables=[{"name": "trees", "file": "t", "columns": [{"name": "id", "type": "STRING"}]}]
    )
    problems = make_policies(tmp_path, about).problems({"trees": trees, "plants": make_manifest()})
    assert problems == ("p0.cedar:1: P-1: plants.id is no column of trees",)
