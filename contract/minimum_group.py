"""The least number of subjects that a group of a result stands for, as declared and as published."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from contract.schema import Strict

_Column = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,63}\.[a-z][a-z0-9_-]{0,63}$")]


class MinimumGroup(Strict):
    """What a caller is told: groups of fewer than ``size`` distinct subjects are left out.

    ``round_counts_to`` and ``round_sums_to`` are the steps to which counts and sums are
    rounded, half away from zero; a mean is then the quotient of the two rounded. ``None``:
    exact.
    """

    size: int = Field(ge=2, le=1_000_000)
    round_counts_to: int | None = Field(default=None, ge=2, le=1_000_000_000)
    round_sums_to: int | None = Field(default=None, ge=1, le=1_000_000_000_000)


class GroupRule(MinimumGroup):
    """The same with ``subject``, the ``table.column`` whose distinct stored values are counted; it is not published."""

    subject: _Column

    @property
    def table(self) -> str:
        return self.subject.partition(".")[0]

    @property
    def column(self) -> str:
        return self.subject.partition(".")[2]
