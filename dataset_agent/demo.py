"""``demo``: the whole story on this machine, over loopback HTTP, with keys and state of its own."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.text import Text

from cache import inspect
from cache.keys import load_keys
from cache.opening import open_store
from cache.selection import Selection, Sort, listing
from contract.result import ResultDocument
from contract.settings import Settings
from contract.verdict import Reason, Verdict
from dataset_agent.answer_display import result_table
from dataset_agent.answering import answer_to
from dataset_agent.cache_display import entry_table
from dataset_agent.card_command import card_json, verified_card
from dataset_agent.console import AsJson, fail, one_line, paragraph, print_json, say
from dataset_agent.demo_services import DemoServices, demo_services
from dataset_agent.edited_grant import send_edited_grant
from dataset_agent.evidence_commands import Side, damage, ledger_keys, ledger_path
from evidence.verify import verify_ledger
from root_agent.asking import Answer

QUESTION = "Compare the recovery of batches B001 and B002"
_INDENT: Final = 4
PARAPHRASE = "How does the recovery of batch B001 compare with B002?"
_HIT_TRIES: Final = 3
_HIT_PAUSE_S: Final = 1.0
"""No call waits long for the cache: on a busy machine one may be answered without it."""


@dataclass(frozen=True, slots=True)
class Step:
    """One line of the story: what was tried, what came of it, and whether that is what was meant to."""

    title: str
    outcome: str
    ok: bool


def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Keep the demo's home folder and say where it is.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run the main job end to end: discover, admit, delegate, verify, reuse, refuse, prove. Exit 0 if all of it held."""
    story = Story(as_json)
    with demo_services(keep=keep) as services:
        asyncio.run(_tell(story, services))
    story.end()


