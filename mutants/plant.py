"""Where faults are planted: every check of the protected files, taken out one at a time.

A check is an ``if`` whose only effect is to raise or to answer no, each alternative of such a
condition by itself, and a call whose only effect is to check. What no pattern finds is listed
as text in ``texts.py``, by subject.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mutants.text import Text
from mutants.texts import TEXTS

PROTECTED: Final = (
    "approvals/approval.py",
    "approvals/book.py",
    "approvals/redis_store.py",
    "approvals/seal.py",
    "approvals/sqlite_store.py",
    "approvals/store.py",
    "cache/breaker.py",
    "cache/encoding.py",
    "cache/entry.py",
    "cache/keys.py",
    "contract/address.py",
    "contract/authority.py",
    "contract/bearer_token.py",
    "contract/call.py",
    "contract/canonical.py",
    "contract/files.py",
    "contract/grant.py",
    "contract/pattern.py",
    "contract/provider.py",
    "contract/published.py",
    "contract/scope.py",
    "contract/secret_file.py",
    "contract/signing.py",
    "control_plane/admission_rules.py",
    "control_plane/descriptor.py",
    "control_plane/evaluator.py",
    "control_plane/approving.py",
    "control_plane/identity.py",
    "control_plane/memo.py",
    "control_plane/memo_confirm.py",
    "control_plane/obligations.py",
    "control_plane/oidc.py",
    "control_plane/oidc_keys.py",
    "control_plane/oidc_token.py",
    "control_plane/policy.py",
    "delegation/card_reader.py",
    "delegation/cards.py",
    "delegation/following.py",
    "delegation/http.py",
    "delegation/mcp.py",
    "delegation/mcp_reply.py",
    "delegation/mcp_tool.py",
    "delegation/receipt.py",
    "delegation/reply_reader.py",
    "delegation/result_form.py",
    "delegation/results.py",
    "delegation/results_arrow.py",
    "delegation/results_file.py",
    "delegation/sending.py",
    "evidence/arrivals.py",
    "evidence/artifact.py",
    "evidence/commit.py",
    "evidence/dsse.py",
    "evidence/entry.py",
    "evidence/export.py",
    "evidence/export_reading.py",
    "evidence/exporting.py",
    "evidence/frames.py",
    "evidence/keeping.py",
    "evidence/merkle.py",
    "evidence/predicate.py",
    "evidence/provenance.py",
    "evidence/proving.py",
    "evidence/row.py",
    "evidence/seen.py",
    "evidence/tree.py",
    "evidence/verify.py",
    "evidence/walk.py",
    "grants/chain.py",
    "grants/claims.py",
    "grants/client.py",
    "grants/derive.py",
    "grants/details.py",
    "grants/jose.py",
    "grants/jwks.py",
    "grants/key_files.py",
    "grants/keys.py",
    "grants/memory.py",
    "grants/mint.py",
    "grants/once.py",
    "grants/revocation_form.py",
    "grants/rotation.py",
    "grants/signers.py",
    "grants/state.py",
    "grants/state_file.py",
    "grants/state_header.py",
    "grants/state_reading.py",
    "grants/state_redis.py",
    "grants/state_rows.py",
    "grants/state_seen.py",
    "grants/state_sqlite.py",
    "grants/trust.py",
    "grants/trust_editor.py",
    "grants/trust_file.py",
    "grants/verify.py",
    "metrics/door.py",
    "queries/aggregates.py",
    "queries/bigquery_text.py",
    "queries/bind.py",
    "queries/call_types.py",
    "queries/conditions.py",
    "queries/decode.py",
    "queries/duckdb_call.py",
    "queries/duckdb_connection.py",
    "queries/duckdb_file.py",
    "queries/duckdb_stream.py",
    "queries/duckdb_text.py",
    "queries/engine.py",
    "queries/foreign.py",
    "queries/govern.py",
    "queries/grammar.py",
    "queries/group_guards.py",
    "queries/groups.py",
    "queries/masks.py",
    "queries/names.py",
    "queries/nested.py",
    "queries/resolve.py",
    "queries/rollup.py",
    "queries/rollup_plan.py",
    "queries/rollup_proof.py",
    "queries/supplied.py",
    "queries/template.py",
    "queries/tokens.py",
    "quota/limiter.py",
    "quota/rate.py",
    "quota/redis_store.py",
    "quota/sqlite_store.py",
    "quota/store.py",
    "remote_agent/accounting.py",
    "remote_agent/admin_approvals.py",
    "remote_agent/admin_door.py",
    "remote_agent/admin_query.py",
    "remote_agent/answer.py",
    "remote_agent/approval_desk.py",
    "remote_agent/approvers.py",
    "remote_agent/approvers_revoked.py",
    "remote_agent/authentication.py",
    "remote_agent/believing.py",
    "remote_agent/context.py",
    "remote_agent/deciding.py",
    "remote_agent/discover.py",
    "remote_agent/door.py",
    "remote_agent/executor.py",
    "remote_agent/handler.py",
    "remote_agent/hop.py",
    "remote_agent/incoming.py",
    "remote_agent/joining.py",
    "remote_agent/mcp_door.py",
    "remote_agent/negotiate.py",
    "remote_agent/plugin.py",
    "remote_agent/quotas.py",
    "remote_agent/recalling.py",
    "remote_agent/refresh.py",
    "remote_agent/result_plugins.py",
    "remote_agent/results.py",
    "remote_agent/results_door.py",
    "remote_agent/results_range.py",
    "remote_agent/results_release.py",
    "remote_agent/results_standing.py",
    "remote_agent/reuse.py",
    "remote_agent/review.py",
    "remote_agent/spool.py",
    "remote_agent/spool_shares.py",
    "remote_agent/standing.py",
    "remote_agent/wire.py",
    "root_agent/app.py",
    "root_agent/catalogue.py",
    "root_agent/doors.py",
    "root_agent/hops.py",
    "root_agent/plugin.py",
    "root_agent/propose.py",
    "root_agent/quotas.py",
    "root_agent/veil.py",
    "root_agent/wanted.py",
)
"""Files in which every check has a mutant. A later change of the product extends the list."""

_CHECKING: Final = re.compile(r"(_|\b)(check|require|judge|spend|recheck)(_\w+)?$")


@dataclass(frozen=True, slots=True)
class Mutant:
    """One fault: the text between ``start`` and ``end`` (offsets into the file) replaced.

    ``id`` names file, function and what is taken out; it does not move with the lines.
    """

    id: str
    path: str
    start: int
    end: int
    replacement: str

    def planted(self, source: str) -> str:
        return source[: self.start] + self.replacement + source[self.end :]


def mutants(root: Path) -> list[Mutant]:
    """Every mutant of the tree at ``root``, in the order of the files. Raises ``ValueError`` for a text that moved."""
    found = [mutant for path in PROTECTED if (root / path).exists() for mutant in _in_file(root, path)]
    found += [_of_text(root, text) for text in TEXTS]
    seen: dict[str, int] = {}
    numbered = []
    for mutant in found:
        seen[mutant.id] = seen.get(mutant.id, 0) + 1
        name = mutant.id if seen[mutant.id] == 1 else f"{mutant.id} ({seen[mutant.id]})"
        numbered.append(Mutant(name, mutant.path, mutant.start, mutant.end, mutant.replacement))
    return numbered


def _of_text(root: Path, text: Text) -> Mutant:
    source = (root / text.path).read_text(encoding="utf-8")
    if source.count(text.old) != 1:
        raise ValueError(f"{text.path}: the text of {text.name!r} is there {source.count(text.old)} times")
    start = source.index(text.old)
    return Mutant(f"{text.path}: {text.name}", text.path, start, start + len(text.old), text.new)


def _in_file(root: Path, path: str) -> Iterator[Mutant]:
    source = (root / path).read_text(encoding="utf-8")
    offsets = _Offsets(source)
    for scope, node in _statements(ast.parse(source), ""):
        for taken, replacement in _taken_out(node):
            what = " ".join(ast.unparse(taken).split())
            start, end = offsets.span(taken)
            yield Mutant(f"{path}: {scope}: {what[:120]}", path, start, end, replacement)


def _taken_out(node: ast.stmt) -> Iterator[tuple[ast.AST, str]]:
    if isinstance(node, ast.If) and _only_refuses(node.body):
        yield node.test, "False"
        if isinstance(node.test, ast.BoolOp) and isinstance(node.test.op, ast.Or):
            for alternative in node.test.values:
                yield alternative, "False"
    if isinstance(node, ast.Match):
        for case in node.cases:
            if case.guard is not None and _only_refuses(case.body):
                yield case.guard, "False"
    if isinstance(node, ast.Expr):
        value = node.value.value if isinstance(node.value, ast.Await) else node.value
        if isinstance(value, ast.Call) and _CHECKING.search(ast.unparse(value.func)):
            yield node, "pass"


def _only_refuses(body: list[ast.stmt]) -> bool:
    """Whether a body does nothing but raise, or answer with no or with the name of what is wrong."""
    *before, last = body
    if isinstance(last, ast.Raise):
        # What is only passed on was refused elsewhere; names that a message is made of may stand before it.
        return last.exc is not None and all(isinstance(node, ast.Assign) for node in before)
    if before or not isinstance(last, ast.Return) or not isinstance(last.value, ast.Constant):
        return False
    return last.value.value is False or isinstance(last.value.value, str)


def _statements(node: ast.AST, scope: str) -> Iterator[tuple[str, ast.stmt]]:
    """Every statement with the dotted name of the function or class it is in."""
    for child in ast.iter_child_nodes(node):
        inner = scope
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            inner = f"{scope}.{child.name}" if scope else child.name
        elif isinstance(child, ast.stmt):
            yield scope or "module", child
        yield from _statements(child, inner)


class _Offsets:
    """From the positions of ``ast`` (lines, and columns in UTF-8 bytes) to offsets into the text."""

    def __init__(self, source: str) -> None:
        self._lines = source.splitlines(keepends=True)
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))

    def span(self, node: ast.AST) -> tuple[int, int]:
        if not isinstance(node, (ast.expr, ast.stmt)) or node.end_lineno is None or node.end_col_offset is None:
            raise ValueError("only expressions and statements have a place")
        return self._at(node.lineno, node.col_offset), self._at(node.end_lineno, node.end_col_offset)

    def _at(self, line: int, column: int) -> int:
        text = self._lines[line - 1].encode()[:column].decode()
        return self._starts[line - 1] + len(text)
