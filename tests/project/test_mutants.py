"""Every check of the protected files has a fault that takes it out, and a test that is named for that fault."""

from __future__ import annotations

import ast
from pathlib import Path

from mutants import killers
from mutants.copies import Copy
from mutants.plant import PROTECTED, mutants

ROOT = Path(__file__).resolve().parents[2]


def test_the_protected_files_are_there() -> None:
    assert [path for path in PROTECTED if not (ROOT / path).is_file()] == []


def test_every_fault_leaves_a_file_that_python_reads_and_that_is_another_one() -> None:
    for mutant in mutants(ROOT):
        source = (ROOT / mutant.path).read_text(encoding="utf-8")
        assert ast.dump(ast.parse(mutant.planted(source))) != ast.dump(ast.parse(source)), mutant.id


def test_every_fault_has_a_name_of_its_own() -> None:
    names = [mutant.id for mutant in mutants(ROOT)]
    assert len(set(names)) == len(names)


def test_every_check_has_a_test_named_for_it() -> None:
    known = killers.read()
    planted = {mutant.id for mutant in mutants(ROOT)}
    assert planted - known.keys() == set(), "run: python -m mutants --find"
    assert known.keys() - planted == set(), "run: python -m mutants --find"


def test_every_test_that_is_named_is_there() -> None:
    for test in killers.read().values():
        path, _, name = test.partition("::")
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        functions = {node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}
        assert name.rpartition("::")[2].partition("[")[0] in functions, test


def test_a_fault_that_is_planted_is_seen_and_the_tree_without_one_passes(tmp_path: Path) -> None:
    copy = Copy(ROOT, tmp_path)
    mutant = next(
        m for m in mutants(ROOT) if m.id == "contract/grant.py: VerifiedGrant.__post_init__: proof is not _VERIFIED"
    )
    test = killers.read()[mutant.id]
    assert copy.run([test], mutant).killer == test
    assert copy.run([test]).killer is None
    assert (tmp_path / mutant.path).read_bytes() == (ROOT / mutant.path).read_bytes()
