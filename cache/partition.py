"""Who may share an answer (the partition) and for which question (the key).

    dsc:1:{dataset:version:capability:policy:schema:freshness:P}:e:I

``P`` is a keyed digest over everything an authorization may depend on, ``I`` one over P
and the intent. The braces keep a partition on one shard of a Redis cluster.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

from cache.encoding import begin_list, encode, encode_last
from cache.keys import ID_HEX, CacheKeys
from contract.authority import Authority
from contract.errors import Category, Component, DatasetAgentError
from contract.result import Intent
from contract.scope import RowConstraints, Sensitivity

KEY_PREFIX: Final = "dsc:1:"
KEYED: Final = ("dataset", "dataset_version", "capability", "policy_version", "schema_version", "freshness")
HIDDEN: Final = ("issuer", "tenant", "template", "rows", "columns", "masks", "max_sensitivity", "subject", "agent")
"""Parts of a scope that are in no header and no key but as part of a digest."""
PLAIN: Final = (*KEYED, "revision", "policy_id", "principal_class", "sensitivity", "media_type")
SCOPE: Final = (
    "issuer",
    "tenant",
    "dataset",
    "dataset_version",
    "revision",
    "schema_version",
    "capability",
    "template",
    "principal_class",
    "rows",
    "columns",
    "masks",
    "sensitivity",
    "max_sensitivity",
    "policy_id",
    "policy_version",
    "freshness",
    "media_type",
    "subject",
    "agent",
)
"""Everything that the digest of a partition is made of, in this order."""
REMEMBERED: Final = 2_048
_Facts = tuple[Any, ...]
_ROWS: Final = SCOPE.index("rows")
_NO_ROWS: Final = ((), encode([]))
_PLAIN_TEXT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+/-]{0,63}|~[0-9a-f]{16}")
_KEY: Final = re.compile(
    r"dsc:1:\{" + r"([A-Za-z0-9._+/~-]{1,64}):" * len(KEYED) + rf"([0-9a-f]{{{ID_HEX}}})\}}:e:([0-9a-f]{{{ID_HEX}}})"
)


@dataclass(frozen=True, slots=True)
class Partition:
    """One authorization partition.

    ``dimensions`` are what an operator may read (``PLAIN``); no scope, principal or
    argument is among them. In a ``restricted`` partition a single subject reads. ``scope`` is
    everything that the digest is made of, each part by its name: for ``part_ids`` only.
    """

    id: str
    dimensions: Mapping[str, str]
    restricted: bool
    scope: Mapping[str, Any] = field(repr=False, compare=False)
    place: str = field(repr=False, compare=False)
    """How every key inside it begins."""

    def named(self, key: str) -> str:
        """A key inside it for a log line: of a restricted capability it says that somebody asked."""
        if not self.restricted:
            return key
        return f"(of {self.dimensions['dataset']} {self.dimensions['capability']}, which is restricted)"

    def part_ids(self, keys: CacheKeys) -> dict[str, str]:
        """A keyed digest of each part that no plain dimension shows: what is sealed with an entry, to explain a miss."""
        return {name: keys.part_id(name, encode(self.scope[name])) for name in HIDDEN if name in self.scope}


@dataclass(frozen=True, slots=True)
class KeyParts:
    """A key taken apart: its plain dimensions and its two digests."""

    dimensions: Mapping[str, str]
    partition_id: str
    intent_id: str


def partition(
    authority: Authority, intent: Intent, *, freshness_class: str, media_type: str, keys: CacheKeys, agent_id: str = ""
) -> Partition:
    """The partition of what ``authority`` may see of ``intent``'s capability at the agent ``agent_id``.

    The agent is part of it because two that share a store and a secret may serve different data by one name and
    revision. Raises an INTERNAL fault where the intent is not the call that was authorized.
    """
    if (intent.dataset, intent.capability) != (authority.dataset, authority.capability):
        raise DatasetAgentError(
            Component.CACHE, Category.INTERNAL, "cache.partition.mismatch", "the intent is not the authorized call"
        )
    return _made((*_facts(authority, intent, freshness_class, media_type), agent_id), keys)


@lru_cache(maxsize=REMEMBERED)
def _made(facts: _Facts, keys: CacheKeys) -> Partition:
    """The partition of these facts. It depends on nothing else, so it is made once for all calls that share it."""
    scope = dict(zip(SCOPE, facts, strict=True))
    scope["rows"], _ = facts[_ROWS]
    dimensions = MappingProxyType({name: plain(scope[name] or "") for name in PLAIN})
    name = keys.partition_id(encode(tuple(scope.values())))
    return Partition(
        id=name,
        dimensions=dimensions,
        restricted=scope["sensitivity"] == Sensitivity.RESTRICTED.value,
        scope=MappingProxyType(scope),
        place=f"{KEY_PREFIX}{{{':'.join([dimensions[part] for part in KEYED])}:{name}}}:e:",
    )


def entry_key(partition: Partition, intent: Intent, *, keys: CacheKeys) -> str:
    """The key of an intent's result inside a partition."""
    begun = _meaning(partition.id, intent.dataset, intent.capability, intent.template_digest)
    return partition.place + keys.intent_id(encode_last(begun, intent.arguments))


