"""What must hold before a row is used: the other agent's provenance is about exactly this answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from contract.result import Content, Result
from contract.scope import Sensitivity
from contract.signing import PublicKey
from contract.verdict import NotGranted, Reason
from control_plane.descriptor import DatasetCapability, DatasetDescriptor
from control_plane.registry import InvalidDataset
from delegation.reply import Reply
from delegation.result_form import InvalidResult, read_result
from delegation.sending import Plan, Sent, Verified
from evidence.dsse import InvalidProvenance, bare_envelope, payload_of, signing_key, upstream_digest
from evidence.limits import MAX_LEVELS, payload_bytes
from evidence.predicate import Statement
from evidence.provenance import verify_provenance
from evidence.tree import check_tree
from grants.trust import Trust, TrustedAgent


def verify_reply(
    reply: Reply,
    *,
    plan: Plan,
    sent: Sent | None,
    descriptor: DatasetDescriptor | InvalidDataset | None,
    trust: Trust,
) -> Verified:
    """The rows and their statement, verified with the pinned key against what was really sent.

    ``descriptor`` is what the agent's verified card says of the dataset. Checked: signature,
    digest and size of the received bytes, agent, grant (leaf digest, ids, issuer, client),
    call hash, dataset, version, revision, schema version, capability, columns and sensitivity
    within the grant, sensitivity and origin as the card says, the decision beside the rows,
    the ledger receipt, what the statement carries (``check_tree``), and that the bytes are a
    result with the columns of the card that says the same. Bytes that are still to be fetched
    are described in the reply; all of that must be what the statement says, and whoever fetches
    them compares digest and size.

    Of the envelope only what was verified is kept (``bare_envelope``). Raises
    ``NotGranted(REMOTE_PROVENANCE_INVALID)``.
    """
    agent = trust.agent(plan.agent_id)
    if reply.envelope is None or sent is None or agent is None:
        raise _invalid("there is nothing to verify")
    try:
        key = _signed_with(agent, reply.envelope)
        envelope = bare_envelope(reply.envelope, key)
        statement = verify_provenance(
            envelope,
            key,
            body=_content(reply),
            agent_id=agent.id,
            leaf_digest=sent.leaf_digest,
            leaf_jti=sent.leaf_jti,
            txn=sent.txn,
            call_hash=plan.call.call_hash,
            dataset=plan.scope.dataset,
            capability=plan.call.capability,
            ledger_keys=agent.accepted_keys,
        )
        _check_carried(statement, envelope, plan)
    except InvalidProvenance as error:
        raise _invalid(str(error)) from error
    grant = statement.predicate.grant
    if (grant.root_jti, grant.issuer, grant.client) != (sent.root_jti, sent.issuer, sent.client):
        raise _invalid("the provenance names another grant")
    known = descriptor if isinstance(descriptor, DatasetDescriptor) else None
    _check_dataset(statement, known, plan)
    _check_decision(statement, reply)
    capability = known.capability(plan.call.capability) if known else None
    if capability is None:
        raise _invalid("no verified card declares what the capability returns")
    check_applied(statement, capability, plan.scope.max_sensitivity, tool=plan.tool)
    document = _document(statement, capability, reply, plan)
    return Verified(document, envelope, statement, upstream_digest(envelope))


def check_applied(
    statement: Statement, capability: DatasetCapability, ceiling: Sensitivity, *, tool: str | None = None
) -> None:
    """That the rows came about as the verified card says, no more sensitive than ``ceiling``, by the MCP ``tool`` if one was called.

    Raises ``NotGranted(REMOTE_PROVENANCE_INVALID)``.
    """
    told = statement.predicate
    if Sensitivity(told.authorization.sensitivity) is not capability.sensitivity:
        raise _invalid("the provenance names another sensitivity than the card")
    if not capability.sensitivity.within(ceiling):
        raise _invalid("the provenance is of rows more sensitive than the grant covers")
    if told.execution.tool_origin not in _origins(capability, tool):
        raise _invalid("the provenance names another origin of the rows than the card")
    if tool is not None and told.operation.tool_name != tool:
        raise _invalid("the provenance is of another tool than was called")


def _origins(capability: DatasetCapability, tool: str | None) -> frozenset[str]:
    """Where the rows may come from: over A2A from a tool only where the card names nothing else that makes them."""
    if capability.delegates is not None:
        return frozenset({"A2A"})
    if tool is not None:
        return frozenset({"MCP"})
    return frozenset({"LOCAL"} if capability.tool_name else {"LOCAL", "MCP"})


def _check_carried(statement: Statement, envelope: Mapping[str, Any], plan: Plan) -> None:
    """That all the statement carries fits it, and is small enough to be carried on. Raises ``InvalidProvenance``."""
    above = len(plan.chain)  # a statement for each token so far
    if len(payload_of(envelope)) > (limit := payload_bytes(MAX_LEVELS - above)):
        raise InvalidProvenance("size", f"the statement is over {limit} bytes")
    check_tree(statement, level=above + 1)


def _signed_with(agent: TrustedAgent, envelope: Mapping[str, Any]) -> PublicKey:
    """The accepted key that signed it; while the agent changes its key there is more than one."""
    return signing_key(envelope, agent.accepted_keys) if agent.further_keys else agent.key


def _check_dataset(statement: Statement, descriptor: DatasetDescriptor | None, plan: Plan) -> None:
    told, scope = statement.predicate, plan.scope
    expected = (scope.dataset_version, scope.revision, descriptor.schema_version if descriptor else None)
    if (told.dataset.dataset_version, told.dataset.revision, told.dataset.schema_version) != expected:
        raise _invalid("the provenance names another version, revision or schema of the dataset")
    columns = told.authorization.columns
    if scope.columns is not None and (columns is None or not set(columns) <= scope.columns):
        raise _invalid("the provenance names columns that the grant does not cover")


def _check_decision(statement: Statement, reply: Reply) -> None:
    told, said = statement.predicate.decision, reply.decision
    if said is None or (told.decision_id, told.policy_id, told.policy_version) != (
        said.decision_id,
        said.policy_id,
        said.policy_version,
    ):
        raise _invalid("the provenance names another decision than the task")


def _content(reply: Reply) -> bytes | Content:
    return reply.body if reply.stored is None else Content(reply.stored.digest, reply.stored.size)


def _document(statement: Statement, capability: DatasetCapability, reply: Reply, plan: Plan) -> Result:
    """The result, where it is what the card declares and what was asked for, and says what the statement says."""
    told = statement.predicate
    try:
        document = reply.stored or read_result(reply.body, capability.results, max_rows=capability.max_rows)
    except InvalidResult as error:
        raise _invalid(f"the result is not one of {capability.name}: {error}") from error
    if document.media_type != plan.media_type:
        raise _invalid("the result has another form than was asked for")
    if document.row_count > capability.max_rows:
        raise _invalid("the result has more rows than the card allows")
    said = (document.row_count, document.truncated, document.as_of, document.media_type)
    if said != (
        told.authorization.rows_returned,
        told.authorization.truncated,
        told.result.as_of,
        told.result.media_type,
    ):
        raise _invalid("the result says something else than its provenance")
    return document


def _invalid(why: str) -> NotGranted:
    return NotGranted(Reason.REMOTE_PROVENANCE_INVALID, f"the result is not shown: {why}")
