"""Whether BigQuery takes a template: a dry run with typed NULLs, which reads nothing and is free."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from google.api_core.exceptions import BadRequest, GoogleAPICallError
from google.api_core.retry import Retry
from google.cloud.bigquery import SchemaField
from google.cloud.bigquery.job import QueryJobConfig
from sqlglot import exp

from contract.errors import DatasetAgentError
from contract.schema import ResultColumn
from contract.verdict import NotGranted
from queries.bigquery_access import Access
from queries.bigquery_errors import is_access, is_transient, unreachable
from queries.bigquery_options import BigQueryOptions
from queries.bigquery_parameters import parameters
from queries.bigquery_read import type_name
from queries.bigquery_text import BigQueryTexts
from queries.errors import TemplateError
from queries.govern import Shape
from queries.template import Template

_UNLIMITED = Shape((), ())


def check_template(
    access: Access, options: BigQueryOptions, texts: BigQueryTexts, template: Template, timeout: float
) -> None:
    """Dry-run ``template`` as the accounts in turn, until one may. Blocks, for ``timeout`` seconds an account.

    Not every class of principals needs to read every table; that nobody may is a fault.
    Raises ``TemplateError`` where BigQuery does not take the text or would return other
    columns, and another fault where it cannot be asked.
    """
    try:
        text = texts.text(template, _UNLIMITED)
        given = parameters(template, _UNLIMITED, _counts(template), None)
    except NotGranted as error:
        raise TemplateError(
            template.name, None, "it has no text for BigQuery that reads exactly its base tables"
        ) from error
    refused: GoogleAPICallError | None = None
    accounts: list[str | None] = [*sorted(set(options.accounts.values()))]
    for account in accounts or [None]:
        try:
            job = access.client(account).query(
                text,
                job_config=QueryJobConfig(
                    query_parameters=given, use_legacy_sql=False, use_query_cache=False, dry_run=True
                ),
                location=options.location,
                retry=Retry(predicate=is_transient, initial=0.1, maximum=1.0, timeout=timeout),
                timeout=timeout,
                job_retry=None,
            )
        except GoogleAPICallError as error:
            if not is_access(error):
                raise _fault(template, error) from None
            refused = error
            continue
        except DatasetAgentError:
            raise
        except Exception as error:
            raise unreachable(type(error).__name__) from None
        _check_columns(template, job.schema)
        return
    if refused is not None:
        raise _fault(template, refused) from None


def _counts(template: Template) -> dict[str, Any]:
    """A number for each parameter of LIMIT and OFFSET, which take no NULL."""
    counts = [
        node for limit in template.written().find_all(exp.Limit, exp.Offset) for node in limit.find_all(exp.Parameter)
    ]
    return {node.name: 1 for node in counts}


def _check_columns(template: Template, found: Sequence[SchemaField] | None) -> None:
    given = [_described(field) for field in found or ()]
    wanted = [_declared(column) for column in template.results]
    if given != wanted:
        raise TemplateError(
            template.name, None, f"BigQuery would return {', '.join(given)}; declared is {', '.join(wanted)}"
        )


def _described(field: SchemaField) -> str:
    inner = f"<{', '.join(_described(inner) for inner in field.fields)}>" if field.fields else ""
    kind = f"{type_name(field.field_type)}{inner}"
    return f"{field.name} {f'ARRAY<{kind}>' if field.mode == 'REPEATED' else kind}"


def _declared(column: ResultColumn | Any) -> str:
    inner = f"<{', '.join(_declared(field) for field in column.fields)}>" if column.fields else ""
    kind = f"{column.type.value}{inner}"
    return f"{column.name} {f'ARRAY<{kind}>' if column.mode.value == 'REPEATED' else kind}"


def _fault(template: Template, error: GoogleAPICallError) -> DatasetAgentError:
    """Read by the publisher alone: a dry run sees no row, so what BigQuery says of it quotes none."""
    said = str(error.errors[0].get("message", "")) if error.errors else ""
    reason = (said or type(error).__name__).split("\n")[0][:200]
    if isinstance(error, BadRequest) or is_access(error):
        return TemplateError(template.name, None, f"BigQuery does not accept the query: {reason}")
    return unreachable(type(error).__name__)
