"""Verified provenance as OpenLineage run events, for a company's lineage server: what was read, by whose run, into what.

One run for each execution of the tree, a START and a COMPLETE; the result that was released is an
output, and an input of the answer it was completed into. The envelope's digest is in each, so that
whoever keeps the envelope can prove what the event says; the event itself proves nothing.
https://openlineage.io/spec/2-0-2/OpenLineage.json
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from typing import Any, Final

from evidence.dsse import upstream_digest
from evidence.predicate import Predicate
from evidence.tree import Branch

_SCHEMA: Final = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"
_VERSION_FACET: Final = (
    "https://openlineage.io/spec/facets/1-0-1/DatasetVersionDatasetFacet.json#/$defs/DatasetVersionDatasetFacet"
)
_PARENT_FACET: Final = "https://openlineage.io/spec/facets/1-1-0/ParentRunFacet.json#/$defs/ParentRunFacet"
PROVENANCE_FACET: Final = "urn:dataset-agent:openlineage:provenance:v1"
PRODUCER: Final = "urn:dataset-agent:producer:v1"
_RUNS: Final = uuid.uuid5(uuid.NAMESPACE_URL, PRODUCER)


def run_events(envelope: Mapping[str, Any], tree: Branch) -> Iterator[dict[str, Any]]:
    """The events of a verified tree, the answers that others rest on first. ``envelope`` is that of its top."""
    yield from _events(upstream_digest(envelope), tree, None)


def _events(digest: str, branch: Branch, parent: Branch | None) -> Iterator[dict[str, Any]]:
    told = branch.statement.predicate
    for named, below in zip(told.upstream, branch.branches, strict=True):
        yield from _events(upstream_digest(named.envelope), below, branch)
    facets = {"dataset_agent_provenance": _facet(digest, branch)}
    if parent is not None:
        facets["parent"] = {
            **_common(_PARENT_FACET),
            "run": {"runId": run_id(parent.statement.predicate)},
            "job": _job(parent.statement.predicate),
        }
    common = {
        "run": {"runId": run_id(told), "facets": facets},
        "job": _job(told),
        "inputs": [_read(told), *[_result(below) for below in branch.branches]],
        "outputs": [_result(branch)],
        "producer": PRODUCER,
        "schemaURL": _SCHEMA,
    }
    yield {"eventType": "START", "eventTime": told.execution.started, **common}
    yield {"eventType": "COMPLETE", "eventTime": told.sealed_at, **common}


def run_id(told: Predicate) -> str:
    """The run's UUID (version 5), the same each time it is exported: of who decided, and the decision."""
    return str(uuid.uuid5(_RUNS, f"{told.agent.id}\n{told.decision.decision_id}"))


def _job(told: Predicate) -> dict[str, Any]:
    return {"namespace": told.agent.id, "name": f"{told.dataset.dataset_id}.{told.operation.capability}", "facets": {}}


def _read(told: Predicate) -> dict[str, Any]:
    """The dataset as it was read."""
    version = {"version": {**_common(_VERSION_FACET), "datasetVersion": told.dataset.revision}}
    return {"namespace": told.agent.id, "name": told.dataset.dataset_id, "facets": version}


def _result(branch: Branch) -> dict[str, Any]:
    """Result bytes as they were sent, named by their digest."""
    digest = branch.statement.result_digest
    version = {"version": {**_common(_VERSION_FACET), "datasetVersion": digest}}
    return {"namespace": branch.statement.predicate.agent.id, "name": f"result/{digest}", "facets": version}


def _facet(digest: str, branch: Branch) -> dict[str, Any]:
    """What the envelope says that lineage has no word for; ids and digests, no row and no argument."""
    told = branch.statement.predicate
    return {
        **_common(PROVENANCE_FACET),
        "envelope_payload_sha256": digest,
        "signed_by": branch.key.thumbprint,
        "decision_id": told.decision.decision_id,
        "verdict": told.decision.verdict,
        "policy": f"{told.decision.policy_id}@{told.decision.policy_version}",
        "txn": told.grant.txn,
        "trace_id": told.invocation.trace_id,
        "dataset_version": told.dataset.dataset_version,
        "schema_version": told.dataset.schema_version,
        "sources": list(told.dataset.sources),
        "cache": told.cache.outcome,
        "execution_id": told.execution.execution_id,
        "rows_returned": told.authorization.rows_returned,
        "ledger_row": told.ledger["index"],
    }


def _common(schema: str) -> dict[str, Any]:
    return {"_producer": PRODUCER, "_schemaURL": schema}
