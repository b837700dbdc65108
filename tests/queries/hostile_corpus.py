"""Every row of the hostile corpus. A new file of rows is added here."""

from __future__ import annotations

from typing import Final

from tests.queries.hostile_arguments import ARGUMENTS
from tests.queries.hostile_reading import READING
from tests.queries.hostile_row import Hostile
from tests.queries.hostile_size import SIZE

CORPUS: Final[tuple[Hostile, ...]] = (*READING, *ARGUMENTS, *SIZE)
