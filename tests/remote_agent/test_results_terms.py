"""Whose a stored result is, and under what it was made: each part of both is asked for by itself."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from contract.result import StoredResult
from contract.scope import Sensitivity
from contract.verdict import NotGranted, Reason
from remote_agent.owners import owner_of
from remote_agent.results_standing import check_terms, standing
from remote_agent.service import World
from remote_agent.spool import Held, Terms
from remote_agent.spool_file import Sealed
from tests.authority_builder import REMOTE, make_authority

ALL: dict[str, Any] = {
    "dataset": "other-batches",
    "dataset_version": "2.0.0",
    "revision": "r2",
    "schema_version": "2",
    "capability": "other",
    "sensitivity": Sensitivity.CONFIDENTIAL,
    "rows": {"batch.site": {"one_of": ["Basel"]}},
    "columns": ["batch.id"],
    "masks": {"batch.note": "null"},
}


def held(template_digest: str = "t", **case: Any) -> Held:
    terms = Terms(make_authority(**case), template_digest)
    return Held(cast(Sealed, None), cast(StoredResult, None), terms)


class _Anything(dict[str, Any]):
    """Every dataset, each with every capability, all with one template."""

    def __missing__(self, name: str) -> Any:
        return SimpleNamespace(capabilities=_Anything(), template=SimpleNamespace(digest="t"))


WORLD = cast(World, SimpleNamespace(datasets=_Anything()))


def test_what_was_made_under_all_that_holds_now_is_released() -> None:
    check_terms(held(**ALL), make_authority(**ALL), WORLD)


@pytest.mark.parametrize("name", ALL)
def test_what_was_made_under_something_else_is_not_released(name: str) -> None:
    for made, now in (({}, {name: ALL[name]}), ({name: ALL[name]}, {})):
        with pytest.raises(NotGranted) as refused:
            check_terms(held(**made), make_authority(**now), WORLD)
        assert refused.value.reason is Reason.GRANT_WIDENED


def test_what_another_template_made_is_not_released() -> None:
    with pytest.raises(NotGranted) as refused:
        check_terms(held("another"), make_authority(), WORLD)
    assert refused.value.reason is Reason.GRANT_WIDENED


@pytest.mark.parametrize("name", ["client", "issuer", "tenant", "subject"])
def test_an_owner_is_an_agent_and_a_person_of_an_issuer_and_a_tenant(name: str) -> None:
    mine = owner_of(make_authority().grant)
    assert owner_of(make_authority().grant) == mine
    other: dict[str, Any] = {name: "another"}
    assert owner_of(make_authority(**other).grant) != mine


@pytest.mark.parametrize("name", ["dataset", "capability"])
def test_a_leaf_of_another_dataset_or_capability_fetches_nothing(name: str) -> None:
    other: dict[str, Any] = {name: ALL[name]}
    with pytest.raises(NotGranted, match="the result would widen the grant") as refused:
        standing(held(), make_authority(**other).grant, REMOTE, WORLD)
    assert refused.value.reason is Reason.GRANT_WIDENED
