"""``python -m examples.two_agents``: one question, two dataset agents, and what each could and could not do.

Exit 0 only if everything held.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from contract.result import ResultDocument
from contract.settings import Settings
from contract.verdict import Verdict
from dataset_agent.answer_display import result_table
from dataset_agent.answering import answer_to
from dataset_agent.console import note, paragraph, print_json, progress, say
from evidence.artifact import Artifact, read_artifact, write_artifact
from evidence.provenance import verify_saved
from evidence.tree import verify_tree, walk
from evidence.verify import verify_ledger
from examples.two_agents.homes import CHROMATOGRAPHY, PURIFICATION, ROOT, Homes
from examples.two_agents.middle import TRIES, Middle, claims_of
from examples.two_agents.services import serving, temporary_homes
from grants.inspect import explain
from grants.trust import load_trust
from root_agent.asking import Answer

QUESTION: Final = "Assess the polishing of batch B017"
_INDENT: Final = 4


class Story:
    """Prints the steps as they happen and remembers whether each was as it should be."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self.told: dict[str, Any] = {"ok": True, "steps": []}

    def step(self, title: str, outcome: str, ok: bool) -> None:
        self.told["ok"] = self.told["ok"] and ok
        self.told["steps"].append({"title": title, "outcome": outcome, "ok": ok})
        if not self._as_json:
            paragraph(title, first=f"{len(self.told['steps'])}.", indent=_INDENT)
            paragraph(f"{'ok' if ok else 'NOT OK'}  {outcome}", indent=_INDENT)

    def show(self, name: str, value: Any, print_it: Callable[[], None]) -> None:
        self.told[name] = value
        if not self._as_json:
            print_it()

    def end(self) -> int:
        if self._as_json:
            print_json(self.told)
        else:
            say("Everything held." if self.told["ok"] else "Something did NOT hold.")
        return 0 if self.told["ok"] else 1


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.two_agents", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--keep", action="store_true", help="keep the three homes and say where they are")
    given = parser.parse_args(arguments)
    story = Story(given.json)
    with temporary_homes(keep=given.keep) as homes:
        saved = homes.root.home / "answer.json"
        with progress("starting two dataset agents"), serving(homes.purification, homes.chromatography):
            answer = _asked(story, homes)
            if answer.asking.plan is not None:
                _chain(story, homes, answer)
                _widened(story, homes, answer)
            _save(answer, saved)
        _proven(story, homes, saved)
        _ledgers(story, homes)
        if given.keep:
            _how_to_verify(homes, saved)
    return story.end()


def _how_to_verify(homes: Homes, saved: Path) -> None:
    """The commands of an auditor who has the root agent's trust file and what was kept."""
    command = f"DATASET_AGENT_TRUST_FILE={homes.root.trust_path} dataset-agent"
    note(f"the homes are kept: {homes.root.home.parent}")
    note(f"{command} provenance verify {saved}")  # the root agent's file: it needs no --agent
    for settings in (homes.purification, homes.chromatography):
        ledger = settings.home / "remote" / "ledger.sqlite"
        note(f"{command} evidence verify --ledger {ledger} --agent {settings.agent_id}")


def _asked(story: Story, homes: Homes) -> Answer:
    answer, shown = asyncio.run(answer_to(homes.root, "process_engineer", {"question": QUESTION}))
    document = answer.document
    outcome = f"{answer.verdict} {answer.decision.reason}"
    if isinstance(document, ResultDocument):
        outcome += f": {document.row_count} rows of {PURIFICATION}, completed by {CHROMATOGRAPHY}"
    story.step(f"process_engineer asks: {QUESTION}", outcome, answer.verdict is Verdict.GRANTED)
    if isinstance(document, ResultDocument):
        story.show("result", shown["result"], lambda: result_table(document, "", limit=document.row_count))
    refused, _ = asyncio.run(answer_to(homes.root, "analyst", {"question": QUESTION}))
    kept = refused.verdict is Verdict.REFUSED and refused.asking.plan is None
    title = "analyst asks the same, and is entitled to the batches but not to the runs"
    story.step(title, f"{refused.verdict} {refused.decision.reason}; nothing was called", kept)
    return answer


def _middle(homes: Homes, answer: Answer) -> Middle:
    plan = answer.asking.plan
    if plan is None:
        raise LookupError("nothing was planned")
    return Middle.given(homes, plan.chain[0], plan.call)


