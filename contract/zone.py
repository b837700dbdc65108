"""Time zones by their IANA names, and no other: a zone decides which instants a day has."""

from __future__ import annotations

from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

UTC: Final = ZoneInfo("UTC")
# A machine may have files of these names; what they mean is not the same everywhere.
_NO_PLACES: Final = frozenset({"Factory", "localtime"})
_MAX_NAME: Final = 64


def read_zone(name: object) -> ZoneInfo:
    """The zone of a name, exactly as the IANA database spells it. Raises ``ValueError`` that says what to write."""
    if not isinstance(name, str) or len(name) > _MAX_NAME or name not in _names():
        raise ValueError("it must be the IANA name of a time zone, such as Europe/Zurich or UTC")
    return ZoneInfo(name)


@lru_cache(maxsize=1)
def _names() -> frozenset[str]:
    return frozenset(available_timezones()) - _NO_PLACES
