"""What must hold before a row is used: the other agent's provenance is about exactly this answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from contract.call import RESULT_MEDIA_TYPE
from contract.canonical import sha256_hex
from contract.result import ResultDocument
from contract.signing import PublicKey
from contract.verdict import NotGranted, Reason
from control_plane.descriptor import DatasetDescriptor
from control_plane.registry import InvalidDataset
from delegation.reply import Reply
from delegation.result_form import InvalidResult, read_result
from delegation.sending import Plan, Sent, Verified
from evidence.dsse import InvalidProvenance, payload_of, signing_key
from evidence.predicate import Statement
from evidence.provenance import verify_provenance
from grants.trust import Trust, TrustedAgent


def verify_reply(
    reply: Reply,
    *,
    plan: Plan,
    sent: Sent,
    descriptor: DatasetDescriptor | InvalidDataset | None,
    trust: Trust,
) -> Verified:
    """The rows and their statement, verified with the pinned key against what was really sent.

    ``descriptor`` is what the agent's verified card says of the dataset. Checked: signature,
    digest and size of the received bytes, agent, grant (leaf digest, ids, issuer, client),
    call hash, dataset, version, revision, schema version, capability, columns within the
    grant, the decision beside the rows, the ledger receipt, and that the bytes are a result
    with the columns of the card that says the same. Raises
    ``NotGranted(REMOTE_PROVENANCE_INVALID)``.
    """
    agent = trust.agent(plan.agent_id)
    if reply.envelope is None or agent is None:
        raise _invalid("there is nothing to verify")
    try:
        statement = verify_provenance(
            reply.envelope,
            _signed_with(agent, reply.envelope),
            body=reply.body,
            agent_id=agent.id,
            leaf_digest=sent.leaf_digest,
            leaf_jti=sent.leaf_jti,
            txn=sent.txn,
            call_hash=plan.call.call_hash,
            dataset=plan.scope.dataset,
            capability=plan.call.capability,
            ledger_keys=agent.accepted_keys,
        )
        upstream = sha256_hex(payload_of(reply.envelope))
    except InvalidProvenance as error:
        raise _invalid(str(error)) from error
    grant = statement.predicate.grant
    if (grant.root_jti, grant.issuer, grant.client) != (sent.root_jti, sent.issuer, sent.client):
        raise _invalid("the provenance names another grant")
    known = descriptor if isinstance(descriptor, DatasetDescriptor) else None
    _check_dataset(statement, known, plan)
    _check_decision(statement, reply)
    return Verified(_document(statement, known, plan, reply.body), reply.envelope, statement, upstream)


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


def _document(statement: Statement, descriptor: DatasetDescriptor | None, plan: Plan, body: bytes) -> ResultDocument:
    """The received bytes, where they are what the card declares and say what the statement says."""
    told = statement.predicate
    capability = descriptor.capability(plan.call.capability) if descriptor else None
    if capability is None:
        raise _invalid("no verified card declares what the capability returns")
    try:
        document = read_result(body, capability.results, max_rows=capability.max_rows)
    except InvalidResult as error:
        raise _invalid(f"the result is not one of {capability.name}: {error}") from error
    said = (document.row_count, document.truncated, document.as_of, RESULT_MEDIA_TYPE)
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
