"""What a capability declares so that its narrower and coarser calls are computed from a stored result.

Nothing of it is believed: ``queries.rollup_proof`` proves it on the template, or refuses it.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from contract.ids import Slug
from contract.schema import Strict

Level = Annotated[tuple[Slug, ...], Field(strict=False)]


class Dimension(Strict):
    """A result column that rows are grouped by, and the parameters that choose among its values.

    ``range`` names two parameters, first (inclusive) and end (exclusive); ``one_of`` a repeated one.
    """

    range: Annotated[tuple[Slug, Slug], Field(strict=False)] | None = None
    one_of: Slug | None = None

    @property
    def roles(self) -> tuple[str, ...]:
        """The names of the parameters."""
        return (*(self.range or ()), *((self.one_of,) if self.one_of else ()))


class Average(Strict):
    """The mean of what ``average`` names: a sum and the count of the same values, both result columns."""

    average: Annotated[tuple[Slug, Slug], Field(strict=False)]


Measure = Literal["count", "sum", "min", "max"] | Average


class Keep(Strict):
    """``parameter`` says which dimensions a result is by; for each of its values ``levels`` lists them."""

    parameter: Slug
    levels: dict[str, Level] = Field(min_length=1)


class Rollup(Strict):
    """Every result column is a dimension or a measure; ``keep`` is there where a call may ask for a coarser grain."""

    dimensions: dict[Slug, Dimension] = Field(min_length=1)
    measures: dict[Slug, Measure] = Field(min_length=1)
    keep: Keep | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if both := self.dimensions.keys() & self.measures.keys():
            raise ValueError(f"rollup: {sorted(both)[0]} is a dimension and a measure")
        roles = [name for dimension in self.dimensions.values() for name in dimension.roles]
        roles += [self.keep.parameter] if self.keep else []
        if twice := next((name for name in roles if roles.count(name) > 1), None):
            raise ValueError(f"rollup: the parameter {twice} has two roles")
        if self.keep is not None:
            for level in self.keep.levels.values():
                if unknown := set(level) - self.dimensions.keys():
                    raise ValueError(f"rollup: a level keeps {sorted(unknown)[0]}, which is no dimension")
        return self

    @property
    def roles(self) -> frozenset[str]:
        """The parameters that have a role; all others must be equal between two calls."""
        names = {name for dimension in self.dimensions.values() for name in dimension.roles}
        return frozenset(names | ({self.keep.parameter} if self.keep else set()))
