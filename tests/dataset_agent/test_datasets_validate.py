"""``datasets validate`` names every fault of a folder with its file, its line and what to do, and changes nothing."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from contract.settings import SHIPPED_DATASETS, Settings
from control_plane.descriptor_schema import schema_text
from dataset_agent.dataset_validation import Report, validate_folder
from dataset_agent.folder_fault import FolderFault
from remote_agent.world import check_datasets
from tests.dataset_agent.command_line import CommandLine
from tests.dataset_agent.dataset_makers import FLIGHTS, csv_file, made_of, words

pytestmark = pytest.mark.live

DESCRIPTOR, LISTING, POLICY, PEOPLE = (
    "flights/descriptor.yaml",
    "flights/templates/list_flights.sql",
    "policies/flights.cedar",
    "principals.yaml",
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    return made_of(folder, csv_file(folder, FLIGHTS)).folder


@pytest.fixture
def world(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "world"))


def checked(world: Path) -> Report:
    settings = Settings(home=world.parent / "home", datasets=world)
    return asyncio.run(validate_folder(settings, world.parent / "scratch"))


def edit(world: Path, file: str, *changes: tuple[str, str]) -> None:
    path = world / file
    text = path.read_text(encoding="utf-8")
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new, 1)
    path.write_text(text, encoding="utf-8")


def line_of(world: Path, file: str, text: str) -> int:
    lines = (world / file).read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


FAULTS: list[tuple[str, str, str, str, str]] = [
    # file edited, what, by what; then where it is told, and what is told
    (DESCRIPTOR, "tenant: acme", "tenent: acme", DESCRIPTOR, "is unknown here; write tenant"),
    (DESCRIPTOR, "{name: distance, type: INT64}", "{name: distance, type: DATE}", DESCRIPTOR, "does not hold DATE"),
    (DESCRIPTOR, "{name: flight, type: INT64}", "{name: flihgt, type: INT64}", DESCRIPTOR, "not in the header"),
    (DESCRIPTOR, "templates/list_flights.sql", "templates/lost.sql", DESCRIPTOR, "does not exist; write it"),
    (DESCRIPTOR, "data/flights.csv", "../flights.csv", DESCRIPTOR, "copy the file into it"),
    (DESCRIPTOR, "data/flights.csv", "data/none.csv", DESCRIPTOR, "none.csv"),
    (DESCRIPTOR, "effect: read", "effect: think", DESCRIPTOR, "must be 'read'"),
    (LISTING, "t.carrier AS carrier", "t.carier AS carrier", LISTING, "has no column carier; is it carrier?"),
    (
        LISTING,
        "FROM flights AS t",
        "FROM other AS t",
        LISTING,
        "table other is not declared by the dataset; declare it",
    ),
    (LISTING, "LIMIT @page_size OFFSET @skip", "LIMIT @page_size", LISTING, "use @skip, or take it out"),
    (POLICY, "context.entitled", "context.entitld", POLICY, "entitld"),
    (POLICY, "@id(", "@ident(", POLICY, "every policy needs an id"),
    (POLICY, "@id(", '@columns("[\\"flights.fuel\\"]")\n@id(', POLICY, "flights.fuel is no column of flights"),
    ("policies/schema.cedarschema", "action list_flights", "action", "policies/schema.cedarschema", "expected"),
    (PEOPLE, "clearance: internal", "clearance: all", PEOPLE, "must be 'public'"),
    (PEOPLE, "subject: u-guest", "subject: u-analyst", PEOPLE, "stands twice"),
]


@pytest.mark.parametrize(("file", "old", "new", "told_in", "told"), FAULTS, ids=[fault[4][:30] for fault in FAULTS])
def test_a_fault_is_told_where_it_is(world: Path, file: str, old: str, new: str, told_in: str, told: str) -> None:
    edit(world, file, (old, new))
    faults = [fault for fault in checked(world).faults if told in fault.message]
    assert [fault.file for fault in faults] == [told_in]


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        (DESCRIPTOR, "{name: distance, type: INT64}", "{name: distance, type: DATE}"),
        (DESCRIPTOR, "effect: read", "effect: think"),
        (LISTING, "t.carrier AS carrier", "t.carier AS carrier"),
        (POLICY, "context.entitled", "context.entitld"),
        (PEOPLE, "clearance: internal", "clearance: all"),
    ],
)
def test_a_fault_has_the_line_that_was_edited(world: Path, file: str, old: str, new: str) -> None:
    edit(world, file, (old, new))
    assert {fault.line for fault in checked(world).faults if fault.file == file} == {line_of(world, file, new)}


def test_every_fault_is_told_at_once(world: Path) -> None:
    for file, old, new in (
        (DESCRIPTOR, "tenant: acme", "tenant: ACME"),
        (DESCRIPTOR, "{name: distance, type: INT64}", "{name: distance, type: DATE}"),
        (DESCRIPTOR, "{name: origin, type: STRING}", "{name: origin, type: INT64}"),
        (DESCRIPTOR, "effect: compute", "effect: think"),
        (LISTING, "t.carrier AS carrier", "t.carier AS carrier"),
        (POLICY, "context.entitled", "context.entitld"),
        (PEOPLE, "clearance: internal", "clearance: all"),
        (PEOPLE, "tenant: acme", "tenant: ACME"),
    ):
        edit(world, file, (old, new))
    report = checked(world)
    told = " | ".join(map(str, report.faults))
    for part in ("tenant", "flights.distance", "flights.origin", "effect", "carier", "entitld", "clearance"):
        assert part in told
    assert len(report.faults) == 8
    assert report.datasets == []


def test_a_value_that_does_not_fit_is_told_by_its_row_and_not_repeated(world: Path) -> None:
    edit(world, "flights/data/flights.csv", ("1416", "secret-7"))
    (fault,) = checked(world).faults
    assert "flights.distance: row 2 does not hold INT64" in fault.message
    assert "secret" not in str(fault)


EDITS: list[Callable[[Path], Any]] = [
    lambda world: (world / "policies" / "version").unlink(),
    lambda world: (world / "principals.yaml").write_text("principals: ["),
    lambda world: (world / DESCRIPTOR).write_text("dataset: ["),
    lambda world: (world / "flights" / "descriptor.json").write_text("{}"),
    lambda world: (world / LISTING).write_text("SELECT 1"),
    lambda world: (world / LISTING).write_bytes(b"\xff"),
    lambda world: (world / "flights" / "data" / "flights.csv").write_text("a,b\n1\n"),
    lambda world: (world / "flights").rename(world / "_flights"),
]


@pytest.mark.parametrize("number", range(len(EDITS)))
def test_what_serving_refuses_is_a_fault_and_what_it_takes_is_none(world: Path, number: int) -> None:
    EDITS[number](world)
    after = checked(world)
    assert not after.ok
    settings = Settings(home=world.parent / "home", datasets=world)
    served = asyncio.run(check_datasets(settings, scratch=world.parent / "scratch"))
    assert after.datasets == [name for name, why in served.items() if why is None]


def test_two_folders_of_one_dataset_are_told_both(world: Path) -> None:
    (world / "again").mkdir()
    for path in (world / "flights").rglob("*"):
        if path.is_file():
            target = world / "again" / path.relative_to(world / "flights")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    told = [fault.file for fault in checked(world).faults if "described by another folder" in fault.message]
    assert told == ["again/descriptor.yaml", "flights/descriptor.yaml"]


WARNINGS = [
    (DESCRIPTOR, "FLIGHTS-001", "FLIGHTS-009", "names FLIGHTS-009, which no policy has"),
    (POLICY, 'Action::"list_flights", ', "", "no policy permits it"),
    (DESCRIPTOR, "- List flights", "- What is the weather", "is read as nothing"),
    (DESCRIPTOR, "- List flights", "- Summarise flights by carrier", "is read as summarise_flights"),
    (DESCRIPTOR, "- List flights", '- ""', "is read as nothing"),
    (PEOPLE, "[list_flights, summarise_flights]", "[summarise_flights]", "nobody is entitled to it"),
    (PEOPLE, "[list_flights, summarise_flights]", "[list_flights, lst]", "lst, which is no capability of flights"),
    (PEOPLE, "flights: [", "fights: [", "entitled to fights, which is no dataset here"),
    (PEOPLE, "tenant: acme", "tenant: other", "of the tenant other, not acme"),
    (PEOPLE, "clearance: internal", "clearance: public", "cleared for public only"),
    (
        POLICY,
        "@id(",
        '@rows("{\\"flights.origin\\": {\\"one_of\\": {\\"principal\\": \\"held\\"}}}")\n@id(',
        "analyst is entitled to it and lacks held",
    ),
]


@pytest.mark.parametrize(("file", "old", "new", "told"), WARNINGS, ids=[warning[3][:30] for warning in WARNINGS])
def test_what_nobody_can_have_meant_is_a_warning(world: Path, file: str, old: str, new: str, told: str) -> None:
    changes = [(old, new)] * (world / file).read_text().count(old) if file == DESCRIPTOR else [(old, new)]
    edit(world, file, *changes)
    report = checked(world)
    assert report.faults == []
    assert any(told in warning.message for warning in report.warnings)


def test_a_review_that_nobody_may_give_is_a_warning_and_whoever_may_is_entitled_to_nothing_strange(world: Path) -> None:
    descriptor = (world / DESCRIPTOR).read_text()
    (line,) = [line for line in descriptor.splitlines() if line.strip() == "- name: list_flights"]
    indent = " " * (line.index("-") + 2)
    edit(world, DESCRIPTOR, (line, f"{line}\n{indent}requires_review: true"))
    told = [warning.message for warning in checked(world).warnings if "approv" in warning.message]
    assert told == ["needs a person's approval, and nobody is entitled to approve on flights"]
    edit(world, PEOPLE, ("[list_flights, summarise_flights]", "[approve, list_flights, summarise_flights]"))
    (warning,) = [warning for warning in checked(world).warnings if "approv" in warning.message]
    assert "no policy permits approve to anybody who is entitled to it" in warning.message
    edit(world, "policies/schema.cedarschema", ("action list_flights", "action approve, list_flights"))
    edit(world, POLICY, ('Action::"list_flights"', 'Action::"approve", Action::"list_flights"'))
    assert not [warning for warning in checked(world).warnings if "approv" in warning.message]


def test_a_review_that_only_people_who_are_not_cleared_may_give_is_a_warning(world: Path) -> None:
    descriptor = (world / DESCRIPTOR).read_text()
    (line,) = [line for line in descriptor.splitlines() if line.strip() == "- name: list_flights"]
    indent = " " * (line.index("-") + 2)
    edit(world, DESCRIPTOR, (line, f"{line}\n{indent}requires_review: true\n{indent}sensitivity: confidential"))
    edit(world, PEOPLE, ("[list_flights, summarise_flights]", "[approve, list_flights, summarise_flights]"))
    told = [warning.message for warning in checked(world).warnings if "approv" in warning.message]
    assert told == ["needs a person's approval, and nobody who is entitled to approve is cleared for it"]


def test_a_member_that_is_wrong_leaves_no_list_that_is_said_to_be_empty(world: Path) -> None:
    text = (world / DESCRIPTOR).read_text()
    edit(world, DESCRIPTOR, *[("type: STRING", "type: TEXT")] * text.count("type: STRING"))
    told = [fault.message for fault in checked(world).faults]
    assert told and all("must be 'STRING'" in message for message in told)


def test_a_time_that_no_policy_takes_up_is_a_warning_until_one_does(world: Path) -> None:
    text = (world / DESCRIPTOR).read_text()
    (line,) = [line for line in text.splitlines() if line.startswith("freshness:")]
    edit(world, DESCRIPTOR, (line, "freshness: {maximum_age_s: 86400, reuse_s: 60, stale_s: 30}"))
    told = [warning for warning in checked(world).warnings if "no policy that permits" in warning.message]
    assert [(one.file, one.place) for one in told] == [(DESCRIPTOR, "freshness.stale_s")]
    edit(world, POLICY, ("@id(", '@stale("20")\n@id('))
    assert not [warning for warning in checked(world).warnings if "no policy that permits" in warning.message]


@pytest.fixture(scope="module")
def two_tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("two")
    airlines = csv_file(folder, "carrier,name\nUA,United\n", "airlines.csv")
    return made_of(folder, csv_file(folder, FLIGHTS), airlines).folder


POLICIES = "policies/flights.cedar"
OBLIGED: list[tuple[list[tuple[str, str, str]], list[str]]] = [
    # What is edited; then what is refused of it on every call.
    ([], []),
    ([(POLICIES, "@id(", '@rows("{\\"flights.origin\\": {\\"one_of\\": [\\"EWR\\"]}}")\n@id(')], []),
    (
        [
            (POLICIES, "@id(", '@rows("{\\"flights.origin\\": {\\"one_of\\": [\\"EWR\\"]}}")\n@id('),
            (POLICIES, '[Action::"list_flights"', '[Action::"list_airlines", Action::"list_flights"'),
        ],
        [
            "(list_airlines): analyst is entitled to it and refused by the obligations of FLIGHTS-002: @rows names flights"
        ],
    ),
    (
        [(POLICIES, "@id(", '@columns("[\\"flights.carrier\\", \\"flights.dep_delay\\"]")\n@id(')],
        [
            "(list_flights): analyst is entitled to it and refused by the obligations of FLIGHTS-001: @columns leaves out",
            "(summarise_flights): analyst is entitled to it and refused by the obligations of FLIGHTS-001: @columns leaves",
        ],
    ),
    (
        [
            (DESCRIPTOR, "{name: origin, type: STRING}", "{name: origin, type: STRING, attribute: place}"),
            (DESCRIPTOR, "{name: carrier, type: STRING}", "{name: carrier, type: STRING, attribute: place}"),
            (POLICIES, "@id(", '@rows("{\\"flights.origin\\": {\\"one_of\\": [\\"EWR\\"]}}")\n@id('),
        ],
        ["(list_flights): analyst", "(summarise_flights): analyst"],
    ),
    (
        [(POLICIES, 'Action::"list_flights", ', ""), (POLICIES, '[Action::"list_airlines"', '[Action::"list_flights"')],
        [
            "(list_flights): analyst is entitled to it and refused: FLIGHTS-002 permits it, and its policy_id is FLIGHTS-001"
        ],
    ),
]


@pytest.mark.parametrize(("edits", "told"), OBLIGED, ids=range(len(OBLIGED)))
def test_a_call_that_every_policy_refuses_to_somebody_entitled_is_a_warning(
    two_tables: Path, tmp_path: Path, edits: list[tuple[str, str, str]], told: list[str]
) -> None:
    world = Path(shutil.copytree(two_tables, tmp_path / "world"))
    for file, old, new in edits:
        edit(world, file, (old, new))
    report = checked(world)
    assert report.faults == []
    said = [str(warning) for warning in report.warnings if "refused" in warning.message]
    assert len(said) == len(told)
    assert all(part in line for part, line in zip(told, said, strict=True))


def test_nothing_can_be_served_where_nobody_can_decide(world: Path) -> None:
    assert checked(world).served == ["flights"]
    edit(world, POLICY, ("context.entitled", "context.entitld"))
    report = checked(world)
    assert (report.datasets, report.served) == (["flights"], [])


def test_the_shipped_world_has_no_fault(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home", datasets=SHIPPED_DATASETS)
    report = asyncio.run(validate_folder(settings, tmp_path / "scratch"))
    assert report.faults == []


def test_a_folder_without_a_dataset_says_how_to_make_one(tmp_path: Path) -> None:
    report = asyncio.run(validate_folder(Settings(home=tmp_path / "home", datasets=tmp_path), tmp_path / "scratch"))
    assert any("datasets init" in fault.message for fault in report.faults)


def test_a_fault_reads_as_its_place_and_what_to_do() -> None:
    assert str(FolderFault("a/b.yaml", "is missing", 3, "tables[0]")) == "a/b.yaml:3: tables[0]: is missing"
    assert str(FolderFault("a/b.yaml", "is missing")) == "a/b.yaml: is missing"


@pytest.fixture
def command(tmp_path: Path) -> CommandLine:
    return CommandLine({"HOME": str(tmp_path / "home")})


def test_the_command_makes_lists_and_checks_a_folder(tmp_path: Path, command: CommandLine) -> None:
    world = tmp_path / "world"
    made = command("datasets", "init", str(world), "--from", str(csv_file(tmp_path, FLIGHTS)), DATASETS=str(world))
    assert made.code == 0
    assert "Made flights in" in made.out
    assert "dataset-agent serve" in made.out
    valid = command("datasets", "validate", str(world))
    assert (valid.code, valid.err) == (0, "")
    assert "0 faults, 0 warnings; can be served: flights" in words(valid)
    (line,) = command("datasets", "list", str(world), "--json").json["datasets"]
    assert (line["dataset"], line["status"], line["problem"]) == ("flights", "readable", None)
    assert line["revision"].startswith("sha256-")
    assert "list_flights, summarise_flights" in words(command("datasets", "list", str(world)))
    edit(world, LISTING, ("t.carrier AS carrier", "t.carier AS carrier"))
    broken = command("datasets", "validate", DATASETS=str(world))
    assert broken.code == 1
    first, counted = broken.out.splitlines()
    assert first.startswith(
        "flights/templates/list_flights.sql:3: fault: table flights has no column carier; is it carrier?"
    )
    assert counted.endswith("world: 1 fault, 0 warnings; can be served: no dataset")
    told = command("datasets", "validate", str(world), "--json")
    assert (told.code, told.json["ok"], told.json["faults"][0]["line"]) == (1, False, 3)
    (world / DESCRIPTOR).write_text("dataset: [")
    (line,) = command("datasets", "list", str(world), "--json").json["datasets"]
    assert (line["status"], line["revision"]) == ("broken", None)


def test_the_command_tells_programs_what_it_made(tmp_path: Path, command: CommandLine) -> None:
    source = str(csv_file(tmp_path, FLIGHTS))
    told = command("datasets", "init", str(tmp_path / "world"), "--from", source, "--tenant", "lab", "--json").json
    assert (told["dataset"], told["principals"]) == ("flights", ["analyst", "guest"])
    assert told["tables"][0]["rows"] == 6
    again = command("datasets", "init", str(tmp_path / "world"), "--from", source)
    assert again.code == 2
    assert "--into" in again.line


def test_the_command_prints_the_schema_that_is_published(command: CommandLine) -> None:
    run = command("datasets", "schema")
    assert run.out == schema_text()
    assert json.loads(run.out)["type"] == "object"


def test_a_folder_that_is_none_is_usage(tmp_path: Path, command: CommandLine) -> None:
    run = command("datasets", "validate", str(tmp_path / "none"))
    assert run.code == 2
    assert "is no folder" in run.line


@pytest.mark.parametrize("verb", ["validate", "list"])
def test_a_folder_of_anything_else_is_told_as_that_and_one_that_is_begun_by_what_it_lacks(
    world: Path, command: CommandLine, verb: str
) -> None:
    for folder in (world / "flights", world.parent):
        run = command("datasets", verb, str(folder), DATASETS=str(world))
        assert run.code == 2
        assert run.line.startswith(f"error: {folder} holds no dataset, no policies and no principals.yaml: name the")
        assert command("datasets", verb, DATASETS=str(folder)).line == run.line
    shutil.rmtree(world / "policies")
    (world / "principals.yaml").unlink()
    assert command("datasets", verb, str(world)).out
