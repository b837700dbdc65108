"""Faults in what a person approves: each as a text that is replaced."""

from __future__ import annotations

from typing import Final

from mutants.text import Text

_APPROVAL: Final = "approvals/approval.py"
_BOOK: Final = "approvals/book.py"
_SEAL: Final = "approvals/seal.py"
_REVIEW: Final = "remote_agent/review.py"
_DESK: Final = "remote_agent/approval_desk.py"
_RECALL: Final = "remote_agent/recalling.py"
_PLACE: Final = "return canonical_json([self._agent_id, approval_id, task_id, version])"

REVIEW: Final = (
    Text(_APPROVAL, "other arguments", 'raise _mismatch("the approval is of other arguments")', "return Standing.APPROVED"),
    Text(_APPROVAL, "what nobody approved", "return Standing.APPROVED if approval.state is State.APPROVED else Standing.WAITING", "return Standing.APPROVED"),
    Text(_APPROVAL, "the asked call beside the edited one", "        return Standing.EDITED", "        return Standing.APPROVED"),
    Text(_APPROVAL, "the template as no part of what is approved", "return self.dataset, self.capability, self.template_digest", 'return self.dataset, self.capability, ""'),
    Text(_BOOK, "a call that waits as one that is approved", "if standing is Standing.APPROVED:", "if True:"),
    Text(_SEAL, "a record of another version", _PLACE, "return canonical_json([self._agent_id, approval_id, task_id])"),
    Text(_SEAL, "a record of another task", _PLACE, "return canonical_json([self._agent_id, approval_id, version])"),
    Text(_SEAL, "a record of another id", _PLACE, "return canonical_json([self._agent_id, task_id, version])"),
    Text(_SEAL, "a record of another agent", _PLACE, "return canonical_json([approval_id, task_id, version])"),
    Text("approvals/sqlite_store.py", "a swap of any version", "SET version = ?, until = ?, sealed = ? WHERE id = ? AND version = ? AND sealed = ?", "SET version = ?, until = ?, sealed = ? WHERE id = ? AND (1 OR version = ? OR sealed = ?)"),
    Text("approvals/redis_store.py", "a swap of any version", "if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end", ""),
    Text("control_plane/admission_memo.py", "a grant with an approval for a call without", "        request.review,\n", ""),
    Text("control_plane/admission_rules.py", "a review that is never outstanding", "case.capability.requires_review and case.request.review is Review.OUTSTANDING", "False"),
    Text("control_plane/approving.py", "who approves their own call", "if asked.principal is not None and asked.principal.key == requester:", "if False:"),
    Text("control_plane/descriptor.py", "a capability that is called approve", "if self.name == APPROVE:", "if False:"),
    Text("remote_agent/deciding.py", "a review that is settled without an approval", "review=Review.OUTSTANDING if call.approved is None else Review.GIVEN", "review=Review.GIVEN"),
    Text("remote_agent/answer.py", "an approval that is not used up", "        await use(call, trail, service)\n", ""),
    Text("remote_agent/reuse.py", "a stored result of what was approved", "        and not capability.descriptor.requires_review\n", ""),
    Text(_REVIEW, "a row that is not there for what waits", "        await service.approvals.withdraw(kept)\n", ""),
    Text(_REVIEW, "a review that comes up later as one that is put off", "stop.reason is Reason.REVIEW_REQUIRED and trail.decision is None", "stop.reason is Reason.REVIEW_REQUIRED"),
    Text(_REVIEW, "an end that leaves the task waiting", "ended or answer.decision.reason in _ENDS", "ended"),
    Text(_DESK, "a try that leaves no row", "            await self._recorded(case, case.decision, Kind.BLOCKED)\n", ""),
    Text(_DESK, "a stranger's try that leaves no row", "            await self._written(row_of(kept.approval, None, told, Kind.BLOCKED))\n", ""),
    Text("remote_agent/review.py", "an approval that is used up where it lies alone", "        await _use_once(approved.kept.approval, service)\n", ""),
    Text(_DESK, "an approval without its row", "receipt = await self._recorded(case, case.decision, Kind.HUMAN_APPROVAL_GRANTED)", "receipt = {}"),
    Text(_DESK, "a denial without its row", "receipt = await self._recorded(case, told, Kind.HUMAN_APPROVAL_DENIED)", "receipt = {}"),
    Text("remote_agent/approvers.py", "a token for the root agent", "audience=self._audience", 'audience="urn:dataset-agent:root"'),
    Text(_RECALL, "somebody else's task", "if kept is not None and _owner_of(kept.approval) == owner else None", "if kept is not None else None"),
    Text("root_agent/asking.py", "a wait that the dataset agent did not say", "self.reply.outcome is Outcome.REVIEW", "True"),
    Text("delegation/reply_reader.py", "a grant that waits", "if decision is None or decision.verdict is Verdict.GRANTED or review is None:", "if decision is None or review is None:"),
)  # fmt: skip
