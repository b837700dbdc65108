"""A verifier of exports written from docs/audit.md ("The format") alone: the standard library and an Ed25519 library.

It imports nothing of the product, and says yes or no: ``python independent_verifier.py EXPORT KEY.json [RECEIPT.json]``.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sys
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

LATER = ("bytes_released", "derived", "funnel", "segment")
CHECKPOINT = {"origin", "size", "root", "time", "signature"}
OUTSIDE = {"index", "leaf_hash", "root", "signature"}
CELLS = {
    *("kind", "side", "recorded_at", "agent_id", "client", "request_id", "verdict", "reason", "policy_id"),
    *("policy_version", "decision_id", "caused_by", "issuer", "subject_commitment", "tenant", "principal_class"),
    *("requested_dataset", "requested_capability", "dataset", "dataset_version", "revision", "schema_version"),
    *("capability", "root_jti", "leaf_jti", "txn", "leaf_digest", "call_commitment", "template_digest"),
    *("result_commitment", "rows_returned", "cache", "execution_id", "tool_origin", "task_id", "upstream_digest"),
    *("trace_id", "session_id", "invocation_id", "event_ids", "salt"),
}


class Bad(Exception):
    pass


def must(holds: bool, why: str) -> None:
    if not holds:
        raise Bad(why)


def read(line: str) -> Any:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        must(len({name for name, _ in pairs}) == len(pairs), "a member that stands twice")
        return dict(pairs)

    return json.loads(line, object_pairs_hook=once)


def canonical(value: dict[str, Any]) -> bytes:
    """RFC 8785 of flat objects with ASCII names, text, integers and nulls."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def leaf(data: bytes) -> bytes:
    return hashlib.sha256(b"\x00" + data).digest()


def node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()


def hash_of(text: str) -> bytes:
    must(len(text) == 64 and set(text) <= set("0123456789abcdef"), "no hash")
    return bytes.fromhex(text)


class Tree:
    """The hashes of perfect subtrees, largest first."""

    def __init__(self, size: int = 0, peaks: tuple[bytes, ...] = ()) -> None:
        must(len(peaks) == bin(size).count("1"), "peaks and size differ")
        self.size, self.peaks = size, list(peaks)

    def add(self, hashed: bytes) -> None:
        size = self.size
        while size % 2:
            hashed, size = node(self.peaks.pop(), hashed), size // 2
        self.peaks.append(hashed)
        self.size += 1

    def root(self) -> bytes:
        if not self.peaks:
            return hashlib.sha256(b"").digest()
        root = self.peaks[-1]
        for peak in self.peaks[-2::-1]:
            root = node(peak, root)
        return root


def included(hashed: bytes, index: int, size: int, path: list[bytes]) -> bytes:
    """The root that the path leads to, by the definition of PATH: halves of the largest power of two."""
    if size == 1:
        must(not path, "the path is too long")
        return hashed
    half = 1
    while half * 2 < size:
        half *= 2
    must(bool(path), "the path is too short")
    if index < half:
        return node(included(hashed, index, half, path[:-1]), path[-1])
    return node(path[-1], included(hashed, index - half, size - half, path[:-1]))


def signed(checkpoint: dict[str, Any], keys: list[Ed25519PublicKey]) -> bool:
    told = canonical({name: checkpoint[name] for name in ("origin", "root", "size", "time")})
    signature = base64.urlsafe_b64decode(checkpoint["signature"] + "==")
    for key in keys:
        try:
            key.verify(signature, told)
            return True
        except InvalidSignature:
            continue
    return False


def checked(checkpoint: Any, keys: list[Ed25519PublicKey]) -> dict[str, Any]:
    must(isinstance(checkpoint, dict) and set(checkpoint) == CHECKPOINT, "no checkpoint")
    must(signed(checkpoint, keys), "a checkpoint that is not signed")
    return dict(checkpoint)


