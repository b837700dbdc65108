"""A question about something else is not read as one about what is offered."""

from __future__ import annotations

import re

import pytest
import yaml

from control_plane.descriptor import DatasetDescriptor
from control_plane.discovery import permitted
from control_plane.interpret import interpret
from control_plane.manifest import DatasetManifest
from control_plane.principals import load_directory
from tests.control_plane.control_plane_world import DATASETS, NOW, make_descriptor, raw_capability
from tests.shipped_registry import shipped_registry

WORLD = [manifest.published() for manifest in shipped_registry().datasets.values()]
PUBLIC = [descriptor for descriptor in WORLD if not descriptor.is_restricted]
PUBLISH_PAGE = DATASETS.parent / "docs" / "publish.md"

# Each shares a word or two with a shipped descriptor, and asks about something else.
UNRELATED = [
    "What is the mean level of tank T01",
    "What is the mean level of tank T1",
    "average temperature in Paris",
    "what is the average salary of a nurse",
    "mean household income by county",
    "median house price in Basel",
    "aggregate demand of the euro area",
    "summarise the meeting of yesterday",
    "summarise this email thread for my manager",
    "what are the statistics of the football league",
    "distribution of voters by age",
    "calculate the mortgage for 2024",
    "calculate my tax return",
    "compute the distance between Lyon and Basel",
    "what is the yield of a ten year treasury bond",
    "yield of wheat per hectare in France",
    "compare apples and oranges",
    "compare T01 and T02",
    "compare the price of flights to Tokyo and Osaka",
    "difference between cats and dogs",
    "Liverpool vs Arsenal, who won",
    "how does Python differ from Rust",
    "Windows versus Linux on an old laptop",
    "recovery after knee surgery, what helps",
    "disk recovery software for a broken laptop",
    "flag this email",
    "flag of Portugal",
    "detect spam in my inbox",
    "detect faces in this photograph",
    "unusual baby names",
    "abnormal weather of last winter",
    "find my keys",
    "find a dentist near me",
    "find flights from A to B",
    "search for jobs",
    "search the web for pancake recipes",
    "show me the weather in Paris",
    "show revenue by region",
    "list the users",
    "list all countries with their capitals",
    "look up a phone number",
    "what are the losses of my portfolio",
    "step by step guide to knitting",
    "two tickets for the opera",
    "treatment of hay fever",
    "resolution of my new monitor",
    "retention of customers last quarter",
    "pressure drop in a garden hose",
    "peak oil and what comes after",
    "column width in a spreadsheet",
    "subjects taught at school",
    "change of address form",
    "balance of my bank account",
    "mass of the moon",
    "who won the world cup",
    "tell me a joke",
    "translate good morning into Dutch",
    "average recovery time after a marathon",
    "what is the peak time of traffic",
    "clinical trials near me",
    "Compare the level of tanks T01 and T02",
    "average peak level of tank T01",
    "list tank readings with comments",
    "compare",
    "average",
    "show and list everything",
]

# Words of their own, not those of the examples: they keep the rule above from refusing too much.
RELATED = [
    ("what was the recovery of B014 against B099", "compare_batches"),
    ("differences between batches B002 and B007 please", "compare_batches"),
    ("step conditions of B010 versus B011", "compare_batches"),
    ("what did batch B033 yield per step", "calculate_yield"),
    ("cumulative recovery of B041", "calculate_yield"),
    ("compute the losses of B200", "calculate_yield"),
    ("any outliers in hmw?", "detect_outliers"),
    ("flag anomalous batches by monomer purity", "detect_outliers"),
    ("batches with an unusual capture yield", "detect_outliers"),
    ("list batches mentioning foaming", "search"),
    ("show chromatography runs with a pooling decision of rework", "search"),
    ("look up batch records for campaign C7", "search"),
    ("mean resolution of the peaks", "aggregate"),
    ("median retention time per method", "aggregate"),
    ("average back pressure of the columns", "aggregate"),
    ("mean haemoglobin by arm", "aggregate"),
]


def _views() -> list[tuple[str, list[DatasetDescriptor]]]:
    """Everything, what is public, and what each principal of the directory may use."""
    views = [("all", WORLD), ("public", PUBLIC)]
    directory = load_directory(DATASETS / "principals.yaml")
    for name in ("process_engineer", "analyst", "clinical_reviewer", "external_auditor"):
        principal = directory.named(name)
        assert principal is not None
        held = [(descriptor, permitted(descriptor, principal)) for descriptor in WORLD]
        narrowed = [d.model_copy(update={"capabilities": kept}) for d, kept in held if kept]
        views.append((name, narrowed))
    return views


VIEWS = _views()


@pytest.mark.parametrize("view", [view for _, view in VIEWS], ids=[name for name, _ in VIEWS])
@pytest.mark.parametrize("question", UNRELATED)
def test_an_unrelated_question_proposes_nothing(question: str, view: list[DatasetDescriptor]) -> None:
    assert interpret(question, view, now=NOW) is None


@pytest.mark.parametrize("view", [[descriptor] for descriptor in WORLD], ids=[d.dataset for d in WORLD])
@pytest.mark.parametrize("question", UNRELATED)
def test_nor_where_one_dataset_is_all_there_is(question: str, view: list[DatasetDescriptor]) -> None:
    assert interpret(question, view, now=NOW) is None


@pytest.mark.parametrize(("question", "capability"), RELATED)
def test_a_question_in_other_words_is_still_read(question: str, capability: str) -> None:
    found = interpret(question, WORLD, now=NOW)
    assert found is not None
    assert found.capability == capability


def test_a_word_that_two_datasets_share_goes_to_the_one_that_the_rest_names() -> None:
    found = interpret("Show the mean value by arm", WORLD, now=NOW)
    assert found is not None
    assert (found.dataset, [item.name for item in found.missing]) == ("clinical-private", ["metric"])
    assert interpret("Show the mean value by arm", PUBLIC, now=NOW) is None


def _tanks() -> DatasetDescriptor:
    block = re.search(r"descriptor\.yaml`:\n\n```yaml\n(.*?)^```$", PUBLISH_PAGE.read_text("utf-8"), re.M | re.S)
    assert block is not None
    return DatasetManifest.model_validate(yaml.safe_load(block[1])).published()


def test_the_dataset_of_the_publishing_page_is_found_beside_the_shipped_ones_and_alone() -> None:
    for view in ([_tanks()], [*WORLD, _tanks()]):
        found = interpret("What is the mean level of tank T01", view, now=NOW)
        assert found is not None
        assert (found.dataset, dict(found.arguments)) == ("tank-levels", {"tank": "T01"})


def test_questions_about_the_shipped_datasets_are_nothing_to_it() -> None:
    asked = [example for d in WORLD for c in d.capabilities for example in c.examples]
    asked += [question for question, _ in RELATED] + [question for question in UNRELATED if "tank" not in question]
    assert [question for question in asked if interpret(question, [_tanks()], now=NOW) is not None] == []


def test_a_word_of_prose_counts_less_than_a_name() -> None:
    gardens = [
        make_descriptor(raw_capability("count", keywords=["count"]), dataset="garden", description="Plants and soil."),
        make_descriptor(raw_capability("read", keywords=["read"]), dataset="library", description="Books."),
    ]
    found = interpret("count the plants", gardens, now=NOW)
    assert found is not None
    assert found.dataset == "garden"
    assert interpret("soil for plants on a balcony, how much does it count", gardens, now=NOW) is None
