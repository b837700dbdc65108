"""Faults in what of a ledger is taken away, and in which requests still have no row: each as a text that is replaced."""

from __future__ import annotations

from typing import Final

from mutants.text import Text

_EXPORT: Final = "evidence/export.py"
_READING: Final = "evidence/export_reading.py"
_ARRIVALS: Final = "evidence/arrivals.py"
_ATTENDANCE: Final = "evidence/attendance.py"
_LINEAGE: Final = "evidence/lineage.py"

_TAKEN: Final = (
    Text(_EXPORT, "a line of two readings", "return parse_json(text, limit=len(text))", "return orjson.loads(text)"),
    Text(_EXPORT, "a beginning that is not said", "if begins is not None and begins.frontier.size:", "if False:"),
    Text(_EXPORT, "a beginning that stripping loses", "yield first_line(newest, begins)", "yield first_line(newest)"),
    Text(_EXPORT, "the first row that stripping loses", "else chain((second,), rest):", "else rest:"),
    Text(_EXPORT, "rows that were stripped before", "held += part.hashes if isinstance(part, Leaves) else [part.leaf_hash]", "held += [part.leaf_hash]"),
    Text(_EXPORT, "where the second line of hashes begins", "            at += _LEAVES_A_LINE\n", ""),
    Text(_EXPORT, "where hashes begin, behind a beginning", "at = begins.frontier.size if begins else 0", "at = 0"),
    Text(_EXPORT, "the hashes of less than a line", "    if held:\n        yield leaves_line(Leaves(at, tuple(held)))", "    pass"),
    Text(_EXPORT, "a line of hashes and more", "if type(value) is dict and set(value) == {\"leaves\"}:", "if type(value) is dict and \"leaves\" in value:"),
    Text(_READING, "what the rows stand on", "                frontier = part.head.frontier\n", "                pass\n"),
    Text(_READING, "rows before those that are asked for", " and part.index >= start", ""),
    Text(_READING, "rows of which the hashes are left", "return part.hashes if isinstance(part, Leaves) else ()", "return ()"),
    Text(_READING, "rows of another value", "if entry.cells[column] == value)", ")"),
)  # fmt: skip
_ATTENDED: Final = (
    Text(_ARRIVALS, "a process that lives, as a dead one", "            fcntl.flock(descriptor, fcntl.LOCK_EX)\n            os.posix", "            os.posix"),
    Text(_ARRIVALS, "a dead process that somebody else ends", "            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)\n", ""),
    Text(_ARRIVALS, "a file that was removed meanwhile", " and path.exists():", ":"),
    Text(_ARRIVALS, "a file of another size", "if os.fstat(descriptor).st_size == _SLOT * _SLOTS and ", "if "),
    Text(_ARRIVALS, "a file that a full disk breaks", "os.posix_fallocate(descriptor, 0, _SLOT * _SLOTS)", "os.ftruncate(descriptor, _SLOT * _SLOTS)"),
    Text(_ARRIVALS, "a file that others read", "os.O_EXCL | os.O_RDWR, 0o600)", "os.O_EXCL | os.O_RDWR, 0o644)"),
    Text(_ARRIVALS, "a folder that others read", "exist_ok=True, mode=0o700)", "exist_ok=True)"),
    Text(_ARRIVALS, "a request that counts before it is written", "        self._slots[at + 1 : at + 3 + len(body)] = len(body).to_bytes(2, \"big\") + body\n        self._slots[at] = _OPEN\n", "        self._slots[at] = _OPEN\n        self._slots[at + 1 : at + 3 + len(body)] = len(body).to_bytes(2, \"big\") + body\n"),
    Text(_ARRIVALS, "ids of any length", "if len(body) <= _SLOT - 3:", "if True:"),
    Text(_ARRIVALS, "a row that was lost, as one that was never written", "lost=state == _LOST)", "lost=False)"),
    Text(_ARRIVALS, "a row that was lost and whose process died", "                self._own.mark(place, _LOST)\n", ""),
    Text(_ARRIVALS, "a row that was lost, of this process", "                self._lost.add(request_id)\n", ""),
    Text(_ARRIVALS, "a row that is there, as one that is not", "                self._own.mark(place, _FREE)\n", ""),
    Text(_ARRIVALS, "a slot that is not given back", "                self._free.append(place)\n", ""),
    Text(_ARRIVALS, "a share that is not given back", "                self._shares.leave(request_id)\n", ""),
    Text(_ARRIVALS, "a row that was written after all", "                self._lost.discard(request_id)\n", ""),
    Text(_ARRIVALS, "a person as one of every client", "most[client, *person] = _OF_PERSON", "most[\"\", *person] = _OF_PERSON"),
    Text(_ARRIVALS, "a file that is ended again and again", "            dead.remove()\n        self._dead.clear()", "            dead.close()\n        self._dead.clear()"),
    Text(_ARRIVALS, "a file that still speaks of a request", "        if self._places:\n            self._own.close()\n        else:\n            self._own.remove()", "        self._own.remove()"),
    Text(_ATTENDANCE, "a second row", " if one.request_id not in told)", ")"),
    Text(_ATTENDANCE, "rows since the last one came", "min(arrival.behind for", "max(arrival.behind for"),
    Text(_ATTENDANCE, "a caller who was told something", "Reason.EVIDENCE_UNAVAILABLE if arrival.lost else Reason.EXECUTION_FAILED", "Reason.EXECUTION_FAILED"),
    Text(_ATTENDANCE, "a row that nobody knows of", "if row.cancelled() or row.exception() is not None:", "if False:"),
    Text(_ATTENDANCE, "what nobody asks for again", "        if self.is_due and self._running is None:\n", "        if False:\n"),
    Text(_ATTENDANCE, "two that end the same at once", "if self.is_due and self._running is None:", "if self.is_due:"),
    Text(_ATTENDANCE, "a first time that is the last", "        self._running = None\n\n    def run", "        pass\n\n    def run"),
    Text(_ATTENDANCE, "a ledger that is asked all the time", "self._not_before = time.monotonic() + _PAUSE_S", "pass"),
    Text(_ATTENDANCE, "what could not be written, as written", "            return 0\n        self.arrivals", "        self.arrivals"),
)  # fmt: skip
_LED: Final = (
    Text(_LINEAGE, "an answer without those it rests on", "*[_result(below) for below in branch.branches]", ""),
    Text(_LINEAGE, "the runs of the answers that it rests on", "below, branch)\n", "below, branch) if False else ()\n"),
    Text(_LINEAGE, "a run of no parent", "_events(upstream_digest(named.envelope), below, branch)", "_events(upstream_digest(named.envelope), below, None)"),
    Text(_LINEAGE, "the digest of another envelope", "_events(upstream_digest(named.envelope), below, branch)", "_events(digest, below, branch)"),
    Text(_LINEAGE, "runs of one agent that are one", "f\"{told.agent.id}\\n{told.decision.decision_id}\"", "told.agent.id"),
    Text(_LINEAGE, "runs of two agents that are one", "f\"{told.agent.id}\\n{told.decision.decision_id}\"", "told.decision.decision_id"),
    Text(_LINEAGE, "when it began", "\"eventTime\": told.execution.started", "\"eventTime\": told.sealed_at"),
    Text(_LINEAGE, "when it was sealed", "\"eventTime\": told.sealed_at", "\"eventTime\": told.execution.started"),
    Text(_LINEAGE, "another revision", "\"datasetVersion\": told.dataset.revision", "\"datasetVersion\": told.dataset.dataset_version"),
    Text(_LINEAGE, "another job", "{told.dataset.dataset_id}.{told.operation.capability}", "{told.dataset.dataset_id}"),
    Text(_LINEAGE, "who signed", "\"signed_by\": branch.key.thumbprint", "\"signed_by\": told.agent.id"),
    Text(_LINEAGE, "what it was read from", "\"sources\": list(told.dataset.sources)", "\"sources\": []"),
)  # fmt: skip
EVIDENCE: Final = (*_TAKEN, *_ATTENDED, *_LED)
