"""Clients of BigQuery: one for each account that queries run as, made when it is first needed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final

import google.auth
import grpc
from google.api_core.client_info import ClientInfo
from google.api_core.client_options import ClientOptions
from google.auth import impersonated_credentials
from google.auth.credentials import AnonymousCredentials, Credentials
from google.auth.exceptions import GoogleAuthError
from google.cloud import bigquery
from google.cloud.bigquery import opentelemetry_tracing
from google.cloud.bigquery_storage_v1 import BigQueryReadClient
from google.cloud.bigquery_storage_v1.services.big_query_read.transports import BigQueryReadGrpcTransport

from contract.errors import Category, Component, DatasetAgentError
from queries.bigquery_options import BigQueryOptions

_SCOPES: Final = ("https://www.googleapis.com/auth/bigquery",)
_CLIENT: Final = ClientInfo(user_agent="dataset-agent")
_REST: Final = "https://bigquery.googleapis.com"

# The client's own spans carry what BigQuery says of an error, and that may quote a cell.
opentelemetry_tracing.HAS_OPENTELEMETRY = False


def default_credentials() -> Credentials:
    """The agent's own: application default credentials. Blocks. Raises a configuration fault."""
    try:
        found, _ = google.auth.default(scopes=_SCOPES)
    except GoogleAuthError:
        raise DatasetAgentError(
            Component.QUERIES,
            Category.CONFIGURATION,
            "queries.bigquery.credentials",
            "there are no Google credentials: attach a service account, or set GOOGLE_APPLICATION_CREDENTIALS",
        ) from None
    held: Credentials = found
    return held


class Access:
    """Clients by account, ``None`` being the agent's own. For use from several threads; every method blocks.

    ``own`` gives the agent's credentials, ``tokens`` is where those of another account are
    asked for (default: Google's IAM).
    """

    def __init__(
        self,
        options: BigQueryOptions,
        *,
        own: Callable[[], Credentials] = default_credentials,
        tokens: str | None = None,
    ) -> None:
        self._options = options
        self._own = own
        self._tokens = tokens
        self._lock = threading.Lock()
        self._credentials: dict[str | None, Credentials] = {}
        self._clients: dict[str | None, bigquery.Client] = {}
        self._readers: dict[str | None, BigQueryReadClient] = {}

    def client(self, account: str | None) -> bigquery.Client:
        """Raises a configuration fault where there are no credentials."""
        with self._lock:
            held = self._clients.get(account)
            if held is None:
                held = self._clients[account] = self._make(account)
            return held

    def reader(self, account: str | None) -> BigQueryReadClient | None:
        """The client of the Storage Read API, ``None`` where an emulator has none."""
        with self._lock:
            held = self._readers.get(account)
            if held is None:
                made = self._make_reader(account)
                if made is None:
                    return None
                held = self._readers[account] = made
            return held

    def close(self) -> None:
        """Give back connections."""
        with self._lock:
            for client in self._clients.values():
                client.close()
            for reader in self._readers.values():
                reader.transport.close()
            self._clients.clear()
            self._readers.clear()

    def _make(self, account: str | None) -> bigquery.Client:
        options, emulator = self._options, self._options.emulator
        return bigquery.Client(
            project=options.project,
            location=options.location,
            credentials=self._credential(account),
            client_info=_CLIENT,
            # Told in any case, so that nothing in the environment sends queries and tokens elsewhere.
            client_options=ClientOptions(api_endpoint=_REST if emulator is None else emulator.rest),
        )

    def _make_reader(self, account: str | None) -> BigQueryReadClient | None:
        emulator = self._options.emulator
        if emulator is None:
            return BigQueryReadClient(credentials=self._credential(account))
        if emulator.storage is None:
            return None
        return BigQueryReadClient(transport=BigQueryReadGrpcTransport(channel=grpc.insecure_channel(emulator.storage)))

    def _credential(self, account: str | None) -> Credentials:
        held = self._credentials.get(account)
        if held is None:
            held = self._credentials[account] = self._credentials_of(account)
        return held

    def _credentials_of(self, account: str | None) -> Credentials:
        if self._options.emulator is not None and self._tokens is None:
            return AnonymousCredentials()
        if account is None:
            return self._own()
        more: dict[str, Any] = {} if self._tokens is None else {"iam_endpoint_override": self._tokens.format(account)}
        return impersonated_credentials.Credentials(
            source_credentials=self._credential(None), target_principal=account, target_scopes=list(_SCOPES), **more
        )
