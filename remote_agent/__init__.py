"""The answering side: a dataset that is itself an agent."""
