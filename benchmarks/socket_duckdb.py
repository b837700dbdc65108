"""DuckDB by itself: a connection to the socket sends a query on one line and gets its rows as an Arrow IPC stream.

``python -m benchmarks.socket_duckdb PORT FILE``. Nothing is governed, encrypted, recorded or kept.
"""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pyarrow as pa

from dataset_agent.process import settle_memory
from queries.duckdb_connection import connect, cores

_BATCH_ROWS = 20_000


def main(port: int, file: str) -> None:
    connection = connect(Path(file), "512MB", 60.0, threads=cores())
    settle_memory()
    with socket.create_server(("127.0.0.1", port)) as server:
        while True:
            peer, _ = server.accept()
            with peer, peer.makefile("rb") as asked:
                query = asked.readline().decode().strip()
                if not query:
                    continue  # only whether it listens was asked
                reader = connection.cursor().sql(query).to_arrow_reader(_BATCH_ROWS)
                with peer.makefile("wb", buffering=0) as sink, pa.ipc.new_stream(sink, reader.schema) as stream:
                    for batch in reader:
                        stream.write_batch(batch)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