@lru_cache(maxsize=REMEMBERED)
def _meaning(partition_id: str, dataset: str, capability: str, template_digest: str) -> str:
    """What is encoded of an intent's meaning before its arguments."""
    return begin_list(5, partition_id, dataset, capability, template_digest)


def family_key(
    partition: Partition, intent: Intent, fixed: Mapping[str, Any], roles: frozenset[str], *, keys: CacheKeys
) -> str:
    """The key of the list of a family's stored results: no intent's result has it, for no meaning begins like this."""
    family = ["family", partition.id, intent.dataset, intent.capability, intent.template_digest, fixed, roles]
    return partition.place + keys.intent_id(encode(family))


def hidden_parts(partition: Partition, intent: Intent, *, keys: CacheKeys) -> dict[str, str]:
    """What is sealed with an entry to explain a miss: ``Partition.part_ids``, and a digest of the arguments alone."""
    return partition.part_ids(keys) | {"arguments": keys.part_id("arguments", encode(intent.arguments))}


def parse_key(key: str) -> KeyParts | None:
    """The parts of a key this package made, or ``None`` for any other text."""
    match = _KEY.fullmatch(key)
    if match is None:
        return None
    *values, partition_id, intent_id = match.groups()
    if not all(is_plain(value) for value in values):
        return None
    return KeyParts(MappingProxyType(dict(zip(KEYED, values, strict=True))), partition_id, intent_id)


@lru_cache(maxsize=4_096)
def plain(value: str) -> str:
    """``value`` if it can stand in a key, a pattern and a terminal, else a digest of it.

    Braces, colons, stars and control characters in an id would break hash tags, ACL
    patterns and listings.
    """
    return (
        str(value) if is_plain(value) else "~" + hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    )


def is_plain(value: str) -> bool:
    """Whether ``value`` is a dimension as ``plain`` writes them."""
    return _PLAIN_TEXT.fullmatch(value) is not None


def _facts(authority: Authority, intent: Intent, freshness_class: str, media_type: str) -> _Facts:
    """Everything the rows may depend on but the agent, in the order of ``SCOPE``, with row constraints as compiled: values bound.

    What is left out on purpose: names of this one grant and call (txn, jti, client,
    decision id), and clearance, entitlements and attributes, whose whole effect is in the
    constraints, columns and masks they led to.
    """
    principal, decision, masks = authority.principal, authority.decision, authority.masks
    return (
        principal.issuer,
        principal.tenant,
        authority.dataset,
        authority.dataset_version,
        authority.revision,
        authority.schema_version,
        authority.capability,
        intent.template_digest,
        principal.principal_class,
        _rows(authority.rows) if authority.rows else _NO_ROWS,
        authority.columns,
        tuple([part for column in sorted(masks) for part in (column, masks[column].value)]) if masks else (),
        authority.sensitivity.value,
        authority.scope.max_sensitivity.value,
        decision.policy_id,
        decision.policy_version,
        freshness_class,
        media_type,
        principal.subject if authority.sensitivity is Sensitivity.RESTRICTED else None,
    )


def _rows(rows: RowConstraints) -> tuple[tuple[Any, ...], bytes]:
    """Six items a column, in the order of the columns, and their encoding: ``1`` is ``True`` to a dictionary."""
    parts: list[Any] = []
    for column in sorted(rows):
        held = rows[column]
        parts += (column, held.one_of, held.not_one_of, held.max, held.min, held.prefix)
    return tuple(parts), encode(parts)
