"""Every check of the protected files has a fault that takes it out, and a test that is named for that fault."""

from __future__ import annotations

import ast
from itertools import groupby
from pathlib import Path

from mutants import killers
from mutants.copies import Copy
from mutants.plant import PROTECTED, mutants

ROOT = Path(__file__).resolve().parents[2]
PLANTED = mutants(ROOT)


def parts(tree: ast.Module) -> list[ast.stmt]:
    """The statements of a module, each class as its own statements: one of them holds a fault."""
    return [part for node in tree.body for part in (node.body if isinstance(node, ast.ClassDef) else [node])]


def test_the_protected_files_are_there() -> None:
    assert [path for path in PROTECTED if not (ROOT / path).is_file()] == []


def test_every_fault_leaves_a_file_that_python_reads_and_that_is_another_one() -> None:
    for path, faults in groupby(PLANTED, key=lambda mutant: mutant.path):
        source = (ROOT / path).read_text(encoding="utf-8")
        whole = [ast.dump(part) for part in parts(ast.parse(source))]
        for mutant in faults:
            changed = parts(ast.parse(mutant.planted(source)))
            at = source.count("\n", 0, mutant.start) + 1
            place = max(number for number, part in enumerate(changed) if part.lineno <= at)
            assert len(changed) != len(whole) or ast.dump(changed[place]) != whole[place], mutant.id


def test_every_fault_has_a_name_of_its_own() -> None:
    names = [mutant.id for mutant in PLANTED]
    assert len(set(names)) == len(names)


def test_every_check_has_a_test_named_for_it() -> None:
    known = killers.read()
    planted = {mutant.id for mutant in PLANTED}
    assert planted - known.keys() == set(), "run: python -m mutants --find"
    assert known.keys() - planted == set(), "run: python -m mutants --find"


def test_every_test_that_is_named_is_there() -> None:
    for path, tests in groupby(sorted(killers.read().values()), key=lambda test: test.partition("::")[0]):
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        functions = {node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}
        for test in tests:
            assert test.rpartition("::")[2].partition("[")[0] in functions, test


def test_no_test_is_named_by_the_place_of_a_parameter() -> None:
    """It would be another one as soon as a parameter is added before it."""
    named = set(killers.read().values())
    assert {test for test in named if killers.lasting(test) != test} == set()
    assert (
        killers.lasting("t.py::test_x[no name-change7]") == killers.lasting("t.py::test_x[<lambda>0]") == "t.py::test_x"
    )
    assert killers.lasting("t.py::test_x[a name]") == "t.py::test_x[a name]"


def test_a_fault_that_is_planted_is_seen_and_the_tree_without_one_passes(tmp_path: Path) -> None:
    copy = Copy(ROOT, tmp_path)
    mutant = next(
        m for m in PLANTED if m.id == "contract/grant.py: VerifiedGrant.__post_init__: proof is not _VERIFIED"
    )
    test = killers.read()[mutant.id]
    assert copy.run([test], mutant).killer == test
    assert copy.run([test]).killer is None
    assert (tmp_path / mutant.path).read_bytes() == (ROOT / mutant.path).read_bytes()
