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

from cache.encoding import encode
from cache.keys import ID_HEX, CacheKeys
from contract.authority import Authority
from contract.errors import Category, Component, DatasetAgentError
from contract.result import Intent
from contract.scope import RowConstraints, Sensitivity

KEY_PREFIX: Final = "dsc:1:"
KEYED: Final = ("dataset", "dataset_version", "capability", "policy_version", "schema_version", "freshness")
HIDDEN: Final = ("issuer", "tenant", "template", "rows", "columns", "masks", "max_sensitivity", "subject")
"""Parts of a scope that are in no header and no key but as part of a digest."""
PLAIN: Final = (*KEYED, "revision", "policy_id", "principal_class", "sensitivity", "media_type")
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
    scope: Mapping[str, Any] = field(repr=False, compare=False, default_factory=lambda: MappingProxyType({}))

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
    authority: Authority, intent: Intent, *, freshness_class: str, media_type: str, keys: CacheKeys
) -> Partition:
    """The partition of what ``authority`` may see of ``intent``'s capability.

    Raises an INTERNAL fault where the intent is not the call that was authorized.
    """
    if (intent.dataset, intent.capability) != (authority.dataset, authority.capability):
        raise DatasetAgentError(
            Component.CACHE, Category.INTERNAL, "cache.partition.mismatch", "the intent is not the authorized call"
        )
    scope = _scope(authority, intent, freshness_class, media_type)
    return Partition(
        id=keys.partition_id(encode(tuple(scope.values()))),
        dimensions=_plain_dimensions(authority, freshness_class, media_type),
        restricted=authority.sensitivity is Sensitivity.RESTRICTED,
        scope=scope,
    )


def entry_key(partition: Partition, intent: Intent, *, keys: CacheKeys) -> str:
    """The key of an intent's result inside a partition."""
    meaning = [partition.id, intent.dataset, intent.capability, intent.template_digest, intent.arguments]
    where = ":".join([partition.dimensions[name] for name in KEYED])
    return f"{KEY_PREFIX}{{{where}:{partition.id}}}:e:{keys.intent_id(encode(meaning))}"


def family_key(
    partition: Partition, intent: Intent, fixed: Mapping[str, Any], roles: frozenset[str], *, keys: CacheKeys
) -> str:
    """The key of the list of a family's stored results: no intent's result has it, for no meaning begins like this."""
    family = ["family", partition.id, intent.dataset, intent.capability, intent.template_digest, fixed, roles]
    where = ":".join([partition.dimensions[name] for name in KEYED])
    return f"{KEY_PREFIX}{{{where}:{partition.id}}}:e:{keys.intent_id(encode(family))}"


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


def _scope(authority: Authority, intent: Intent, freshness_class: str, media_type: str) -> dict[str, Any]:
    """Everything the rows may depend on, by name and in a fixed order, with row constraints as compiled: values bound.

    What is left out on purpose: names of this one grant and call (txn, jti, client,
    decision id), and clearance, entitlements and attributes, whose whole effect is in the
    constraints, columns and masks they led to.
    """
    principal = authority.principal
    return {
        "issuer": principal.issuer,
        "tenant": principal.tenant,
        "dataset": authority.dataset,
        "dataset_version": authority.dataset_version,
        "revision": authority.revision,
        "schema_version": authority.schema_version,
        "capability": authority.capability,
        "template": intent.template_digest,
        "principal_class": principal.principal_class,
        "rows": _rows(authority.rows),
        "columns": authority.columns,
        "masks": [part for column in sorted(authority.masks) for part in (column, authority.masks[column].value)],
        "sensitivity": authority.sensitivity.value,
        "max_sensitivity": authority.scope.max_sensitivity.value,
        "policy_id": authority.decision.policy_id,
        "policy_version": authority.decision.policy_version,
        "freshness": freshness_class,
        "media_type": media_type,
        "subject": principal.subject if authority.sensitivity is Sensitivity.RESTRICTED else None,
    }


def _rows(rows: RowConstraints) -> list[Any]:
    """Six items a column, in the order of the columns."""
    out: list[Any] = []
    for column in sorted(rows):
        held = rows[column]
        out += (column, held.one_of, held.not_one_of, held.max, held.min, held.prefix)
    return out


def _plain_dimensions(authority: Authority, freshness_class: str, media_type: str) -> Mapping[str, str]:
    """The values of ``PLAIN``, in its order."""
    return MappingProxyType(
        {
            "dataset": plain(authority.dataset),
            "dataset_version": plain(authority.dataset_version),
            "capability": plain(authority.capability),
            "policy_version": plain(authority.decision.policy_version),
            "schema_version": plain(authority.schema_version),
            "freshness": plain(freshness_class),
            "revision": plain(authority.revision),
            "policy_id": plain(authority.decision.policy_id or ""),
            "principal_class": plain(authority.principal.principal_class),
            "sensitivity": authority.sensitivity.value,
            "media_type": plain(media_type),
        }
    )
