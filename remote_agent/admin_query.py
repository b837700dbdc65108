"""What an operator asks of a cache, as text: read strictly, for the commands and the admin endpoint alike."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from zoneinfo import ZoneInfo

from cache.keys import KID_HEX
from cache.selection import CHOSEN_BY, MAX_LISTED, Selection, Sort
from contract.errors import Category, Component, DatasetAgentError
from contract.ids import is_slug
from contract.zone import read_zone

PREFIX: Final = "/admin/cache/"
"""Where the admin endpoint of a dataset agent is."""
_LONGEST: Final = 512
_MOST_SECONDS: Final = 1e10
CHOOSING: Final = (*CHOSEN_BY, "policy", "secret", "older_than_s", "expired", "problem")
"""The members of a selection."""
_SECRET: Final = re.compile(rf"current|earlier|other|[0-9a-f]{{{KID_HEX}}}")


@dataclass(frozen=True, slots=True)
class Asked:
    """A call that is only explained: for whom (a name of the directory), of what, with which arguments."""

    principal: str = field(repr=False)
    dataset: str
    capability: str
    arguments: Mapping[str, Any] = field(repr=False)
    zone: ZoneInfo | None = None
    """Where it would be asked, for what is said in words such as a period; ``None`` for what the settings say."""

    @property
    def call(self) -> bytes:
        members = {"dataset": self.dataset, "capability": self.capability, "arguments": dict(self.arguments)}
        return json.dumps(members, ensure_ascii=False).encode("utf-8", "surrogatepass")


@dataclass(frozen=True, slots=True)
class Purge:
    """What to remove: what is ``chosen``; only what is damaged of it; without any choice ``everything`` must be said."""

    chosen: Selection
    damaged: bool = False
    everything: bool = False
    dry_run: bool = False


def read_selection(members: Mapping[str, Any]) -> Selection:
    """From texts, a number of seconds and booleans. Raises INVALID_INPUT."""
    older = members.get("older_than_s")
    policy, secret = members.get("policy"), members.get("secret")
    return Selection(
        dimensions={word: _text(word, members[word]) for word in CHOSEN_BY if members.get(word) is not None},
        policy=None if policy is None else _text("policy", policy),
        secret=None if secret is None else _secret(secret),
        older_than_s=None if older is None else _seconds(older),
        expired=_flag("expired", members),
        problem=_flag("problem", members),
    )


def read_listing(members: Mapping[str, Any]) -> tuple[Selection, Sort, int]:
    """A selection, an order and how many at most. Raises INVALID_INPUT."""
    _only(members, (*CHOOSING, "sort", "limit"))
    order, limit = members.get("sort", Sort.KEY.value), members.get("limit", 100)
    if order not in list(Sort):
        raise bad(f"sort is one of {', '.join(Sort)}")
    if type(limit) is not int or not 1 <= limit <= MAX_LISTED:
        raise bad(f"limit is a number from 1 to {MAX_LISTED}")
    return read_selection(members), Sort(order), limit


def read_purge(members: Mapping[str, Any]) -> Purge:
    """Raises INVALID_INPUT."""
    _only(members, (*CHOOSING, "damaged", "all", "dry_run"))
    flags = {name: _flag(name, members) for name in ("damaged", "all", "dry_run")}
    return Purge(read_selection(members), flags["damaged"], flags["all"], flags["dry_run"])


def read_asked(members: Mapping[str, Any]) -> Asked:
    """``as`` (a name of the directory), ``dataset``, ``capability``, ``arguments``, ``zone``. Raises INVALID_INPUT."""
    _only(members, ("as", "dataset", "capability", "arguments", "zone"))
    person, arguments = members.get("as"), members.get("arguments", {})
    if not isinstance(person, str) or not person or len(person) > _LONGEST or not isinstance(arguments, dict):
        raise bad("as is a name of principals.yaml, and arguments an object")
    names = {name: members.get(name) for name in ("dataset", "capability")}
    if not all(isinstance(value, str) and is_slug(value) for value in names.values()):
        raise bad("dataset and capability are names of a-z, 0-9, '_' and '-'")
    return Asked(person, str(names["dataset"]), str(names["capability"]), arguments, _zone(members.get("zone")))


def read_key(value: Any) -> str:
    """A key or the end of one. Raises INVALID_INPUT."""
    return _text("key", value)


def bad(message: str) -> DatasetAgentError:
    return DatasetAgentError(Component.REMOTE_AGENT, Category.INVALID_INPUT, "remote_agent.admin.query", message)


def _only(members: Mapping[str, Any], known: tuple[str, ...]) -> None:
    if not members.keys() <= set(known):
        raise bad(f"it takes {', '.join(known)} and nothing else")


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value or len(value) > _LONGEST:
        raise bad(f"{name} is text of 1 to {_LONGEST} characters")
    return value


def _secret(value: Any) -> str:
    """What no secret is called would choose no entry, and with a purge every restricted one."""
    text = _text("secret", value)
    if not _SECRET.fullmatch(text):
        raise bad(f"secret is current, earlier, other, or an id of {KID_HEX} hex digits, as keys list shows it")
    return text


def _flag(name: str, members: Mapping[str, Any]) -> bool:
    value = members.get(name, False)
    if type(value) is not bool:
        raise bad(f"{name} is true or false")
    return value


def _zone(value: Any) -> ZoneInfo | None:
    try:
        return None if value is None else read_zone(value)
    except ValueError as error:
        raise bad(f"zone: {error}") from error


def _seconds(value: Any) -> float:
    if type(value) not in (int, float) or not 0 <= value <= _MOST_SECONDS:
        raise bad("older_than_s is a number of seconds")
    return float(value)
