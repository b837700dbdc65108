"""A container holds one role: what belongs to another is absent there, and nothing is broken."""

from __future__ import annotations

from pathlib import Path

from contract.settings import Settings
from dataset_agent.doctor import _files
from grants.keys import Role, init_keys


def statuses(settings: Settings) -> dict[str, str]:
    return {finding.check: finding.status for finding in _files(settings)}


def test_the_keys_of_another_role_are_absent_and_not_broken(tmp_path: Path) -> None:
    absent: dict[Role, set[str]] = {
        "root": {"issuer key", "dataset agent key"},
        "issuer": {"root holder key", "dataset agent key"},
        "remote": {"issuer key", "root holder key"},
    }
    for role, missing in absent.items():
        settings = Settings(home=tmp_path / role)
        for folder in (settings.issuer_dir, settings.root_dir, settings.remote_dir):
            folder.mkdir(parents=True, mode=0o700)  # an image ships the mount points
        init_keys(settings, roles=(role,))
        found = statuses(settings)
        assert {check for check, status in found.items() if status == "absent"} == missing
        assert "broken" not in found.values()
