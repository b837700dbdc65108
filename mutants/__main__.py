"""``python -m mutants``: every check is taken out once, and its test must fail.

``--find`` looks for a killing test where none is known yet and writes ``killers.json``;
``--only TEXT`` takes the mutants whose id holds the text; ``--json`` prints one object.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from threading import Lock
from typing import Final

from rich.console import Console
from rich.progress import Progress
from rich.text import Text

from mutants import killers
from mutants.copies import Copy
from mutants.plant import Mutant, mutants

ROOT: Final = Path(__file__).resolve().parent.parent
SEARCHED: Final = {
    "approvals": ("tests/approvals", "tests/remote_agent"),
    "cache": ("tests/cache", "tests/remote_agent"),
    "contract": ("tests/contract", "tests/grants", "tests/attacks", "tests/metrics", "tests/remote_agent"),
    "control_plane": ("tests/control_plane", "tests/root_agent", "tests/dataset_agent"),
    "delegation": ("tests/delegation", "tests/root_agent", "tests/remote_agent"),
    "evidence": ("tests/evidence", "tests/root_agent", "tests/dataset_agent"),
    "metrics": ("tests/metrics", "tests/remote_agent"),
    "grants": ("tests/grants", "tests/extension", "tests/attacks", "tests/remote_agent", "tests/dataset_agent"),
    "queries": ("tests/queries", "tests/bigquery", "tests/governing"),
    "remote_agent": ("tests/attacks", "tests/remote_agent"),
    "root_agent": ("tests/root_agent", "tests/delegation"),
}
"""Where test files are looked for, by the package of the fault; the whole of the first folder, where none is near."""
NEAR: Final = {
    "approvals/approval.py": ("approval_values",),
    "approvals/book.py": ("approval_values",),
    "approvals/redis_store.py": ("approval_stores",),
    "approvals/seal.py": ("approval_values",),
    "approvals/sqlite_store.py": ("approval_stores",),
    "approvals/store.py": ("approval_stores", "approval_values"),
    "control_plane/approving.py": ("test_approving",),
    "control_plane/admission_memo.py": ("admission_memo",),
    "control_plane/admission_rules.py": ("test_approving", "admission_decides"),
    "control_plane/descriptor.py": ("test_approving",),
    "remote_agent/admin_approvals.py": ("approval_desk",),
    "remote_agent/approval_desk.py": ("approval_desk",),
    "remote_agent/approvers.py": ("approval_desk",),
    "remote_agent/recalling.py": ("review_processes", "test_review."),
    "remote_agent/review.py": ("test_review.", "review_hop"),
    "root_agent/asking.py": ("root_review",),
    "delegation/reply_reader.py": ("root_review",),
    "cache/keys.py": ("cache_secrets", "cache_opening"),
    "cache/family.py": ("cache_family",),
    "cache/partition.py": ("cache_family", "cache_partition"),
    "contract/address.py": ("test_address", "provider", "published"),
    "contract/authority.py": ("authority",),
    "contract/bearer_token.py": ("admin_token", "metrics_door"),
    "contract/call.py": ("test_call",),
    "contract/canonical.py": ("strict_json",),
    "contract/files.py": ("grants_keys", "run_files"),
    "contract/grant.py": ("authority",),
    "control_plane/identity.py": ("identity_tokens",),
    "control_plane/obligations.py": ("obligation_forms", "policy_files", "policy_answers", "evaluators"),
    "control_plane/oidc.py": ("oidc_provider",),
    "control_plane/oidc_token.py": ("oidc_tokens",),
    "control_plane/policy.py": ("obligation_forms", "policy_schema", "policy_answers", "evaluators"),
    "delegation/card_reader.py": ("root_card", "http_bounds"),
    "delegation/results.py": ("results_bounds", "results_download", "reply_stored", "results_hop"),
    "delegation/results_arrow.py": (
        "results_frames",
        "results_arrow",
    ),
    "delegation/results_file.py": ("results_frames", "results_bounds", "results_download", "results_arrow"),
    "delegation/receipt.py": ("stored", "result", "root_receipt", "root_path", "hop_liar"),
    "delegation/sending.py": ("root_path", "test_hop"),
    "evidence/tree.py": ("provenance", "root_receipt"),
    "grants/chain.py": ("grants_verify",),
    "grants/claims.py": ("grants_verify", "claim_types"),
    "grants/details.py": ("grants_verify", "claim_types"),
    "grants/jose.py": ("grants_jose", "grants_verify", "grants_fuzz", "extension_vectors", "attack_table"),
    "grants/revocation_form.py": ("command_grants", "grants_state"),
    "grants/mint.py": ("grants_derive",),
    "grants/key_files.py": ("grants_keys",),
    "grants/signers.py": ("grants_keys",),
    "grants/state_reading.py": ("state_lost", "grants_state"),
    "grants/state.py": ("grants_state",),
    "grants/state_redis.py": ("grants_state",),
    "grants/state_sqlite.py": ("grants_state",),
    "grants/verify.py": ("revoked_keys",),
    "grants/trust_editor.py": ("grants_keys", "grants_trust", "command_keys"),
    "grants/trust_file.py": ("grants_trust", "revoked_keys", "doctor_trust"),
    "grants/trust.py": ("revoked_keys", "grants_keys", "grants_jwks", "retired"),
    "grants/state_file.py": ("grants_state",),
    "grants/state_header.py": ("grants_state",),
    "grants/state_rows.py": ("state_sqlite", "grants_state"),
    "grants/state_script.py": ("state_redis", "state_lost", "grants_state"),
    "grants/state_seen.py": ("state_lost", "grants_state"),
    "queries/bigquery_text.py": ("bigquery_second_reading", "bigquery_text"),
    "queries/bind.py": ("queries_bind", "nested_parameters"),
    "queries/conditions.py": ("queries_constraints", "queries_govern"),
    "queries/duckdb_connection.py": ("duckdb_connection", "queries_duckdb."),
    "queries/duckdb_call.py": ("queries_duckdb_call", "queries_duckdb_worker", "queries_supplied."),
    "queries/duckdb_file.py": ("queries_duckdb_file", "queries_duckdb."),
    "queries/duckdb_macros_text.py": (
        "queries_constraints",
        "queries_masks",
    ),
    "queries/duckdb_text.py": ("queries_duckdb_text",),
    "queries/engine.py": ("queries_duckdb.",),
    "queries/govern.py": (
        "queries_constraints",
        "queries_govern",
        "queries_supplied_load",
        "queries_masks",
        "queries_groups",
    ),
    "queries/grammar.py": (
        "queries_grammar_bounds",
        "queries_foreign",
        "queries_refused",
        "queries_template.",
        "queries_nested.",
    ),
    "queries/group_guards.py": ("queries_groups", "queries_group_guards"),
    "queries/groups.py": ("queries_groups",),
    "queries/growth.py": ("queries_growth",),
    "queries/masks.py": ("queries_masks",),
    "queries/names.py": ("queries_names", "queries_nested.", "queries_refused", "queries_template."),
    "queries/resolve.py": (
        "queries_resolved_twice",
        "queries_refused",
        "queries_template.",
        "queries_nested.",
        "queries_supplied_load",
    ),
    "queries/rollup.py": ("queries_rollup.",),
    "queries/rollup_forms.py": ("queries_rollup_proof", "queries_rollup."),
    "queries/rollup_plan.py": ("queries_rollup.",),
    "queries/rollup_proof.py": ("queries_rollup_proof",),
    "queries/rounding.py": ("queries_groups",),
    "queries/supplied.py": ("supplied_bounds", "supplied_load"),
    "queries/template.py": ("queries_template.", "queries_refused", "queries_bind", "supplied_load"),
    "queries/tokens.py": ("queries_tokens", "queries_foreign", "queries_refused", "queries_template."),
    "metrics/folder.py": ("metrics_table",),
    "cache/tally.py": ("metrics_told",),
    "root_agent/measures.py": ("root_metrics",),
    "remote_agent/measures.py": ("metrics_told",),
    "remote_agent/admin_query.py": ("admin_door",),
    "remote_agent/accounting.py": ("unwritable_row", "sealing_fails"),
    "remote_agent/answer.py": (
        "unknown_people",
        "tasks_and_cards",
        "governed_calls",
        "revocation_doors",
        "attack_memory",
    ),
    "remote_agent/authentication.py": ("test_attacks", "attack_clients"),
    "remote_agent/deciding.py": ("unknown_people", "governed_calls", "revocation_doors", "replaced_meanwhile"),
    "remote_agent/derived.py": ("derived_withheld", "derived_calls"),
    "remote_agent/discover.py": (
        "unknown_people",
        "tasks_and_cards",
    ),
    "remote_agent/door.py": ("governed_calls", "test_attacks"),
    "remote_agent/handler.py": (
        "follow_ups",
        "watching",
        "long_calls",
        "half_calls",
        "tasks_and_cards",
        "governed_calls",
        "test_attacks",
    ),
    "remote_agent/incoming.py": (
        "long_calls",
        "governed_calls",
        "follow_ups",
        "watching",
        "tasks_and_cards",
        "test_attacks",
        "half_calls",
    ),
    "remote_agent/joining.py": ("long_calls", "follow_ups", "watching", "half_calls"),
    "remote_agent/negotiate.py": ("negotiate_nothing", "unknown_people", "governed_calls", "tasks_and_cards"),
    "remote_agent/executor.py": ("two_walls", "framework_tools", "default_deny", "negotiate_nothing"),
    "remote_agent/plugin.py": ("two_walls", "default_deny", "framework_tools"),
    "remote_agent/standing.py": ("two_walls", "test_standing"),
    "cache/found.py": ("cache_stale", "cache_results"),
    "remote_agent/refresh.py": ("stale_calls",),
    "remote_agent/refreshes.py": ("stale_calls",),
    "remote_agent/results.py": ("two_walls", "results_streamed", "results_fetched", "results_refused"),
    "remote_agent/results_door.py": ("results_refused", "results_fetched"),
    "remote_agent/results_range.py": ("results_fetched", "results_refused"),
    "remote_agent/results_release.py": (
        "results_terms",
        "results_release",
        "results_refused",
        "results_fetched",
        "results_streamed",
        "results_hop",
    ),
    "remote_agent/reuse.py": ("never_stored", "freshness", "stale_calls"),
    "remote_agent/spool.py": (
        "spool_find",
        "results_terms",
        "test_spool.",
        "spool_shares",
        "results_refused",
        "results_fetched",
    ),
    "remote_agent/spool_file.py": ("spool_chunks", "test_spool."),
    "remote_agent/spool_folder.py": ("test_spool.",),
    "root_agent/app.py": ("root_oidc",),
    "root_agent/catalogue.py": ("root_catalogue",),
    "root_agent/hops.py": ("root_delegated",),
    "root_agent/plugin.py": ("root_framework_tools", "root_workflow", "root_two_walls"),
    "root_agent/propose.py": ("root_framework_tools", "root_model"),
    "root_agent/veil.py": ("root_probing",),
    "root_agent/answer_view.py": ("root_leaks",),
}
"""Words in the names of test files that are written for a file of another name."""


@dataclass(frozen=True, slots=True)
class Result:
    """``killer`` is ``None`` for a mutant that survived ``test``, or for which no test is known."""

    mutant: Mutant
    test: str | None
    killer: str | None

    @property
    def told(self) -> str:
        if self.killer is not None:
            return f"killed by {self.killer}"
        return f"SURVIVED {self.test}" if self.test else "no test is named for it: run with --find"


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--find", action="store_true", help="look for a test where none is known, and write it down")
    options.add_argument("--only", default="", help="mutants whose id holds this text")
    options.add_argument("--workers", type=_positive, default=len(os.sched_getaffinity(0)), help="copies used at once")
    options.add_argument("--json", action="store_true", dest="as_json", help="print one JSON object")
    chosen = options.parse_args()
    planted = [mutant for mutant in mutants(ROOT) if chosen.only in mutant.id]
    if not planted:
        options.error(f"no check has {chosen.only!r} in its name")
    known = killers.read()
    if chosen.find:
        planted = [mutant for mutant in planted if mutant.id not in known]
    results = run_all(planted, known, find=chosen.find, workers=chosen.workers)
    if chosen.find:
        there = {mutant.id for mutant in mutants(ROOT)}
        killers.write({name: test for name, test in killers.read().items() if name in there})
    report(results, as_json=chosen.as_json)
    return 0 if all(result.killer for result in results) else 1


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError("give 1 or more")
    return int(text)


def run_all(planted: Sequence[Mutant], known: dict[str, str], *, find: bool, workers: int) -> list[Result]:
    """Every mutant's result, in order. Raises ``RuntimeError`` where a test fails without any fault."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder, Progress(disable=not sys.stderr.isatty()) as bar:
        free: SimpleQueue[Copy] = SimpleQueue()
        for number in range(workers):
            free.put(Copy(ROOT, Path(folder) / str(number)))
        named = sorted({known[mutant.id] for mutant in planted if mutant.id in known})
        first = free.get()
        if named and (broken := first.run(named).killer) is not None:
            raise RuntimeError(f"{broken} fails without any fault planted")
        free.put(first)
        writing = Lock()
        task = bar.add_task("planting", total=len(planted))

        def work(mutant: Mutant) -> Result:
            copy = free.get()
            try:
                result = judge(copy, mutant, known.get(mutant.id), find=find)
                if find and result.killer is not None:
                    with writing:  # long work: what is found is kept, however it ends
                        killers.write({**killers.read(), mutant.id: result.killer})
                return result
            finally:
                free.put(copy)
                bar.advance(task)

        with ThreadPoolExecutor(workers) as pool:
            return list(pool.map(work, planted))


