"""The turns of an eval set, asked of the served product: what it expects, and what was to be seen."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from google.adk.evaluation.eval_case import IntermediateData, Invocation
from google.adk.evaluation.eval_set import EvalSet

from conformance.facade import Facade, Told
from conformance.processes import Processes, command, processes, scratch
from contract.settings import SHIPPED_DATASETS
from evals.custom_metrics import Calls, Turn
from evidence.predicate import Statement

EVAL_SET: Final = Path(__file__).resolve().parent / "governance.evalset.json"
_BUDGET_S: Final = 5.0
"""Of the policy server: no turn is to fail by a busy machine."""


def read_set(path: Path = EVAL_SET) -> EvalSet:
    """Raises ``ValueError`` for what is no eval set of ADK's."""
    return EvalSet.model_validate_json(path.read_bytes())


def observed(cases: EvalSet) -> Iterator[Turn]:
    """Every turn of every case, in order, over the datasets that ship; results stored for one may be found by the next."""
    with scratch() as home:
        shutil.copytree(SHIPPED_DATASETS, home / "datasets")
        with processes(home / "home", home / "datasets", policy_budget=_BUDGET_S) as running:
            command("reload", "--wait", "--json")
            facade = Facade(running.settings)
            try:
                for case in cases.eval_cases:
                    principal = case.session_input.user_id if case.session_input else ""
                    for turn in case.conversation or []:
                        yield _asked(facade, running, f"{case.eval_id} {turn.invocation_id}", principal, turn)
            finally:
                facade.close()


def _asked(facade: Facade, running: Processes, name: str, principal: str, turn: Invocation) -> Turn:
    ledger = facade.root.service.ledger
    ran, recorded = len(running.executions()), ledger.size
    told = facade.request(principal, question=_text(turn.user_content))
    shown = told.shown
    cache = shown["cache"] or {}
    return Turn(
        case=name,
        principal=principal,
        decided=_text(turn.final_response),
        calls=_expected(turn),
        told=" ".join((shown["verdict"], shown["reason"], told.answer.decision.policy_id or "-")),
        sent=_sent(told),
        visited=tuple(shown["visited_nodes"]),
        has_rows=bool(shown["result"]),
        is_minted=told.minted,
        ran=len(running.executions()) - ran,
        rows_recorded=ledger.size - recorded,
        proof=_missing(shown["provenance"]) if shown["result"] else None,
        cache=(cache.get("outcome", ""), cache.get("key")),
    )


def _text(content: Any) -> str:
    return "".join(part.text or "" for part in content.parts or []) if content else ""


def _expected(turn: Invocation) -> Calls:
    data = turn.intermediate_data
    uses = data.tool_uses if isinstance(data, IntermediateData) else []
    return tuple((use.name or "", dict(use.args or {})) for use in uses)


def _sent(told: Told) -> Calls:
    """What left the root agent: one call for each attempt."""
    shown = told.shown
    name = f"{shown['dataset']}.{shown['capability']}"
    return ((name, dict(shown["arguments"] or {})),) * int(shown["attempts"])


def _missing(provenance: Mapping[str, Any] | None) -> tuple[str, ...]:
    """What an answer with rows lacks of its proof. The statement's model has no member that may be left out."""
    if provenance is None or provenance["verified"] is not True:
        return ("verified",)
    lacking: list[str] = []
    for envelope in ("envelope", "relayed"):
        payload = json.loads(base64.b64decode(provenance[envelope]["payload"]))
        summary = Statement.model_validate(payload).summary()
        lacking += [f"{envelope}.{name}" for name, value in summary.items() if value in (None, "", [], {})]
    return tuple(lacking)