def _chain(story: Story, homes: Homes, answer: Answer) -> None:
    """Who passed what to whom, and what each took away: judged by the last receiver, with its own trust file."""
    chain = _middle(homes, answer).honest()
    header = ",".join(chain)
    trust = load_trust(homes.chromatography.trust_path)
    seen = explain(header, now=time.time(), trust=trust, audience=CHROMATOGRAPHY, client=PURIFICATION)
    issued = claims_of(chain[0])
    first = {"from": issued["iss"], "to": ROOT, "narrowed": [], "widened": []}
    steps: list[dict[str, Any]] = [first, *(s.to_json() for s in seen.steps)]
    ok = seen.refusal is None and not any(step["widened"] for step in steps)
    known = ROOT in trust.agents
    outcome = f"{len(chain)} tokens in {len(header)} bytes, {seen.signatures} with the issuer's key; it {'knows' if known else 'has no key of'} {ROOT}"
    story.step(f"{CHROMATOGRAPHY} judges the chain it gets", outcome, ok and not known)

    def lines() -> None:
        for step in steps:
            narrowed = "; ".join(step["narrowed"]) or ("all that is granted" if step is first else "unchanged")
            paragraph(f"{step['from']} -> {step['to']}: {narrowed}", indent=2 * _INDENT)

    story.show("chain", steps, lines)


def _widened(story: Story, homes: Homes, answer: Answer) -> None:
    """Each try under one child, which is honest in all but one member, and then honestly, twice."""
    middle = _middle(homes, answer)
    honest = middle.honest()
    rows = _rows(homes.chromatography)
    tries = [(each.what, middle.signed(honest, each.edit), each.reason) for each in TRIES]
    tries.append(("a root token of its own making", middle.own_root(honest), "GRANT_KEY_UNTRUSTED"))
    told = []
    for what, chain, reason in tries:
        said = middle.send(chain)["reason"]
        told.append({"what": what, "reason": said})
        story.step(f"The middle agent signs and sends, where it may not: {what}", f"REFUSED {said}", said == reason)
    story.told["refused"] = told
    recorded = _rows(homes.chromatography) - rows
    story.step("Each try is a row of the ledger it was made at", _counted(recorded), recorded == len(tries))
    first, second = (middle.send(honest)["reason"] for _ in range(2))
    spent = (first, second) == ("PRINCIPAL_AUTHORIZED", "GRANT_REPLAYED")
    story.step("No try has used the honest grant up; it works, once", f"{first}, then {second}", spent)


def _counted(rows: int) -> str:
    return f"{rows} row{'' if rows == 1 else 's'}"


def _rows(settings: Settings) -> int:
    own = load_trust(settings.trust_path).agents[settings.agent_id]
    return verify_ledger(settings.home / "remote" / "ledger.sqlite", own.every_key).size


def _save(answer: Answer, path: Path) -> None:
    if isinstance(answer.document, ResultDocument) and answer.asking.relayed is not None:
        write_artifact(path, Artifact(dict(answer.asking.relayed), answer.document.body))


def _proven(story: Story, homes: Homes, saved: Path) -> None:
    """The whole tree, from the saved file and the pinned keys, after both services have stopped."""
    agents = load_trust(homes.root.trust_path).agents
    keys = {name: agent.every_key for name, agent in agents.items()}
    artifact = read_artifact(saved)
    statement, _ = verify_saved(artifact.envelope, keys[ROOT], body=artifact.body or b"", agent_id=ROOT)
    levels = [(0, statement), *((level, branch.statement) for level, branch in walk(verify_tree(statement, keys)))]
    tree: list[dict[str, Any]] = [
        {
            "level": level,
            "agent": told.agent.id,
            "asked_by": told.grant.client,
            "dataset": told.dataset.dataset_id,
            "revision": told.dataset.revision,
            "capability": told.operation.capability,
            "rows": told.authorization.rows_returned,
            "policy": told.decision.policy_id,
            "root_jti": told.grant.root_jti,
        }
        for level, told in ((level, statement.predicate) for level, statement in levels)
    ]
    whole = [entry["agent"] for entry in tree] == [ROOT, PURIFICATION, CHROMATOGRAPHY]
    one = len({entry["root_jti"] for entry in tree}) == 1
    story.step(
        "Both services have stopped; anyone verifies the answer", f"{len(tree)} signed statements", whole and one
    )

    def lines() -> None:
        for entry in tree:
            who = "relays" if entry["agent"] == ROOT else f"answered {entry['asked_by']}"
            what = f"{_counted(entry['rows'])} of {entry['dataset']} {entry['capability']} under {entry['policy']}"
            paragraph(f"{entry['agent']} {who}: {what}", indent=2 * _INDENT + 2 * int(str(entry["level"])))

    story.show("provenance", tree, lines)


def _ledgers(story: Story, homes: Homes) -> None:
    places = [(homes.root, ROOT, "root"), (homes.purification, PURIFICATION, "remote")]
    places.append((homes.chromatography, CHROMATOGRAPHY, "remote"))
    for settings, agent_id, side in places:
        keys = load_trust(settings.trust_path).agents[agent_id].every_key
        report = verify_ledger(settings.home / side / "ledger.sqlite", keys)
        story.step(
            f"An auditor verifies the ledger of {agent_id}", _counted(report.size), report.ok and report.size > 0
        )


if __name__ == "__main__":
    sys.exit(main())
