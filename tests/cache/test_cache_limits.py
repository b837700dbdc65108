"""What was stored under other limits is a hit for as long as it is within those of now."""

from __future__ import annotations

import pytest

from cache.result_cache import Hit, ResultCache
from contract.result import Limits, ResultDocument
from tests.authority_builder import NOW, make_authority
from tests.cache.cache_builder import AS_OF, make_execution, make_intent

ROWS = ResultDocument(b"x" * 100, 3, truncated=False, as_of=AS_OF)


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (Limits(3, 100), "hit"),
        (Limits(None, None), "hit"),
        (Limits(2, None), "too_large"),
        (Limits(None, 99), "too_large"),
    ],
)
async def test_a_stored_result_beyond_the_limits_of_now_is_a_miss(
    results: ResultCache, limits: Limits, reason: str
) -> None:
    authority, intent = make_authority(), make_intent()
    await results.keep(authority, intent, ROWS, make_execution(), freshness_class="standard", reuse_s=60, now=NOW)
    found = await results.find(authority, intent, freshness_class="standard", max_age_s=None, now=NOW, limits=limits)
    assert found.reason == reason
    assert isinstance(found, Hit) == (reason == "hit")
    assert results.counters[reason] == 1
