"""What an agent counts and times: a table of numbers, its text for Prometheus, and the door to it."""
