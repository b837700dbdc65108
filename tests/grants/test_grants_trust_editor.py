"""What the commands of keys may change in the trust file, and what they may not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from contract.errors import DatasetAgentError
from grants.trust import MAX_REVOKED, Trust
from grants.trust_editor import TrustEditor
from grants.trust_file import trust_target, trust_text
from tests.grants.grants_world import ISSUER, REMOTE, ROOT, SECOND, STRANGER, TRUST, signer

ABSENT = "urn:dataset-agent:absent"
KEY = STRANGER.public_key


def refused(change: Callable[[], object]) -> str:
    with pytest.raises(DatasetAgentError) as stop:
        change()
    return stop.value.code.removeprefix("grants.trust.")


def two_keys() -> TrustEditor:
    """The root agent with a present and a further key."""
    editor = TrustEditor(TRUST)
    editor.stage_agent_key(ROOT, KEY)
    return editor


def test_a_further_key_is_retired_and_kept_with_what_it_signed() -> None:
    editor = two_keys()
    assert editor.retire_agent_key(ROOT, KEY.thumbprint, keep=True)
    assert editor.trust.agents[ROOT] == replace(TRUST.agents[ROOT], retired_keys=(KEY,))


def test_only_a_further_key_of_that_agent_is_retired() -> None:
    editor = two_keys()
    before = editor.trust
    assert not editor.retire_agent_key(ROOT, signer(77).public_key.thumbprint, keep=True)
    assert not editor.retire_agent_key(SECOND, KEY.thumbprint, keep=True)
    assert not editor.retire_agent_key(ROOT, TRUST.agents[ROOT].key.thumbprint, keep=True)
    assert not editor.remove_issuer_key(ABSENT, KEY.thumbprint)
    assert editor.trust == before


def test_nobody_who_is_absent_gets_a_key() -> None:
    editor = TrustEditor(TRUST)
    assert refused(lambda: editor.add_issuer_key(ABSENT, KEY)) == "issuer"
    assert refused(lambda: editor.stage_agent_key(ABSENT, KEY)) == "agent"
    assert refused(lambda: editor.switch_agent_key(ABSENT, KEY)) == "agent"


def test_the_list_of_revoked_keys_has_an_end() -> None:
    full = frozenset(f"{number:043d}" for number in range(MAX_REVOKED))
    editor = TrustEditor(replace(TRUST, revoked_keys=full))
    assert refused(lambda: editor.revoke(KEY.thumbprint)) == "revoked"
    assert editor.trust.revoked_keys == full


def test_what_would_read_otherwise_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "trust.toml"
    assert REMOTE in trust_text(TRUST, path)
    beside: Trust = replace(TRUST, unreachable=frozenset({ISSUER}))
    assert refused(lambda: trust_text(beside, path)) == "refused"


def test_a_link_whose_folder_is_gone_is_not_followed(tmp_path: Path) -> None:
    link = tmp_path / "trust.toml"
    link.symlink_to(tmp_path / "gone" / "trust.toml")
    assert refused(lambda: trust_target(link)) == "unwritable"
    assert trust_target(tmp_path / "plain.toml") == tmp_path / "plain.toml"
