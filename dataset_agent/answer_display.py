"""An answer for people: rows as a table on standard output, everything else in lines beside it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any, Final

from contract.call import ARROW_MEDIA_TYPE
from contract.result import ResultDocument, StoredResult
from contract.verdict import Reason, Verdict
from control_plane.descriptor import DatasetDescriptor
from dataset_agent.console import note, say, table
from dataset_agent.next_steps import with_next
from root_agent.asking import Answer
from root_agent.doors import MCP

_NUMBERS: Final = frozenset({"INT64", "FLOAT64", "NUMERIC", "BIGNUMERIC"})


def show(answer: Answer, shown: dict[str, Any], *, principal: str, limit: int, in_words: bool = False) -> None:
    """The verdict with its reason and what to do next; then rows, at most ``limit``.

    With ``in_words`` who asks is shown the call that their own words were read as, here and nowhere else.
    """
    note(verdict_line(answer, shown))
    if in_words and shown["capability"] and not (shown["missing"] and answer.verdict is Verdict.INDETERMINATE):
        note(f"read as: {_call_read(shown)}")
    if shown["unasked"] and [one["reason"] for one in shown["unasked"]] != [shown["reason"]]:  # else it was just said
        away = ", ".join(f"{one['agent']} ({one['reason']})" for one in shown["unasked"])
        note(f"  could not be asked, so that nothing of theirs is in this: {away}")
    if answer.document is None:
        if shown["approval"]:
            _show_approval(shown, principal, waits=waits_for_a_person(answer, shown))
        if answer.verdict is Verdict.REFUSED:
            return  # to complete what was refused would be refused again
        if unread := shown["not_understood"]:
            note(_not_understood(unread))
        elif answer.decision.reason is Reason.INTENT_NOT_UNDERSTOOD:
            _show_what_can_be_asked(answer)
        for missing in shown["missing"]:
            allowed = f", one of {', '.join(missing['values'])}" if missing["values"] else ""
            note(f"  missing: {missing['name']} ({missing['type']}{allowed}) {missing['description']}")
        if shown["missing"]:
            note(f"  next: {_completed_call(shown, principal)}")
        return
    title = f"{shown['dataset']} {shown['dataset_version']} {shown['capability']}"
    if isinstance(answer.document, StoredResult):
        described_table(shown["result"], title)
    else:
        result_table(answer.document, title, limit=limit)
    cache = shown["cache"]
    how = " (computed from a stored result)" if cache["derived"] else ""
    if cache["outcome"] == "STALE":
        how = f" ({cache['age_s']:.0f} s old, and refreshed for the next call)"
    note(f"cache {cache['outcome']}{how}, as of {cache['as_of']}; provenance verified")


def waits_for_a_person(answer: Answer, shown: Mapping[str, Any]) -> bool:
    """Whether an approval is all that is missing, and it may still come."""
    return answer.decision.reason is Reason.REVIEW_REQUIRED and shown["approval"] is not None


def _show_approval(shown: dict[str, Any], principal: str, *, waits: bool) -> None:
    """What the dataset agent waits for, who may do something about it, and what is sent then."""
    approval = shown["approval"]
    if approval["call"] is not None:
        note(f"  approved with other arguments; next: {_resumed_call(shown, principal, approval['call']['arguments'])}")
        return
    note(f"  approval {approval['approval_id']} is {approval['state']} until {approval['expires_at']}")
    if not waits:  # what was sent is not what waits: to send it again would end the same
        which = "approved with other arguments" if approval["edited"] else "asked for"
        note(f"  it is for exactly the call that was {which}: send that with --task {approval['task_id']}")
        return
    note(f"  an approver, somebody else: dataset-agent approvals approve {approval['approval_id']} --as NAME")
    note(f"  then: {_resumed_call(shown, principal, shown['arguments'] or {})}")


def _resumed_call(shown: dict[str, Any], principal: str, arguments: Mapping[str, Any]) -> str:
    return _completed_call({**shown, "arguments": dict(arguments), "missing": []}, principal)


def _call_read(shown: dict[str, Any]) -> str:
    """A capability and its arguments, as ``--arg`` takes them."""
    given = [f"{name}={shlex.quote(_given(value))}" for name, value in (shown["arguments"] or {}).items()]
    return " ".join((shown["capability"], *given))


def _not_understood(unread: Mapping[str, Any]) -> str:
    words = ", ".join(f"“{word}”" for word in unread["words"])
    nearest = f"{unread['nearest']['capability']} of {unread['nearest']['dataset']}"
    if not unread["limits"]:
        return f"  not understood: {words}; without it, {nearest} is nearest"
    one = len(unread["words"]) == 1
    return (
        f"  not understood: {words}; {nearest} is nearest, and cannot leave out or restrict by {'it' if one else 'them'}: "
        f"without the {'word' if one else 'words'} it would be answered about everything"
    )


def _show_what_can_be_asked(answer: Answer) -> None:
    """What the words were read over: only what this person may ask is among it."""
    for offer in answer.asking.candidates:
        if isinstance(offer.descriptor, DatasetDescriptor):
            names = ", ".join(item.name for item in offer.descriptor.capabilities)
            note(f"  can be asked of {offer.dataset}: {names}")


def verdict_line(answer: Answer, shown: dict[str, Any]) -> str:
    """Who decided what, by which policy, why, and what to do about it."""
    decision = answer.decision
    why = decision.rationale.removeprefix(f"policy {decision.policy_id} ")  # which is named already
    remote = (shown["remote"] or {}).get("decision") or {}
    spoke = remote.get("reason") == decision.reason and answer.document is None
    policy = f" by {decision.policy_id}" if decision.policy_id else ""
    where = " at the dataset agent" if spoke else ""
    line = f"{decision.verdict} {decision.reason}{policy}{where}: {why}"
    return with_next(line, decision.reason, elsewhere=spoke, no_tool=not spoke and _is_no_tool(answer))


def _is_no_tool(answer: Answer) -> bool:
    """Whether no policy refuses the capability: it was admitted, and is no tool of the MCP server that was asked for."""
    decision = answer.decision
    named_mcp = answer.asking.wanted.via == MCP
    return named_mcp and decision.reason is Reason.UNREGISTERED_CAPABILITY and not decision.policy_id


def result_table(document: ResultDocument, title: str, *, limit: int) -> None:
    """The first rows; NULL is shown as such, since an empty text is a value too."""
    result = json.loads(document.body)
    names = [column["name"] for column in result["schema"]]
    numbers = {column["name"] for column in result["schema"] if column["type"] in _NUMBERS}
    rows = [[_cell(cell) for cell in row] for row in result["rows"][:limit]]
    if rows:
        table(title, names, rows, right=numbers, of=len(result["rows"]))
    else:
        say(f"{title}: no rows" if not result["rows"] else title)
    hidden = len(result["rows"]) - len(rows)
    if hidden:
        note(f"{hidden} more rows: --rows {len(result['rows'])} shows them, --json prints all")
    if result["truncated"]:
        note("the dataset agent cut the result at its limit of rows: ask for less")


def described_table(result: Mapping[str, Any], title: str) -> None:
    """What is known of rows that are not here: how many, how large, and of which columns."""
    form = "Arrow" if result["media_type"] == ARROW_MEDIA_TYPE else "JSON"
    title = f"{title}: {result['row_count']} rows, {result['size']:,} bytes of {form}"
    table(title, ("column", "type", "mode"), [_column(column) for column in result["schema"]])
    if result["truncated"]:
        note("the dataset agent cut the result at its limit of rows: ask for less")


def _column(column: Mapping[str, Any]) -> tuple[str, str, str]:
    kind = str(column["type"])
    if fields := column.get("fields"):
        kind += f"<{', '.join(' '.join(_column(field)[:2]) for field in fields)}>"
    return str(column["name"]), kind, str(column["mode"])


def _cell(value: Any) -> str:
    if value is None:
        return "NULL"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _completed_call(shown: dict[str, Any], principal: str) -> str:
    given = [f"{name}={_given(value)}" for name, value in (shown["arguments"] or {}).items()]
    words = ["call", shown["capability"], "--as", principal, "--dataset", shown["dataset"]]
    for pair in [*given, *(f"{missing['name']}=…" for missing in shown["missing"])]:
        words += ["--arg", pair]
    if shown["zone"] != "UTC":
        words += ["--zone", shown["zone"]]
    if task := (shown["remote"] or {}).get("task_id"):
        words += ["--task", task]
    return "dataset-agent " + " ".join(word if word.endswith("=…") else shlex.quote(str(word)) for word in words)


def _given(value: Any) -> str:
    return ",".join(_cell(item) for item in value) if isinstance(value, list) else _cell(value)
