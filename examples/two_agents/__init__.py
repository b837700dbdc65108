"""Two dataset agents: one completes its answer from the other, under a grant that only narrows."""
