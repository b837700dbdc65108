"""Faults in what is kept, released and fetched of large results: each as a text that is replaced."""

from __future__ import annotations

from typing import Final

from mutants.text import Text

_SPOOL: Final = "remote_agent/spool.py"
_SPOOLED: Final = "remote_agent/spool_file.py"
_SHARES: Final = "remote_agent/spool_shares.py"
_FOLDER: Final = "remote_agent/spool_folder.py"
_OWNERS: Final = "remote_agent/owners.py"
_OWNER: Final = "return grant.client, grant.issuer, grant.tenant, grant.subject"
_KEPT: Final = (
    Text(_OWNERS, "another agent's result", _OWNER, 'return "", grant.issuer, grant.tenant, grant.subject'),
    Text(_OWNERS, "a result of another issuer", _OWNER, 'return grant.client, "", grant.tenant, grant.subject'),
    Text(_OWNERS, "a result of another tenant", _OWNER, 'return grant.client, grant.issuer, "", grant.subject'),
    Text(_OWNERS, "another person's result", _OWNER, 'return grant.client, grant.issuer, grant.tenant, ""'),
    Text(_SHARES, "a spool that one agent fills", "{0: 1, 1: 2, 4: 4}", "{0: 1, 4: 4}"),
    Text(_SHARES, "an agent's part that one person fills", "{0: 1, 1: 2, 4: 4}", "{0: 1, 1: 2}"),
    Text(_SPOOL, "what expired and nobody asks for", "        self._sweep_later()\n", ""),
    Text(_SPOOL, "what expired", "if now >= held.result.expires_at]", "if False]"),
    Text(_SPOOL, "the file of what is dropped", "held.sealed.path.unlink(missing_ok=True)", "pass"),
    Text(_SPOOL, "the file of what is not kept", "            self._chunks.discard()\n", ""),
    Text(_SPOOL, "a result whose answer was not released", "if held is not None and not held.released:", "if False:"),
    Text(
        _SPOOLED,
        "plain bytes on the disk",
        "self._cipher.encrypt(_nonce(self._chunks), chunk, _context(self._result_id, self._chunks, last))",
        "bytes(chunk) + bytes(TAG)",
    ),
    Text(_SPOOLED, "one key for all results", "self._key = os.urandom(32)", "self._key = bytes(32)"),
    Text(_SPOOLED, "one nonce for all chunks", "number.to_bytes(_NONCE, ", "bytes(_NONCE) or (number, "),
    Text(_SPOOLED, "a chunk of another result", "_CONTEXT + result_id.encode()", "_CONTEXT"),
    Text(_SPOOLED, "a result that was cut", '(b"\\x01" if last else b"\\x00")', 'b""'),
    Text(_SPOOLED, "a key that is shown", "key: bytes = field(repr=False)", "key: bytes"),
    Text(_SPOOLED, "a file that others can read", "os.O_WRONLY, 0o600)", "os.O_WRONLY, 0o644)"),
    Text(_FOLDER, "a folder that others can read", "own.mkdir(mode=0o700)", "own.mkdir(mode=0o755)"),
    Text(_FOLDER, "what a dead process left", "shutil.rmtree(left, ignore_errors=True)", "pass"),
)

