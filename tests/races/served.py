"""``dataset-agent serve`` on a free port, with a line in a file for every query that its engine really runs."""

from __future__ import annotations

import os
from typing import Final

from dataset_agent.serving import serve
from tests.engine_taps import count_all

EXECUTIONS: Final = "RACE_EXECUTIONS"
"""The environment's name of that file."""


def main() -> None:
    runs = os.open(os.environ[EXECUTIONS], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    count_all(lambda: os.write(runs, b"run\n"))
    serve(0, None, as_json=True)


if __name__ == "__main__":
    main()
