"""What the words of a card are held against is of what its reader sees, whoever asked before."""

from __future__ import annotations

import itertools

import pytest

from control_plane.descriptor import DatasetCapability, DatasetDescriptor
from control_plane.published import Published
from tests.shipped_registry import shipped_registry

DESCRIPTORS = [manifest.published() for manifest in shipped_registry().datasets.values()]
SEEN = [(descriptor, capability) for descriptor in DESCRIPTORS for capability in descriptor.capabilities]


def alone(descriptor: DatasetDescriptor, *capabilities: DatasetCapability) -> DatasetDescriptor:
    return descriptor.model_copy(update={"capabilities": capabilities})


@pytest.mark.parametrize(("descriptor", "capability"), SEEN, ids=lambda item: getattr(item, "name", ""))
def test_who_may_ask_less_changes_nothing_for_who_may_ask_more(
    descriptor: DatasetDescriptor, capability: DatasetCapability
) -> None:
    """The objects of the capabilities are shared between people: what each sees beside them is not."""
    views = [descriptor, alone(descriptor, capability)]
    views += [alone(descriptor, capability, other) for other in descriptor.capabilities if other is not capability]
    for first, second in itertools.permutations(views, 2):
        Published.of(first, capability)
        assert Published.of(second, capability) == Published._made(second, capability)
        assert Published.of(second, capability) is Published.of(second, capability)


def test_views_differ_so_that_the_test_above_can_fail() -> None:
    assert any(
        Published._made(alone(descriptor, capability), capability) != Published._made(descriptor, capability)
        for descriptor, capability in SEEN
    )
