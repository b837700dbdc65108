"""The subject: each control verb of the kit as what a person, an operator or a holder of a grant does.

=====================  ==================================================================
``request``            a question or a typed call through the root agent
``delegate``           a call with a leaf whose scope is signed by hand (``facade``)
``grant`` ``revoke``   ``principals.yaml`` is edited, and ``reload --wait``
``set_*``              a descriptor, or ``policies/version``, likewise
``register_*``         a descriptor's folder is written, likewise
``evaluator``          the policy server is killed, or stands still, for this one request
``grant_ttl_s``        the root agent's clock is so late that its leaf has run out
``reset``              ``cache purge``; ledgers only grow, so their length is noted
=====================  ==================================================================

A call counts where the receiver's engine ran, told by the tap in its process, and never by what an
answer says of itself. The subject raises where product, tap and ledger contradict one another.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from agentic_dataset_conformance.interface import Observation  # type: ignore[import-not-found, unused-ignore]

from conformance.asked import arguments_of, wanted
from conformance.evidence import Evidence, record
from conformance.facade import Facade, Replied, Told
from conformance.processes import LEAF_S, Execution, Processes, processes
from conformance.world import WorldFiles
from grants.claims import SKEW

DOORS: Final = ("a2a", "mcp")
_UNDECLARED: Final = ("query_database", "execute_sql", "export")
PATIENT_S: Final = 2.0
"""The budget of the policy evaluator, at least. The kit's 0.25 s are of one in the same memory; a machine that is busy with
something else is no part of the story, and an evaluator that stands still is late by any budget."""


class Contradiction(Exception):
    """The product says one thing of a step, and the tap or the ledger another."""


class ServedSubject:
    """The product as it is served. A context: its processes live as long as the block."""

    name = "dataset-agent (HTTP A2A, MCP, DuckDB, SQLite)"

    def __init__(self, home: Path, world: Mapping[str, Any]) -> None:
        """``world`` is served first; the kit loads its own. ``home`` is a folder that is nobody else's."""
        self._files = WorldFiles(home / "datasets", time.time())
        self._files.adopt(world)
        self._home = home
        self._last: Told | None = None
        self._fresh = 100
        self._stack = ExitStack()
        self.steps = 0
        self.began: list[float] = []
        self.attempts: list[str] = []

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._files.write()
            budget = max(PATIENT_S, float(self._files.world.get("policy_budget_s", PATIENT_S)))
            at = processes(self._home, self._files.folder, policy_budget=budget)
            self._processes: Processes = stack.enter_context(at)
            self._facade = Facade(self._processes.settings)
            stack.callback(self._facade.close)
            self._evidence = Evidence(self._home)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def executions(self) -> int:
        """How often an engine ran, whoever asked."""
        return len(self._processes.executions())

    # -- the kit's four methods

    def load_world(self, world: Mapping[str, Any]) -> None:
        """What begins each vector; when it did is kept."""
        self.began.append(time.monotonic())
        self._files.adopt(world)
        self._take_over()

    def capabilities(self) -> Sequence[dict[str, Any]]:
        """Every operation whose engine runs for somebody who may do everything the world lets anybody do.

        Tried, not told: what the card offers, what is prohibited and what nobody declares are each called
        as every principal until one call makes the engine run.
        """
        offered = {(each.dataset, one.name): one for each in self._facade.offered() for one in each.capabilities}
        tried = set(offered) | {
            (item["dataset"], name) for item in self._files.datasets for name in (*item["prohibited"], *_UNDECLARED)
        }
        return [
            {
                "dataset": dataset,
                "name": name,
                "effect": offered[dataset, name].effect.value if (dataset, name) in offered else None,
                "sensitivity": offered[dataset, name].sensitivity.value if (dataset, name) in offered else None,
                "policy": offered[dataset, name].policy_id if (dataset, name) in offered else None,
            }
            for dataset, name in sorted(tried)
            if self._runs_for_anybody(dataset, name)
        ]

    def step(self, step: Mapping[str, Any]) -> Observation | None:
        self.steps += 1
        observed: Observation | None = getattr(self, f"_{step['op']}")(step)
        return observed

    def reset(self) -> None:
        self._processes.forget_results()
        self._evidence.begin()
        self._last = None

    # -- verbs that change the world

    def _grant(self, step: Mapping[str, Any]) -> None:
        self._files.holdings(step["principal"]).setdefault(step["dataset"], []).append(step["capability"])
        self._take_over()

    def _revoke(self, step: Mapping[str, Any]) -> None:
        self._files.holdings(step["principal"]).pop(step["dataset"], None)
        self._take_over()

    def _set_revision(self, step: Mapping[str, Any]) -> None:
        """The dataset agent alone learns of it; the root agent finds out by being told that its card is old."""
        self._files.dataset(step["dataset"])["revision"] = step["revision"]
        self._take_over(root=False)

    def _set_policy_version(self, step: Mapping[str, Any]) -> None:
        self._files.world["policy_version"] = step["version"]
        self._take_over()

    def _register_descriptor(self, step: Mapping[str, Any]) -> None:
        self._files.put(step["descriptor"])
        self._take_over()

    def _reset(self, step: Mapping[str, Any]) -> None:
        self.reset()

    def _take_over(self, *, root: bool = True) -> None:
        """What is served already is not served anew."""
        if not self._files.write():
            return
        self._processes.reload()
        if root:
            self._facade.reload()

    # -- verbs that are observed

    def _request(self, step: Mapping[str, Any]) -> Observation:
        ran = self._begin()
        behind = 0.0 if step.get("grant_ttl_s") is None else LEAF_S + SKEW - float(step["grant_ttl_s"])
        if behind:
            self._processes.outlast(behind + 2)
        with self._evaluator(step.get("evaluator") or {}):
            told = self._facade.request(step["principal"], behind=behind, **wanted(step))
        self._last = told if told.minted else None
        return self._answered(told, self._ran_since(ran))

    def _delegate(self, step: Mapping[str, Any]) -> Observation:
        if self._last is None:
            raise LookupError("no request before it was granted anything")
        ran = self._begin()
        call = {"dataset": step["dataset"], "capability": step["capability"], "arguments": self._fresh_arguments(step)}
        send = self._facade.call_tool if step["channel"] == "mcp" else self._facade.send_message
        self.attempts.append(f"{step['channel']}:{step['dataset']}.{step['capability']}")
        replied = send(self._last, call, step["scope"])
        return self._delegated(step, self._last, replied, self._ran_since(ran))

    def _begin(self) -> int:
        self._processes.policy_ready()
        self._evidence.begin()
        return len(self._processes.executions())

    def _ran_since(self, before: int) -> list[Execution]:
        """What the tap saw. Raises where the ledger has more runs than it."""
        ran = self._processes.executions()[before:]
        if self._evidence.runs() > len(ran):
            raise Contradiction("the ledger has a run that no engine made")
        return ran

    def _answered(self, told: Told, ran: list[Execution]) -> Observation:
        shown, own = told.shown, told.shown["decision"]
        planned, verified = told.answer.asking.plan, told.answer.asking.verified
        crossed = {door: [_named(call) for call in shown[f"{door}_calls"]] for door in DOORS}
        if shown["result"] is not None and crossed != {door: _by(door, ran) for door in DOORS}:
            raise Contradiction(f"the answer says that {crossed} ran, and {ran} did")
        if planned is not None:
            self.attempts.append(f"a2a:{shown['dataset']}.{shown['capability']}")
        applied = verified.statement.predicate if verified and ran else None
        return Observation(
            decision=own["verdict"],
            reason=own["reason"],
            policy_id=own["policy_id"],
            rationale=own["rationale"],
            granted=told.minted,
            grant_scope=told.scope if told.minted else None,
            executed_scope=None
            if applied is None
            else {
                "principal_class": applied.authorization.principal_class,
                "dataset": applied.dataset.dataset_id,
                "capabilities": [applied.operation.capability],
                "max_sensitivity": applied.authorization.sensitivity,
            },
            dataset=shown["dataset"],
            capability=shown["capability"],
            tool_calls=[run.name for run in ran],
            mcp_calls=_by("mcp", ran),
            a2a_calls=_by("a2a", ran),
            cache_hit=bool(shown["cache"]) and shown["cache"]["outcome"] in ("HIT", "STALE"),
            result_present=shown["result"] is not None,
            evidence=self._evidence.records(),
            errors=[] if shown["verdict"] == "GRANTED" else [shown["rationale"]],
        )

    def _delegated(self, step: Mapping[str, Any], last: Told, replied: Replied, ran: list[Execution]) -> Observation:
        """The grant is the one from before; what is told is whether the call crossed, and why not.

        Raises where an engine ran for another door than the one the call was sent to.
        """
        own = last.shown["decision"]
        if any(run.door != step["channel"] for run in ran):
            raise Contradiction(f"an engine ran for another door than {step['channel']}")
        stopped = replied.decision.get("verdict") != "GRANTED"
        return Observation(
            decision=own["verdict"],
            reason=own["reason"],
            policy_id=own["policy_id"],
            granted=last.minted,
            grant_scope=last.scope,
            executed_scope=dict(step["scope"]) if ran else None,
            dataset=step["dataset"],
            capability=step["capability"],
            mcp_calls=_by("mcp", ran),
            a2a_calls=_by("a2a", ran),
            result_present=replied.has_result,
            evidence=[record(row) for row in self._evidence.rows("remote")],
            errors=[str(replied.error.get("message") or replied.decision.get("rationale"))] if stopped else [],
        )

    # -- what the verbs need

    def _evaluator(self, told: Mapping[str, Any]) -> AbstractContextManager[None]:
        if not told.get("reachable", True):
            return self._without_policy_server()
        if told.get("latency_s", 0.0) > self._processes.settings.policy_budget:
            return self._processes.policy_server_stands_still()
        return nullcontext()

    @contextmanager
    def _without_policy_server(self) -> Any:
        self._processes.kill_policy_server()
        try:
            yield
        finally:
            self._processes.start_policy_server()

    def _runs_for_anybody(self, dataset: str, capability: str) -> bool:
        call = {
            "dataset": dataset,
            "capability": capability,
            "arguments": arguments_of(dataset, capability, "", fresh=1),
        }
        for principal in self._files.world["principals"]:
            before = len(self._processes.executions())
            self._facade.request(principal, call=call)
            if len(self._processes.executions()) > before:
                return True
        return False

    def _fresh_arguments(self, step: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments that no step has used, so that a call that is answered makes the engine run."""
        self._fresh += 2
        return arguments_of(step["dataset"], step["capability"], "", fresh=self._fresh)


def _named(call: Mapping[str, Any]) -> str:
    return f"{call['dataset']}.{call['capability']}"


def _by(door: str, ran: Sequence[Execution]) -> list[str]:
    return [run.name for run in ran if run.door == door]
