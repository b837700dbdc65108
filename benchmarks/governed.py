"""A dataset agent of its own for the benchmark, and calls to it with fresh grants."""

from __future__ import annotations

import base64
import itertools
import json
import sys
import time
from pathlib import Path

from benchmarks.raw_client import request_bytes
from benchmarks.servers import Server, free_port
from contract.call import Operation
from contract.canonical import sha256_hex
from contract.extension import EXTENSION_URI, GRANT_HEADER
from contract.ids import new_id
from contract.scope import Scope, Sensitivity
from contract.settings import Settings
from contract.verdict import Decision, Reason
from control_plane.principals import load_directory
from control_plane.registry import load_registry
from grants.client import client_assertion
from grants.derive import derive, header_value
from grants.key_files import FileSigner
from grants.keys import init_keys
from grants.mint import mint_root
from grants.trust import load_trust

DATASET, CAPABILITY = "purification-batches", "compare_batches"


class Governed:
    """Keys, trust and the issuer's side of a benchmark run."""

    def __init__(self, home: Path) -> None:
        self._settings = settings = Settings(home=home, root_ttl=300, leaf_ttl=60)
        init_keys(settings)
        self._issuer = FileSigner.load(settings.issuer_dir / "grant.jwk")
        self._holder = FileSigner.load(settings.root_dir / "holder.jwk")
        self._trust = load_trust(settings.trust_path)
        principal = load_directory(settings.datasets / "principals.yaml").named("process_engineer")
        root, remote = self._trust.agent(settings.root_id), self._trust.agent(settings.agent_id)
        if principal is None or root is None or remote is None:
            raise SystemExit("the shipped world lacks what the benchmark asks with")
        self._principal, self._root, self._remote = principal, root, remote
        self._descriptor = load_registry(settings.datasets).datasets[DATASET]
        self._pairs = itertools.cycle((a, b) for a in range(1, 200) for b in range(1, 200) if a != b)

    def serve(self, *, core: int | None, workers: int = 1) -> Server:
        port = free_port()
        command = [str(Path(sys.executable).parent / "dataset-agent"), "serve", "--port", str(port)]
        settings = {"DATASET_AGENT_HOME": str(self._settings.home), "DATASET_AGENT_WORKERS": str(workers)}
        return Server.start(command, port, core=core, env=settings)

    def call(self, pair: int | tuple[int, int]) -> bytes:
        first, second = (1, 2) if isinstance(pair, int) else pair
        arguments = {"batch_a": f"B{first:03d}", "batch_b": f"B{second:03d}"}
        return json.dumps({"dataset": DATASET, "capability": CAPABILITY, "arguments": arguments}).encode()

    def message(self, call: bytes) -> dict[str, object]:
        part = {"raw": base64.b64encode(call).decode(), "mediaType": "application/json"}
        message = {"messageId": new_id("msg"), "role": "ROLE_USER", "parts": [part]}
        return {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}

    def requests(self, port: int, count: int, *, fresh_arguments: bool) -> list[bytes]:
        """``count`` requests, each with a root token and a leaf of its own."""
        now = time.time()
        bearer = client_assertion(
            self._holder, agent_id=self._settings.root_id, audience=self._settings.agent_id, now=now
        )
        prepared = []
        for _ in range(count):
            call = self.call(next(self._pairs) if fresh_arguments else 0)
            headers = {
                "A2A-Version": "1.0",
                "A2A-Extensions": EXTENSION_URI,
                "Authorization": f"Bearer {bearer}",
                GRANT_HEADER: self._grant(call, now),
            }
            prepared.append(request_bytes(port, self.message(call), headers))
        return prepared

    def _grant(self, call: bytes, now: float) -> str:
        decision = Decision(
            Reason.PRINCIPAL_AUTHORIZED, "BPD-DATA-014", "2026.09.01", "the benchmark's own root admits the call"
        )
        scope = Scope(
            dataset=DATASET,
            dataset_version=self._descriptor.version,
            revision=self._descriptor.revision,
            actions=frozenset({CAPABILITY}),
            locations=frozenset({self._settings.agent_id}),
            max_sensitivity=Sensitivity.INTERNAL,
        )
        root = mint_root(
            self._issuer,
            issuer_url=self._settings.issuer_url,
            decision=decision,
            principal=self._principal,
            holder=self._root,
            scope=scope,
            intent=CAPABILITY,
            rctx={"trace_id": sha256_hex(new_id("trace").encode())[:32]},
            now=now,
        )
        operation = Operation("SendMessage", call_hash=sha256_hex(call))
        return header_value(derive((root,), self._holder, audience=self._remote, operation=operation, now=now))
