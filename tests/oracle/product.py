"""The product as the oracle asks it: a template is loaded and run on its own engine, nothing in between."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contract.schema import Parameter, ResultColumn, Table
from contract.scope import Sensitivity
from contract.verdict import NotGranted
from queries.bind import bind
from queries.duckdb_engine import DuckDbEngine
from queries.errors import TemplateError
from queries.template import Template, load_template
from tests.authority_builder import make_authority
from tests.oracle.reference import split_fields
from tests.queries.documents import run as run_whole

DATASET = "oracle"
MASK_KEY = b"0123456789abcdef-mask"


@dataclass(frozen=True)
class Outcome:
    """``kind`` is ``rows``, ``error`` (at run) or ``refused`` (at load, with why)."""

    kind: str
    rows: list[list[Any]] | None = None
    why: str = ""


class Product:
    """One engine over ``tables``, which are written below ``folder``."""

    def __init__(self, folder: Path, tables: Sequence[Table]) -> None:
        self._tables = tuple(tables)
        self.engine = DuckDbEngine.open(
            DATASET, "1.0.0", folder, self._tables, scratch=folder / "scratch", mask_key=MASK_KEY
        )

    def load(self, sql: str, columns: Mapping[str, str], parameters: Sequence[Parameter] = ()) -> Template:
        """``columns`` are the output's names and GoogleSQL types, in order. Raises ``TemplateError``."""
        return load_template(
            sql,
            name="templates/t.sql",
            dataset=DATASET,
            tables=self._tables,
            parameters=parameters,
            results=[ResultColumn.model_validate(declared(name, kind)) for name, kind in columns.items()],
            ceiling=Sensitivity.RESTRICTED,
        )

    async def run(
        self,
        sql: str,
        columns: Mapping[str, str],
        parameters: Sequence[Parameter] = (),
        arguments: Mapping[str, Any] | None = None,
    ) -> Outcome:
        """Load, check and run; never raises for what a template or a value is."""
        try:
            template = self.load(sql, columns, parameters)
        except TemplateError as error:
            return Outcome("refused", why=error.reason)
        return await self.answer(template, arguments or {})

    async def answer(self, template: Template, arguments: Mapping[str, Any]) -> Outcome:
        """Run a template that loaded."""
        authority = make_authority(dataset=DATASET, capability="c")
        bound = bind(template, arguments)
        try:
            document, _ = await run_whole(
                self.engine,
                authority,
                template,
                bound,
                max_rows=100_000,
                max_bytes=50_000_000,
                as_of="2024-01-01T00:00:00Z",
            )
        except NotGranted as refusal:
            return Outcome("error", why=f"{refusal.reason.value}: {refusal}")
        return Outcome("rows", rows=json.loads(document.body)["rows"])


def declared(name: str, kind: str) -> dict[str, Any]:
    """A column's declaration from a type in GoogleSQL's spelling."""
    repeated = kind.startswith("ARRAY<")
    inner = kind[6:-1] if repeated else kind
    out: dict[str, Any] = {"name": name, "type": "STRUCT" if inner.startswith("STRUCT<") else inner}
    if repeated:
        out["mode"] = "REPEATED"
    if inner.startswith("STRUCT<"):
        pairs = (part.partition(" ") for part in split_fields(inner[7:-1]))
        out["fields"] = [declared(field, held) for field, _, held in pairs]
    return out