_RELEASE: Final = "remote_agent/results_release.py"
_STANDING: Final = "remote_agent/results_standing.py"
_DOOR: Final = "remote_agent/results_door.py"
_RESULTS: Final = "remote_agent/results.py"
_DOWNLOAD: Final = "delegation/results.py"
_FILE: Final = "delegation/results_file.py"
_SAME: Final = (
    ("another dataset", '"dataset", "dataset_version"', '"dataset_version"'),
    ("another version", '"dataset", "dataset_version", ', '"dataset", '),
    ("another revision", '"revision", ', ""),
    ("another schema", '"schema_version", ', ""),
    ("another capability", '"schema_version", "capability"', '"schema_version"'),
    ("another sensitivity", '*("sensitivity", "rows"', '*("rows"'),
    ("other rows", '"sensitivity", "rows", ', '"sensitivity", '),
    ("other columns", '"columns", "masks"', '"masks"'),
    ("other masks", '"columns", "masks"', '"columns",'),
)
_FETCHED: Final = (
    *(Text(_STANDING, f"a result of {name} than now", old, new) for name, old, new in _SAME),
    Text(
        _RELEASE,
        "a release that no row starts",
        "    await service.ledger.append_async(row)\n    basis",
        "    basis",
    ),
    Text(
        _RELEASE,
        "the last bytes before their row",
        "        await self._record(self._authority.decision, self.span.length)\n",
        "",
    ),
    Text(
        _RELEASE, "a size that is told to anybody", "if trail.unsatisfiable and trail.held else", "if trail.held else"
    ),
    Text(_DOOR, "another method than GET", 'scope["method"] != "GET"', "False"),
    Text(_DOOR, "a copy that a cache keeps", '        (b"cache-control", b"no-store"),\n    ]', "    ]"),
    Text(_RESULTS, "more rows than there may be", "max_rows=_UNBOUNDED if cuts else most", "max_rows=_UNBOUNDED"),
    Text(_RESULTS, "rows that should be cut off", "batch.slice(0, left)", "batch"),
    Text(_RESULTS, "a reply of any size", " or self._size > self._service.max_result_bytes", ""),
    Text(_DOWNLOAD, "a redirect that is followed", "follow_redirects=False", "follow_redirects=True"),
    Text(_DOWNLOAD, "a leaf that can be passed on", "replace(plan, max_depth=len(plan.chain))", "plan"),
    Text(
        _DOWNLOAD,
        "a leaf that is for no result",
        "        operation=Operation(GET_RESULTS, task=stored.result_id),\n",
        "",
    ),
    Text(_DOWNLOAD, "a refusal of any size", "if len(body) > _MAX_PROBLEM:", "if False:"),
    Text(_DOWNLOAD, "a refusal that grants", "None if VERDICTS[reason] is Verdict.GRANTED else reason", "reason"),
    Text(_FILE, "a file that others can read", "os.O_RDWR, 0o600)", "os.O_RDWR, 0o644)"),
    Text(_FILE, "half a file", "            unfinished.unlink()\n", "            pass\n"),
)

_HTTP: Final = "delegation/http.py"
_READER: Final = "delegation/reply_reader.py"
_FOREIGN: Final = (
    Text(_HTTP, "a redirect that is followed", "follow_redirects=False", "follow_redirects=True"),
    Text(_HTTP, "a grant in the clear", "(private_network or is_loopback(parts.hostname or \"\"))", "True"),
    Text("contract/address.py", "two ports that are one", "parts.port or _PORTS.get(parts.scheme)", "parts.port"),
    Text("contract/address.py", "another host", '(parts.hostname or "").lower(), ', '"", '),
    Text(_HTTP, "another reader of addresses", "return address.plain_url(url)", "return __import__(\"urllib.parse\").parse.urlsplit(url)"),
    Text("grants/trust.py", "a trust file that is none", "data = read_bounded(path, MAX_TRUST_BYTES)", "data = path.read_bytes()"),
    Text("grants/trust.py", "an address of any form", "        plain_url(value)\n", "        pass\n"),
    Text("control_plane/evaluator.py", "a policy server of any address", "parts = plain_url(base_url)", "parts = __import__(\"urllib.parse\").parse.urlsplit(base_url)"),
    Text(_HTTP, "one pool for all agents", "origin = request.url.scheme, request.url.host, request.url.port", 'origin = "", "", None'),
    Text(_HTTP, "the body of an error", '    if not response.is_success:\n        return b""\n', ""),
    Text(_HTTP, "bounds of another request", "isinstance(asked, Bounds) else self._bounds", "isinstance(asked, int) else self._bounds"),
    Text(_READER, "a line that begins another", 'char if char.isprintable() else " "', "char"),
    Text(_READER, "a text without end", "for char in text[:limit])", "for char in text)"),
)  # fmt: skip

_YOUNG: Final = "young_enough(call, "
_AGES: Final = (
    Text("remote_agent/answer.py", "an answer of any age", _YOUNG + "found.document, now)", "pass"),
    Text("remote_agent/joining.py", "a followed call of any age", _YOUNG + "ran.found.document, now)", "pass"),
    Text("remote_agent/results_release.py", "a waiting result of any age", _YOUNG + "held.result, now)", "pass"),
    Text(
        "root_agent/ask.py",
        "rows older than was asked for",
        "_check_age(asking.wanted.max_age_s, ",
        "_check_age(None, ",
    ),
    Text(
        "remote_agent/handler.py",
        "one person's detached tasks and nobody else's",
        " and sum(one.owner == running.owner for one in agent) < MAX_DETACHED_OF_PERSON",
        "",
    ),
)

RESULTS: Final = (*_KEPT, *_FETCHED, *_FOREIGN, *_AGES)
