"""Which words of a question tell nothing by themselves, and which never may be left out: closed lists, in English."""

from __future__ import annotations

from typing import Final

from control_plane.memo_terms import (
    ASKING,
    COUNTS,
    DAYS,
    EXTREMES,
    NEGATIONS,
    NEUTRAL,
    RESTRICTING,
    SHIFTS,
    SPANS,
    STRUCTURE,
    TIMES,
)

_IDLE_TEXT: Final = """
a i my our us it its itself they them their these those have has had having may might should will shall so then
how whats what's all any
ask asking know known return returns report provide print get gets put look looks looked like
"""
IDLE: Final = NEUTRAL | ASKING | frozenset(_IDLE_TEXT.split())
"""They tell nothing beside what else is said."""

_GENERAL_TEXT: Final = (
    "data dataset datasets value values result results information info figure figures detail details overview"
)
GENERAL: Final = frozenset(_GENERAL_TEXT.split())
"""Nouns of whatever is answered."""

_ASKED_AMOUNT_TEXT: Final = "large big high great long good well"
ASKED_AMOUNT: Final = frozenset(_ASKED_AMOUNT_TEXT.split())
"""Behind *how* they ask for an amount, and judge none."""

RELATIONS: Final = NEGATIONS | EXTREMES | RESTRICTING | STRUCTURE | frozenset(TIMES)
POLAR: Final = NEGATIONS | EXTREMES | RESTRICTING

_PASSED_TEXT: Final = "a all any its their my our"
PASSED: Final = NEUTRAL | frozenset(_PASSED_TEXT.split())
"""They may stand between a word of relation and what it relates."""

_AMOUNT_TEXT: Final = "several many much few some numerous various half twice double triple once"
TELLING: Final = RELATIONS | SHIFTS | SPANS | DAYS | frozenset(COUNTS) | frozenset(_AMOUNT_TEXT.split())
"""They are never accounted for one by one, whatever text of a card they stand in."""

_GROUPING_TEXT: Final = "by per each every"
GROUPING: Final = frozenset(_GROUPING_TEXT.split())

_LEADING_TEXT: Final = "with by per from of for in at on"
LEADING: Final = frozenset(_LEADING_TEXT.split())
"""They may stand before an argument."""

_JOINING_TEXT: Final = "and with to against versus vs & / - – —"
JOINING: Final = frozenset(_JOINING_TEXT.split())
"""They may stand between the arguments of two parameters of one kind."""

_LISTING_TEXT: Final = "and & / +"
LISTING: Final = frozenset(_LISTING_TEXT.split())
"""They may stand between the items of one argument. *To* and *-* do not: they make a range of it."""

NAMING: Final = frozenset({"number", "numbers", "id", "ids", "nr", "#"})
"""They may stand before an identifier."""

_STRETCHING_TEXT: Final = """
not no except excluding exclude excludes exclusive outside besides without never but unlike apart aside from end start
beginning middle mid early late half rest part first second or later earlier before after newer older since until till
by around about near up to as of at circa starting ending next than onwards onward beyond than last past previous
this current and the in on with exclusively forward ago two three four five six
"""
STRETCHING: Final = frozenset(_STRETCHING_TEXT.split())
"""Words about a time that is not read: they are told with it."""

ANSWERING: Final = frozenset({"other", "another", "second", "one", "ones", "other's", "yes", "ok"})
"""They tell nothing in words that say what an earlier call misses: *the other one is B120*."""
