"""Whatever is wrong is one line that says what to do, with its exit code; nothing is served here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from contract.errors import DatasetAgentError
from contract.settings import SHIPPED_DATASETS, Settings
from dataset_agent import AGENTS_DIR
from dataset_agent.configuration import check_user
from tests.dataset_agent.command_line import HOUSE, PROGRAM, CommandLine, environment, from_nothing

pytestmark = pytest.mark.live

NOWHERE = "redis://:not-to-be-shown@127.0.0.1:1/0"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def command(home: Path) -> CommandLine:
    made = CommandLine({"HOME": str(home), "URL": "http://127.0.0.1:1"})
    assert made("keys", "init").code == 0
    return made


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("ask",), "error: Missing argument 'question'; see dataset-agent ask --help"),
        (("ask", "x"), "error: Missing option '--as'; see dataset-agent ask --help"),
        (("ask", "x", "--as", "analyst", "--colour"), "error: No such option: --colour; see dataset-agent ask --help"),
        (("frobnicate",), "error: No such command 'frobnicate'; see dataset-agent --help"),
        (("cache", "frob"), "error: No such command 'frob'; see dataset-agent cache --help"),
        (("keys", "init", "--role", "king"), "error: Invalid value for '--role': 'king' is not one of"),
        (("serve", "--port", "70000"), "error: Invalid value for '--port'"),
    ],
)
def test_usage_is_one_line_that_names_the_help(command: CommandLine, arguments: tuple[str, ...], said: str) -> None:
    run = command(*arguments)
    assert run.code == 2
    assert run.line.startswith(said)


@pytest.mark.parametrize(
    ("setting", "value", "said"),
    [
        ("LOG_LEVEL", "LOUD", "correct or unset DATASET_AGENT_LOG_LEVEL: Input should be 'DEBUG'"),
        ("ROOT_TTL", "900", "correct or unset DATASET_AGENT_ROOT_TTL: Input should be less than or equal to 300"),
        ("POLICY_BUDGET", "soon", "correct or unset DATASET_AGENT_POLICY_BUDGET"),
        ("CACHE_ENABLED", "perhaps", "correct or unset DATASET_AGENT_CACHE_ENABLED"),
        ("STATE_URL", "postgres://h/x", "correct or unset DATASET_AGENT_STATE_URL: it must start with redis://"),
        ("CACHE_URL", "localhost:6379", "correct or unset DATASET_AGENT_CACHE_URL: it must start with redis://"),
        (
            "CACHE_URL",
            "redis://h:port",
            "correct or unset DATASET_AGENT_CACHE_URL: it must name servers as HOST or HOST:PORT",
        ),
        ("POLICY_URL", "opa:8181", "correct or unset DATASET_AGENT_POLICY_URL: it must start with https:// or http://"),
        (
            "LEDGER_URL",
            "mysql://h/x",
            "correct or unset DATASET_AGENT_LEDGER_URL: a ledger's URL begins with postgresql",
        ),
        ("LEDGER_URL", "postgresql:///x", "correct or unset DATASET_AGENT_LEDGER_URL: it must say its host"),
        ("QUERY_MEMORY", "512", "correct or unset DATASET_AGENT_QUERY_MEMORY: it must be a size with its unit"),
        ("QUERY_TIMEOUT", "30s", "correct or unset DATASET_AGENT_QUERY_TIMEOUT: it must be a number without a unit"),
        ("CACHE_MAX_BYTES", "256MB", "DATASET_AGENT_CACHE_MAX_BYTES: it must be a whole number without a unit"),
        ("CACHE_ENABLED", "maybe", "correct or unset DATASET_AGENT_CACHE_ENABLED: it must be true or false"),
        ("ROOT_SIGNER", "kms", "correct or unset DATASET_AGENT_ROOT_SIGNER: it must be module:factory"),
        ("HOME", "", "correct or unset DATASET_AGENT_HOME: it is empty"),
        ("DATASETS", " ", "correct or unset DATASET_AGENT_DATASETS: it is empty"),
        ("HOST", "", "correct or unset DATASET_AGENT_HOST: it is empty"),
        ("MODEL", "", "correct or unset DATASET_AGENT_MODEL: it is empty"),
        ("HOME", "~nobody-of-this-name/x", "correct or unset DATASET_AGENT_HOME: it begins with ~ and no home folder"),
        ("HOME", "/dev/null", "DATASET_AGENT_HOME names /dev/null, which is no folder"),
        ("DATASETS", "/no/such/folder", "DATASET_AGENT_DATASETS names /no/such/folder, which is no folder"),
    ],
)
@pytest.mark.parametrize(
    "arguments", [("doctor",), ("serve", "--port", "0"), ("cache", "keys")], ids=["doctor", "serve", "cache"]
)
def test_a_bad_setting_is_named(
    command: CommandLine, arguments: tuple[str, ...], setting: str, value: str, said: str
) -> None:
    run = command(*arguments, **{setting: value})
    assert run.code == 2
    assert said in run.line


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("card", "127.0.0.1:8801"), "error: correct the address: it must start with https:// or http://"),
        (("serve", "--port", "0", "--host", ""), "error: correct --host: it is empty"),
    ],
)
def test_what_an_argument_says_is_put_right_there_and_not_in_a_setting(
    command: CommandLine, arguments: tuple[str, ...], said: str
) -> None:
    run = command(*arguments)
    assert run.code == 2
    assert run.line == said


def test_a_setting_that_is_none_is_told_with_the_one_that_is_near(command: CommandLine) -> None:
    run = command("keys", "list", DATASET="/tmp", PORT="80")
    assert run.code == 0
    assert run.err.splitlines() == [
        "warning: DATASET_AGENT_DATASET is no setting: did you mean DATASET_AGENT_DATASETS?",
        "warning: DATASET_AGENT_PORT is no setting: correct its name or unset it",
    ]


def test_what_kubernetes_says_of_a_service_is_no_misspelt_setting(command: CommandLine) -> None:
    run = command(
        "keys",
        "list",
        PORT="tcp://10.0.0.1:8801",
        SERVICE_HOST="10.0.0.1",
        SERVICE_PORT="8801",
        SERVICE_PORT_HTTP="8801",
        PORT_8801_TCP="tcp://10.0.0.1:8801",
        PORT_8801_TCP_ADDR="10.0.0.1",
        ROOT_SERVICE_HOST="10.0.0.2",
        ROOT_PORT="tcp://10.0.0.2:8800",
        ROOT_PORT_8800_TCP_PROTO="tcp",
    )
    assert (run.code, run.err) == (0, "")


def test_a_tilde_that_no_shell_has_seen_is_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("DATASET_AGENT_HOME", "~/state")
    monkeypatch.setenv("DATASET_AGENT_DATASETS", "~")
    assert (Settings().home, Settings().datasets) == (tmp_path / "state", tmp_path)


@pytest.mark.parametrize(
    ("role", "wrong"),
    [
        ("serve", {"POLICY_URL": "http://192.0.2.1:8181"}),
        ("root", {"POLICY_URL": "http://192.0.2.1:8181"}),
        ("serve", {"CACHE_SECRET": "hush"}),
        ("root", {"MEMO_SECRET": "hush"}),
        ("serve", {"ADMIN_TOKEN": "hush"}),
        ("serve", {"METRICS_TOKEN": "hush"}),
        ("serve", {"METRICS_TOKEN": "m" * 40, "METRICS_TOKEN_FILE": "hush"}),
        ("serve", {"REMOTE_JWK": "hush"}),
        ("root", {"ISSUER_JWK": "hush"}),
        ("serve", {"REMOTE_JWK": "hush", "REMOTE_SIGNER": "hush:hush"}),
    ],
)
def test_a_setting_that_is_wrong_by_itself_is_usage_whoever_reads_it_and_is_not_shown(
    command: CommandLine, role: str, wrong: dict[str, str]
) -> None:
    run = command(role, "--port", "0", **wrong)
    assert run.code == 2
    assert [name for name in wrong if f"DATASET_AGENT_{name}" not in run.line] == []
    assert "hush" not in run.line


def test_a_file_that_a_setting_names_is_looked_at_and_is_a_fault_where_it_is_wrong(
    command: CommandLine, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("hush")
    token.chmod(0o600)
    run = command("serve", "--port", "0", ADMIN_TOKEN_FILE=str(token))
    assert run.code == 1
    assert str(token) in run.line


@pytest.mark.parametrize(
    "arguments", [("serve", "--port", "0"), ("ask", "--as", "analyst", "List flights"), ("login", "--as", "analyst")]
)
def test_a_folder_of_one_dataset_is_no_datasets_folder(command: CommandLine, arguments: tuple[str, ...]) -> None:
    folder = SHIPPED_DATASETS / "purification-batches"
    run = command(*arguments, DATASETS=str(folder))
    assert run.code == 2
    assert f"DATASET_AGENT_DATASETS names {folder}, which holds neither policies nor principals.yaml" in run.line


def test_no_password_of_a_bad_address_is_shown(command: CommandLine) -> None:
    run = command("doctor", STATE_URL="postgres://:hush@h/x", CACHE_URL="redis://:hush@h:x")
    assert run.code == 2
    assert "hush" not in run.line
    run = command("doctor", LEDGER_URL="postgresql://u:hush@db.example/x")
    assert run.code == 2
    assert "hush" not in run.line
    with pytest.raises(ValidationError) as stop:
        Settings(state_url="postgres://:hush@h/x")
    assert "hush" not in str(stop.value)


def test_every_bad_setting_is_named_at_once_and_no_value_is_shown(command: CommandLine) -> None:
    line = command("doctor", ROOT_TTL="hush-hush", LEAF_TTL="hush-hush").line
    assert "DATASET_AGENT_ROOT_TTL" in line
    assert "DATASET_AGENT_LEAF_TTL" in line
    assert "hush" not in line


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        (("ask", "--as", "analyst", "anything"), "keys/issuer/identity.jwk"),
        (("login", "--as", "analyst"), "keys/issuer/identity.jwk"),
        (("serve", "--port", "0"), "keys/remote/agent.jwk"),
    ],
)
def test_a_missing_key_names_the_command_that_makes_it(
    command: CommandLine, tmp_path: Path, arguments: tuple[str, ...], key: str
) -> None:
    run = command(*arguments, HOME=str(tmp_path))
    assert run.code == 1
    told = "run: dataset-agent keys init, or run this where that role has its keys"
    assert run.line == f"error: there is no key at {tmp_path}/{key}; {told}"


@pytest.mark.parametrize("arguments", [("card",), ("root", "--port", "0")])
def test_a_missing_trust_file_names_the_command_that_makes_it(
    command: CommandLine, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    run = command(*arguments, HOME=str(tmp_path))
    assert run.code == 1
    assert run.line == f"error: there is no trust file at {tmp_path}/trust.toml; run: dataset-agent keys init"


@pytest.mark.parametrize(
    ("place", "mode", "arguments"),
    [
        ("keys/issuer/identity.jwk", 0o644, ("login", "--as", "analyst")),
        ("keys/issuer", 0o755, ("ask", "--as", "analyst", "anything")),
        ("keys/root/holder.jwk", 0o640, ("card",)),
        ("keys/remote/agent.jwk", 0o604, ("serve", "--port", "0")),
        ("keys/remote/cache.secret", 0o644, ("serve", "--port", "0")),
        ("keys/remote", 0o755, ("keys", "init")),
    ],
)
def test_a_key_that_others_can_read_is_refused_with_the_chmod_to_run(
    command: CommandLine, home: Path, place: str, mode: int, arguments: tuple[str, ...]
) -> None:
    path = home / place
    before = path.stat().st_mode & 0o777
    path.chmod(mode)
    try:
        run = command(*arguments)
    finally:
        path.chmod(before)
    assert run.code == 1
    assert f"chmod {before:o} {path}" in run.line


def test_keys_init_says_what_it_made_and_keeps_what_is_there(tmp_path: Path) -> None:
    command = CommandLine({"HOME": str(tmp_path)})
    only = command("keys", "init", "--role", "issuer", "--json").json
    assert [Path(path).name for path in only["created"]] == ["grant.jwk", "identity.jwk"]
    rest = command("keys", "init", "--json").json
    assert [Path(path).name for path in rest["created"]] == ["holder.jwk", "agent.jwk", "cache.secret"]
    assert rest["kept"] == only["created"]
    assert command("keys", "init").out.count("kept ") == 5
    forced = command("keys", "init", "--role", "root", "--force", "--json").json
    assert [Path(path).name for path in forced["created"]] == ["holder.jwk"]


def test_a_state_store_that_does_not_answer_stops_the_start(command: CommandLine) -> None:
    run = command("serve", "--port", "0", STATE_URL=NOWHERE)
    assert run.code == 1
    assert run.line.startswith("error: the state store does not answer")
    assert "DATASET_AGENT_STATE_URL" in run.line
    assert "not-to-be-shown" not in run.line


def test_a_cache_that_does_not_answer_is_one_line_for_who_looks_into_it(command: CommandLine) -> None:
    for verb in (("keys",), ("stats",), ("show", "x")):
        run = command("cache", *verb, CACHE_URL=NOWHERE)
        assert run.code == 1
        assert "correct DATASET_AGENT_CACHE_URL" in run.line
        assert "not-to-be-shown" not in run.line


@pytest.mark.parametrize("verb", [("keys",), ("keys", "--json"), ("stats",), ("show", "x")])
def test_a_home_that_is_not_there_is_said_and_not_made(command: CommandLine, tmp_path: Path, verb: tuple[str]) -> None:
    run = command("cache", *verb, HOME=str(tmp_path / "hmoe"))
    assert run.code == 2
    assert run.line == (
        f"error: there is no home at {tmp_path}/hmoe: "
        "correct DATASET_AGENT_HOME, or make one with dataset-agent keys init"
    )
    assert list(tmp_path.iterdir()) == []


def test_looking_into_a_home_without_a_cache_makes_none(command: CommandLine, tmp_path: Path) -> None:
    run = command("cache", "keys", HOME=str(tmp_path))
    assert (run.code, run.out) == (0, "The cache is empty.\n")
    assert run.err == f"nothing was ever stored in {tmp_path}: ask something, or check DATASET_AGENT_HOME\n"
    assert command("cache", "keys", "--json", HOME=str(tmp_path)).json["entries"] == []
    assert command("cache", "stats", "--json", HOME=str(tmp_path)).json["entries"] == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "::ffff:0.0.0.0", "::ffff:0:0"])
def test_an_address_that_nobody_could_ask_is_not_advertised(command: CommandLine, host: str) -> None:
    run = command("serve", "--port", "0", "--host", host)
    assert run.code == 2
    assert "set DATASET_AGENT_PUBLIC_URL" in run.line


def test_a_home_that_cannot_be_made_is_named(command: CommandLine) -> None:
    run = command("keys", "init", HOME="/proc/no-such-place")
    assert run.code == 1
    assert run.line.startswith("error: /proc/no-such-place")


def test_an_address_of_another_machine_cannot_be_served(command: CommandLine) -> None:
    run = command("policy", "serve", "--port", "0", "--host", "192.0.2.1")
    assert run.code == 1
    assert run.line.startswith("error: cannot listen on 192.0.2.1:0")


@pytest.fixture
def datasets(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SHIPPED_DATASETS, tmp_path / "datasets"))


@pytest.mark.parametrize(
    ("file", "arguments"),
    [
        ("principals.yaml", ("login", "--as", "analyst")),
        ("principals.yaml", ("serve", "--port", "0")),
        ("policies/policies.cedar", ("serve", "--port", "0")),
        ("policies/policies.cedar", ("policy", "serve", "--port", "0")),
    ],
)
def test_a_broken_file_that_everything_needs_stops_the_start(
    command: CommandLine, datasets: Path, file: str, arguments: tuple[str, ...]
) -> None:
    path = datasets / file if (datasets / file).exists() else next((datasets / "policies").glob("*.cedar"))
    path.write_text("permit [ this is: nothing")
    run = command(*arguments, DATASETS=str(datasets))
    assert run.code == 1
    assert path.name in run.line


@pytest.mark.parametrize("letters", [":x:", ":key:", "[red]"])
def test_a_path_is_named_letter_by_letter(command: CommandLine, tmp_path: Path, letters: str) -> None:
    assert (
        f"there is no ledger at {tmp_path}/{letters}"
        in command("evidence", "list", "--ledger", f"{tmp_path}/{letters}").line
    )
    made = command("keys", "init", HOME=f"{tmp_path}/{letters}")
    assert f"Public keys are pinned in {tmp_path}/{letters}/trust.toml\n" in made.out


def test_what_nobody_foresaw_is_one_line_that_says_how_to_see_more() -> None:
    program = "import dataset_agent.cache_commands as c; c.load_settings = None; " + PROGRAM
    run = from_nothing("cache", "keys", program=program)
    assert run.code == 1
    assert run.line == (
        "error: this should not have happened (TypeError): "
        "run it again with DATASET_AGENT_LOG_LEVEL=DEBUG to see where, and report that"
    )
    told = from_nothing("cache", "keys", program=program, LOG_LEVEL="DEBUG").err
    assert "fault=TypeError < dataset_agent/" in told and "callable" not in told


def test_a_reader_that_goes_away_is_no_fault_of_the_terminal(home: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "doctor", "--json"],
        env=environment({"HOME": str(home)}),
        cwd=HOUSE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.close()
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (1, b"")


def test_a_terminal_without_the_letters_gets_escapes(command: CommandLine) -> None:
    run = from_nothing("ask", "--as", "analyst µ", "x", HOME=command.settings["HOME"])
    assert run.code == 2
    assert "'analyst µ'" in run.line


def test_a_command_loads_nothing_that_another_one_needs(tmp_path: Path) -> None:
    program = "import sys; from dataset_agent.cli import run; run(sys.argv[1:]); print(*sys.modules)"
    loaded = from_nothing("cache", "stats", "--json", program=program, HOME=str(tmp_path)).out.split()
    assert "redis" in loaded or "sqlite3" in loaded
    assert not {"google.adk", "a2a", "fastapi", "duckdb", "cedarpy"} & set(loaded)


def test_the_list_of_commands_says_what_each_does(command: CommandLine) -> None:
    run = command("--help")
    assert run.code == 0
    for name in ("demo", "serve", "ask", "cache", "evidence", "reload"):
        assert f" {name} " in run.out
    assert command("--version").out.strip()
    assert AGENTS_DIR.is_dir()


@pytest.mark.parametrize("files", [(), ("root/ledger.sqlite",)])
def test_a_command_that_writes_leaves_nothing_in_another_users_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: tuple[str, ...]
) -> None:
    settings = Settings(home=tmp_path)
    mine = os.geteuid()
    named = [tmp_path / name for name in files]
    check_user(settings, *named)
    for path in named:
        path.parent.mkdir()
        path.touch()
    if mine == 0:  # the superuser in a home of somebody else
        os.chown(tmp_path, 65534, 65534)
    for path in named:
        os.chown(path, tmp_path.stat().st_uid, -1)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(DatasetAgentError, match="run this as that user") as stop:
        check_user(settings, *named)
    assert stop.value.code == "command.home.user"