def verify(lines: list[str], keys: list[Ed25519PublicKey], receipt: dict[str, Any] | None = None) -> None:
    """Raises ``Bad``, and whatever JSON and base64 raise."""
    first = read(lines[0])
    must(set(first) <= {"checkpoint", "begins"}, "no first line")
    newest = checked(first["checkpoint"], keys)
    tree, gaps, removals, roots = Tree(), [], [], {}
    if "begins" in first:
        base = checked(first["begins"]["checkpoint"], keys)
        must(base["origin"] == newest["origin"], "two ledgers")
        tree = Tree(base["size"], tuple(hash_of(peak) for peak in first["begins"]["peaks"]))
        must(tree.root().hex() == base["root"], "it stands on something else")
        if base["size"]:
            gaps.append((0, base["size"]))
    begins = tree.size
    roots[tree.size] = tree.root()
    hashes = {}
    for line in lines[1:]:
        value = read(line)
        if set(value) == {"leaves"}:
            must(value["leaves"]["start"] == tree.size, "a gap")
            start = tree.size
            for hashed in value["leaves"]["hashes"]:
                must(len(hash_of(hashed)) == 32, "no hash")
                hashes[tree.size] = hash_of(hashed)
                tree.add(hash_of(hashed))
                roots[tree.size] = tree.root()
            if gaps and gaps[-1][1] == start:
                start = gaps.pop()[0]
            gaps.append((start, tree.size))
            continue
        cells = {name: cell for name, cell in value.items() if name not in OUTSIDE}
        must(CELLS <= set(cells) <= CELLS | set(LATER), "other cells")
        must(all(cell is None or type(cell) in (str, int) for cell in cells.values()), "a foreign cell")
        must(type(value["index"]) is int and value["index"] == tree.size, "a row out of place")
        hashed_cells = {name: cell for name, cell in cells.items() if cell is not None or name not in LATER}
        hashed = leaf(canonical({"index": value["index"], **hashed_cells}))
        must(hashed == hash_of(value["leaf_hash"]), "an edited row")
        hashes[tree.size] = hashed
        tree.add(hashed)
        roots[tree.size] = tree.root()
        must(tree.root() == hash_of(value["root"]), "another root")
        told = {"origin": newest["origin"], "size": tree.size, "root": value["root"], "time": cells["recorded_at"]}
        must(signed({**told, "signature": value["signature"]}, keys), "a row that is not signed")
        if cells["kind"] == "segment_removed":
            match = re.fullmatch(r"(\d{1,16})-(\d{1,16}):([0-9a-f]{64})", str(cells.get("segment")))
            if match:
                removals.append((int(match[1]), int(match[2]), match[3]))
    must(tree.size == newest["size"], "another number of rows")
    must(tree.root().hex() == newest["root"], "another newest root")
    if receipt is not None:
        told = checked(receipt["checkpoint"], keys)
        must(told["origin"] == newest["origin"], "a receipt of another ledger")
        path = [bytes.fromhex(one) for one in receipt["inclusion"]]
        must(0 <= receipt["index"] < told["size"], "a receipt of no row")
        reached = included(bytes.fromhex(receipt["leaf_hash"]), receipt["index"], told["size"], path)
        must(reached.hex() == told["root"], "a receipt that proves nothing")
        must(told["size"] <= tree.size, "a later receipt")
        must(told["size"] < begins or roots[told["size"]].hex() == told["root"], "a fork")
        found = hashes.get(receipt["index"])
        must(found is None or found.hex() == receipt["leaf_hash"], "a fork")
    for start, stop in gaps:
        reached_row = start
        for one, end, _ in sorted(removals):
            if one <= reached_row < end:
                reached_row = end
        ends = {end: root for _, end, root in removals}
        covered = reached_row >= stop and ends.get(stop) == roots[stop].hex()
        elsewhere = stop == begins and receipt is not None and receipt["checkpoint"]["size"] == stop
        must(covered or elsewhere, "rows are missing and no row says why")


def verifies(lines: list[str], keys: list[Ed25519PublicKey], receipt: dict[str, Any] | None = None) -> bool:
    try:
        verify(lines, keys, receipt)
    except (Bad, ValueError, TypeError, KeyError, IndexError, AttributeError):
        return False
    return True


def main(export: str, key: str, receipt: str = "") -> None:
    with open(key, encoding="utf-8") as file:
        x = json.load(file)["x"]
    keys = [Ed25519PublicKey.from_public_bytes(base64.urlsafe_b64decode(x + "=="))]
    with open(export, encoding="utf-8") as file:
        lines = file.read().splitlines()
    told = None
    if receipt:
        with open(receipt, encoding="utf-8") as file:
            told = json.load(file)
    verify(lines, keys, told)
    print("whole")


if __name__ == "__main__":
    main(*sys.argv[1:])
