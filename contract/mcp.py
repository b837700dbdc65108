"""Names of the second door: where a dataset's MCP server is, and what its replies carry beside their content."""

from __future__ import annotations

from typing import Final

MCP_ENDPOINT: Final = "mcp"
"""The key of a descriptor's ``endpoints`` by which it says that it is served behind MCP."""
MCP_METHOD: Final = "CallTool"
"""``op.method`` of a leaf that is presented to the MCP door: one for A2A is good for nothing there."""

MCP_DECISION: Final = "dataset-agent/decision"
MCP_PROVENANCE: Final = "dataset-agent/provenance"
MCP_CACHE: Final = "dataset-agent/cache"
MCP_ERROR: Final = "dataset-agent/error"
MCP_RECEIPT: Final = "dataset-agent/receipt"
MCP_RESULT: Final = "dataset-agent/result"
MCP_TASK: Final = "dataset-agent/task"
MCP_PROPOSAL: Final = "dataset-agent/proposal"
MCP_REVIEW: Final = "dataset-agent/review"


def mcp_path(dataset: str) -> str:
    """Where the MCP server of a dataset is, below the address of its agent."""
    return f"/mcp/{dataset}"
