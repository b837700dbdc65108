"""Every Runner of the product is made where the policy plugin is required of it, and every App names that plugin first."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("root_agent", "remote_agent", "delegation", "dataset_agent", "control_plane", "grants", "cache", "evidence")
MAKE_RUNNERS = {"remote_agent/executor.py", "root_agent/plugin.py"}
NOT_USED = {
    "InMemoryRunner",
    "to_a2a",
    "get_fast_api_app",
    "LoopAgent",
    "SequentialAgent",
    "ParallelAgent",
    "AgentTool",
}


def trees(*words: str) -> dict[str, ast.Module]:
    """The files of the product that hold one of these words, parsed."""
    files = {path: path.read_text(encoding="utf-8") for package in PACKAGES for path in (ROOT / package).rglob("*.py")}
    return {
        str(path.relative_to(ROOT)): ast.parse(text)
        for path, text in sorted(files.items())
        if any(word in text for word in words)
    }


def calls(tree: ast.Module, name: str) -> list[ast.Call]:
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [node for node in found if isinstance(node.func, ast.Name) and node.func.id == name]


def test_a_runner_is_made_in_two_places_alone_each_after_the_plugin_was_required() -> None:
    makers = {path: tree for path, tree in trees("Runner").items() if calls(tree, "Runner")}
    assert set(makers) == MAKE_RUNNERS
    for path, tree in makers.items():
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        (maker,) = [node for node in functions if calls(ast.Module(node.body, []), "Runner")]
        (required,) = calls(ast.Module(maker.body, []), "require_policy")
        (made,) = calls(ast.Module(maker.body, []), "Runner")
        assert required.lineno < made.lineno, path


def test_an_app_names_its_plugins_and_the_policy_plugin_is_the_first() -> None:
    found = 0
    for path, tree in trees("App").items():
        for call in calls(tree, "App"):
            plugins = next((item.value for item in call.keywords if item.arg == "plugins"), None)
            assert plugins is not None, path
            if isinstance(plugins, ast.List):
                first = ast.unparse(plugins.elts[0])
                assert first.startswith("DatasetPolicyPlugin(") or first == "plugin", path
            found += 1
    assert found == 3


def test_what_of_adk_would_make_a_runner_or_an_agent_by_itself_is_not_used() -> None:
    used = {
        (path, alias.name)
        for path, tree in trees(*NOT_USED).items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.name in NOT_USED
    }
    assert used == set()
