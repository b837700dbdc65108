"""Names of the wire: the extension, its header and its media types."""

from __future__ import annotations

from typing import Final

EXTENSION_URI: Final = "urn:dataset-agent:ext:execution-grant:v1"
GRANT_HEADER: Final = "Execution-Grant"
MAX_GRANT_HEADER_BYTES: Final = 7_500
PROVENANCE_MEDIA_TYPE: Final = "application/vnd.in-toto+dsse"
DECISION_KEY: Final = EXTENSION_URI + "/decision"
RESULT_KEY: Final = EXTENSION_URI + "/result"
CACHE_KEY: Final = EXTENSION_URI + "/cache"
RECEIPT_KEY: Final = EXTENSION_URI + "/receipt"
ERROR_KEY: Final = EXTENSION_URI + "/error"
REVIEW_KEY: Final = EXTENSION_URI + "/review"
PROGRESS_KEY: Final = EXTENSION_URI + "/progress"