class Story:
    """Prints the steps as they happen and remembers whether each was as it should be."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._steps: list[Step] = []

    def tell(self, title: str, outcome: str, ok: bool) -> None:
        self._steps.append(Step(title, outcome, ok))
        if not self._as_json:
            status = ("ok", "green") if ok else ("NOT OK", "bold red")
            paragraph(title, first=f"{len(self._steps):>2}.", indent=_INDENT)
            paragraph(Text.assemble(status, "  ", one_line(outcome)), indent=_INDENT)

    def show(self, render: Callable[[], None]) -> None:
        if not self._as_json:
            render()

    def end(self) -> None:
        good = all(step.ok for step in self._steps)
        if self._as_json:
            print_json({"ok": good, "steps": [asdict(step) for step in self._steps]})
        elif good:
            say("Everything held. Next: the four doors of README.md, which begin with")
            say("  dataset-agent keys init")
        if not good:
            raise fail("something did NOT hold: run it with --keep and read services.log in its home")


async def _tell(story: Story, services: DemoServices) -> None:
    settings = services.settings
    before = {entry.key for entry in await _entries(settings)}
    await _discover(story, settings)
    first = await _ask(story, settings, "process_engineer", QUESTION, Verdict.GRANTED, cache="MISS")
    if isinstance(first.document, ResultDocument):
        document = first.document
        story.show(lambda: result_table(document, "", limit=document.row_count))
    again = "the same question again"
    await _ask(story, settings, "process_engineer", QUESTION, Verdict.GRANTED, cache="HIT", again=again)
    await _ask(story, settings, "process_engineer", PARAPHRASE, Verdict.GRANTED, cache="HIT", again="a paraphrase")
    await _ask(story, settings, "analyst", QUESTION, Verdict.GRANTED, cache="MISS", again="another partition")
    await _ask(story, settings, "external_auditor", QUESTION, Verdict.REFUSED, reason=Reason.INSUFFICIENT_PRIVILEGE)
    await _edited(story, settings)
    services.stop_policy_server()
    again, gone = "the policy server is stopped", Reason.EVALUATOR_UNAVAILABLE
    await _ask(story, settings, "process_engineer", QUESTION, Verdict.INDETERMINATE, reason=gone, again=again)
    await _cache_keys(story, settings, before)
    _ledger(story, settings)


async def _discover(story: Story, settings: Settings) -> None:
    card = card_json(settings, await verified_card(settings))
    public = sorted(descriptor["dataset"] for descriptor in card["datasets"])
    outcome = f"{card['name']} at {card['url']}: card signature verified; it publishes {', '.join(public)}"
    story.tell("The root agent fetches the dataset agent's card", outcome, bool(public))


async def _ask(
    story: Story,
    settings: Settings,
    principal: str,
    question: str,
    verdict: Verdict,
    *,
    cache: str | None = None,
    reason: Reason | None = None,
    again: str = "",
) -> Answer:
    for left in reversed(range(_HIT_TRIES if cache == "HIT" else 1)):
        answer, shown = await answer_to(settings, principal, {"question": question})
        ok = answer.verdict is verdict and _as_meant(answer, shown, cache, reason)
        if ok or not left:
            break
        await asyncio.sleep(_HIT_PAUSE_S)
    story.tell(f"{principal} asks: {question}" + (f" ({again})" if again else ""), _outcome(answer, shown), ok)
    return answer


def _as_meant(answer: Answer, shown: dict[str, Any], cache: str | None, reason: Reason | None) -> bool:
    if answer.verdict is Verdict.GRANTED:
        return shown["cache"]["outcome"] == cache and shown["provenance"]["verified"] is True
    nothing_ran = shown["result"] is None and not shown["tool_calls"] and not shown["a2a_calls"]
    return nothing_ran and answer.decision.reason is reason and "execute" not in shown["visited_nodes"]


def _outcome(answer: Answer, shown: dict[str, Any]) -> str:
    decision = answer.decision
    if answer.document is not None:
        return (
            f"{decision.verdict} by {decision.policy_id}, cache {shown['cache']['outcome']}, "
            f"{answer.document.row_count} rows, provenance verified"
        )
    named = f" by {decision.policy_id}" if decision.policy_id else ", no policy named"
    return f"{decision.verdict} {decision.reason}{named}; nothing was called"


async def _edited(story: Story, settings: Settings) -> None:
    decision = await send_edited_grant(settings)
    ok = decision["verdict"] == "REFUSED" and decision["reason"] == Reason.GRANT_SIGNATURE_INVALID.value
    story.tell("A grant is edited on the way", f"{decision['verdict']} {decision['reason']}", ok)


async def _entries(settings: Settings) -> list[inspect.EntryView]:
    store = open_store(settings)
    try:
        at_hand = inspect.AtHand.of(load_keys(settings))
        return list((await listing(store, Selection(), at_hand, now=time.time(), sort=Sort.KEY, limit=100)).entries)
    finally:
        await store.close()


async def _cache_keys(story: Story, settings: Settings, before: set[str]) -> None:
    found = [entry for entry in await _entries(settings) if entry.key not in before]
    outcome = f"{len(found)} entries, no scope, argument or row in sight"
    story.tell("An operator lists the cache keys", outcome, len(found) == 2)
    story.show(lambda: entry_table([entry.to_json() for entry in found]))


def _ledger(story: Story, settings: Settings) -> None:
    keys = ledger_keys(settings, Side.REMOTE)
    path = ledger_path(settings, Side.REMOTE)
    report = verify_ledger(path, keys)
    outcome = f"whole: {report.size} rows" if report.ok else damage(report)
    story.tell("An auditor verifies the dataset agent's ledger", outcome, report.ok)
    edited = verify_ledger(_edited_copy(path, settings.home / "copy.sqlite"), keys)
    outcome = "not noticed" if edited.ok else f"named: {damage(edited)}"
    story.tell("Row 1 of a copy is edited", outcome, not edited.ok and edited.bad_row == 1)


def _edited_copy(path: Path, copy: Path) -> Path:
    with sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True) as source, sqlite3.connect(copy) as target:
        source.backup(target)
        target.execute("UPDATE entries SET reason = 'INSUFFICIENT_PRIVILEGE' WHERE idx = 1")
    return copy