def judge(copy: Copy, mutant: Mutant, test: str | None, *, find: bool) -> Result:
    """By the test named for it; else, where asked, by the first that fails."""
    if test is not None and (killer := copy.run([test], mutant).killer) is not None:
        return Result(mutant, test, killer)
    if not find:
        return Result(mutant, test, None)
    for tests in searched(copy.root, mutant.path):
        if (killer := copy.run(tests, mutant).killer) is not None:
            return Result(mutant, killer, killer)
    return Result(mutant, "every test that was tried", None)


def searched(root: Path, path: str) -> Iterator[list[str]]:
    """Tests that could kill a fault in ``path``: those written for the file, or the nearest folder."""
    package, _, name = path.partition("/")
    stem = name.removesuffix(".py")
    files = [file for folder in SEARCHED[package] for file in sorted((root / folder).glob("test_*.py"))]
    near = [str(file.relative_to(root)) for word in (*NEAR.get(path, ()), stem) for file in files if word in file.name]
    for name in dict.fromkeys(near):
        yield [name]
    if not near:
        yield [SEARCHED[package][0]]


def report(results: Sequence[Result], *, as_json: bool) -> None:
    survived = [result.mutant.id for result in results if result.killer is None]
    if as_json:
        told = {result.mutant.id: result.killer for result in results}
        print(json.dumps({"planted": len(results), "survived": survived, "killers": told}, indent=1))
        return
    console = Console()
    for result in results:
        console.print(Text(result.mutant.id), soft_wrap=True)
        console.print(Text(f"  {result.told}", style="" if result.killer else "bold red"), soft_wrap=True)
    console.print(f"{len(results)} planted, {len(results) - len(survived)} killed, {len(survived)} survived")


if __name__ == "__main__":
    sys.exit(main())
