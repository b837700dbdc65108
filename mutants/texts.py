"""Faults that no pattern finds: what rewrites, bounds, hides or keeps, each as a text that is replaced."""

from __future__ import annotations

from typing import Final

from mutants.text import Text
from mutants.texts_admission import ADMISSION
from mutants.texts_cache import CACHE
from mutants.texts_evidence import EVIDENCE
from mutants.texts_grants import GRANTS
from mutants.texts_mcp import MCP
from mutants.texts_queries import QUERIES
from mutants.texts_quota import QUOTA
from mutants.texts_results import RESULTS
from mutants.texts_review import REVIEW
from mutants.texts_served import SERVED
from mutants.texts_store import STORE
from mutants.texts_telemetry import TELEMETRY
from mutants.texts_walls import WALLS

TEXTS: Final[tuple[Text, ...]] = (
    *ADMISSION,
    *EVIDENCE,
    *MCP,
    *GRANTS,
    *QUERIES,
    *QUOTA,
    *RESULTS,
    *REVIEW,
    *SERVED,
    *CACHE,
    *STORE,
    *WALLS,
    *TELEMETRY,
)
