"""What one query is and does in its thread: text, parameters, budget and labels in, checked batches out."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from google.api_core.exceptions import GoogleAPICallError
from google.cloud.bigquery.job import QueryJobConfig

from contract.authority import Authority
from contract.errors import DatasetAgentError
from contract.result import ResultDocument
from contract.verdict import NotGranted, Reason
from queries.arrow_form import arrow_schema, conform
from queries.bigquery_access import Access
from queries.bigquery_errors import Stopped, outcome, reason_of
from queries.bigquery_job import Job, query_config
from queries.bigquery_options import BigQueryOptions, Budget, label
from queries.bigquery_parameters import parameters
from queries.bigquery_text import BigQueryTexts
from queries.bind import Bound
from queries.encode import ResultInvalid, check_schema
from queries.govern import Shape, govern
from queries.masks import MASK_KEY
from queries.outcomes import failed, out_of_time, too_large
from queries.supplied import bound_rows, check_supplied
from queries.template import Template

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Query:
    """One governed query before its thread starts; ``account`` is whom it runs as."""

    template: Template
    shape: Shape
    values: Mapping[str, Any]
    supplied: ResultDocument | None
    account: str | None
    budget: Budget
    labels: dict[str, str]
    max_rows: int


def query_for(
    options: BigQueryOptions,
    authority: Authority,
    template: Template,
    bound: Bound,
    *,
    max_rows: int,
    supplied: ResultDocument | None,
) -> Query:
    """Govern ``template`` by ``authority``. Raises ``NotGranted`` as ``Engine.stream`` does."""
    check_supplied(template, supplied)
    account = options.account_of(authority.principal.principal_class)
    governed = govern(template, authority)
    return Query(
        template=template,
        shape=governed.shape,
        values={**bound.values, **governed.values},
        supplied=supplied,
        account=account,
        budget=options.budget_of(authority.capability),
        labels=_labels(authority),
        max_rows=max_rows,
    )


def _labels(authority: Authority) -> dict[str, str]:
    """What joins a job to the ledger, and its cost to a capability: ids and names, nothing of a person or a row."""
    return {
        "transaction_id": label(authority.grant.txn),
        "decision_id": label(authority.decision.decision_id),
        "dataset": label(authority.dataset),
        "capability": label(authority.capability),
    }


class Work:
    """What the threads of one engine share. Every method blocks, and raises ``NotGranted`` with fixed texts only."""

    def __init__(self, options: BigQueryOptions, access: Access, texts: BigQueryTexts, mask_key: str) -> None:
        self._options = options
        self._access = access
        self._texts = texts
        self._mask_key = mask_key

    def conformed(self, job: Job, query: Query, max_bytes: int) -> Iterator[pa.RecordBatch]:
        """The batches that are not empty, in the one schema, within ``max_bytes`` of Arrow's memory form."""
        results, size = query.template.results, 0
        schema = arrow_schema(results)
        for batch in self._batches(job, query):
            try:
                check_schema(results, batch.schema)
                if batch.num_rows == 0:
                    continue
                formed = conform(schema, results, batch)
            except ResultInvalid as error:
                raise NotGranted(Reason.RESULT_INVALID, str(error)) from None
            size += formed.nbytes
            if size > max_bytes:
                raise too_large()
            yield formed

    def _batches(self, job: Job, query: Query) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._run(job, query)
        except NotGranted:
            raise
        except Stopped:
            raise out_of_time() from None
        except ResultInvalid as error:
            raise NotGranted(Reason.RESULT_INVALID, str(error)) from None
        except DatasetAgentError as fault:
            _log.warning("a query of %s was not sent: %s", query.template.dataset, fault.code)
            raise failed() from None
        except Exception as error:
            # Its own text may quote a cell's value, the query or another table's name.
            if job.stopped or job.is_late:
                raise out_of_time() from None
            word = reason_of(error) if isinstance(error, GoogleAPICallError) else ""
            raise outcome(word, query.template.dataset, job.id, type(error).__name__) from None

    def _run(self, job: Job, query: Query) -> Iterator[pa.RecordBatch]:
        text = self._texts.text(query.template, query.shape)
        client = self._access.client(query.account)
        values = {**query.values, MASK_KEY: self._mask_key} if f"@{MASK_KEY}" in text else query.values
        given = parameters(query.template, query.shape, values, bound_rows(query.template, query.supplied))

        def config() -> QueryJobConfig:
            return query_config(given, maximum_bytes_billed=query.budget.maximum_bytes_billed, labels=query.labels)

        if query.budget.estimate:
            job.estimate(client, text, config())
        done = job.run(client, text, config())
        yield from job.batches(
            done,
            query.template.results,
            max_rows=query.max_rows,
            storage_read=self._options.storage_read,
            reader=lambda: self._access.reader(query.account),
        )
