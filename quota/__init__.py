"""How much one agent and one person may ask: calls a second, and executions at once, over all processes of an agent.

It bounds what a caller who is allowed costs the others; it grants nothing, and knows no grant,
policy or dataset.
"""
