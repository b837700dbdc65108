"""ZetaSQL, Google's own implementation of GoogleSQL, as an oracle: a query to its types and values.

The requests are made by hand, because the Python wrapper loses TIMESTAMP values and empty
arrays. Values come out in the encoding of the product's results.
"""

from __future__ import annotations

import base64
import datetime as dt
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

# A time of day and a moment are packed into bits, from the micro- or nanosecond up.
_SHIFTS = {"second": (0, 6), "minute": (6, 6), "hour": (12, 5), "day": (17, 5), "month": (22, 4), "year": (26, 14)}
_KINDS = {
    2: "INT64", 5: "BOOL", 7: "FLOAT64", 8: "STRING", 9: "BYTES", 10: "DATE", 19: "TIMESTAMP", 20: "TIME", 21: "DATETIME",
    23: "NUMERIC",
}  # fmt: skip
_NUMBERS = {name: number for number, name in _KINDS.items()}
_SAFE = 2**53 - 1
# What BigQuery does not have, or what moves a type away from BigQuery's.
_OFF = (
    "TIMESTAMP_NANOS", "TIMESTAMP_PICOS", "LATERAL_COLUMN_REFERENCES", "LIMIT_OFFSET_EXPRESSIONS", "TIMESTAMP_PRECISION",
    "DISALLOW_GROUP_BY_FLOAT", "LEGACY_BINARY_CONCAT", "UUID_TYPE", "TEST_IDEALLY_DISABLED",
)  # fmt: skip


class ReferenceError(Exception):
    """ZetaSQL refuses the query or fails in it."""


@dataclass(frozen=True)
class Answer:
    """Column names and types in GoogleSQL's spelling, and the rows as a result document holds them."""

    names: tuple[str, ...]
    types: tuple[str, ...]
    rows: list[list[Any]]


class Reference:
    """One instance takes about twenty seconds to start; the queries then take milliseconds.

    ``tables`` maps a name to its columns (``name -> "INT64"`` or ``"ARRAY<INT64>"``) and rows of Python values.
    """

    def __init__(
        self, tables: Mapping[str, tuple[Mapping[str, str], Sequence[Mapping[str, Any]]]] | None = None
    ) -> None:
        from zetasql import types
        from zetasql.core.local_service import ZetaSqlLocalService
        from zetasql.wasi._pb2.zetasql.local_service import local_service_pb2
        from zetasql.wasi._pb2.zetasql.public import options_pb2, type_pb2, value_pb2

        self._pb, self._type_pb, self._value_pb = local_service_pb2, type_pb2, value_pb2
        language = types.LanguageOptions.maximum_features().to_proto()
        language.product_mode = options_pb2.PRODUCT_EXTERNAL
        off = {options_pb2.LanguageFeature.Value(f"FEATURE_{name}") for name in _OFF}
        kept = [feature for feature in language.enabled_language_features if feature not in off]
        del language.enabled_language_features[:]
        language.enabled_language_features.extend(kept)
        self._language = language
        self._service = ZetaSqlLocalService()
        self._catalog = self._register(tables or {})

    def query(self, sql: str, parameters: Mapping[str, tuple[str, Any]] | None = None) -> Answer:
        """Evaluate ``sql``; ``parameters`` are ``name -> (type, Python value)``. Raises ``ReferenceError``."""
        request = self._pb.EvaluateQueryRequest(sql=sql, registered_catalog_id=self._catalog)
        request.options.language_options.CopyFrom(self._language)
        request.options.default_timezone = "UTC"
        for name, (kind, value) in (parameters or {}).items():
            declared = request.options.query_parameters.add(name=name)
            declared.type.CopyFrom(self._type(kind))
            self._fill(request.params.add(name=name).value, kind, value)
        response = self._call("EvaluateQuery", request, self._pb.EvaluateQueryResponse)
        kinds = [column.type for column in response.prepared.columns]
        rows = [
            [self._value(kind, cell) for kind, cell in zip(kinds, row.cell, strict=True)]
            for row in response.content.table_data.row
        ]
        names = tuple(column.name.lower() for column in response.prepared.columns)
        return Answer(names, tuple(self._name(kind) for kind in kinds), rows)

    def _call(self, name: str, request: Any, response: Any) -> Any:
        from zetasql.core.exceptions import ZetaSQLError

        try:
            return self._service.wasm_client.call_grpc_func(f"ZetaSqlLocalService_{name}", request, response)
        except ZetaSQLError as error:
            raise ReferenceError(str(error)) from None

    def _register(self, tables: Mapping[str, tuple[Mapping[str, str], Sequence[Mapping[str, Any]]]]) -> int:
        request = self._pb.RegisterCatalogRequest()
        catalog = request.simple_catalog
        catalog.name = "catalog"
        catalog.builtin_function_options.language_options.CopyFrom(self._language)
        for number, (name, (columns, rows)) in enumerate(tables.items(), start=1):
            table = catalog.table.add(name=name, serialization_id=number)
            for column, kind in columns.items():
                table.column.add(name=column).type.CopyFrom(self._type(kind))
            content = request.table_content[name].table_data
            for row in rows:
                cells = content.row.add()
                for column, kind in columns.items():
                    self._fill(cells.cell.add(), kind, row[column])
        return int(self._call("RegisterCatalog", request, self._pb.RegisterResponse).registered_id)

    def _type(self, kind: str) -> Any:
        proto = self._type_pb.TypeProto()
        if kind.startswith("ARRAY<"):
            proto.type_kind = self._type_pb.TYPE_ARRAY
            proto.array_type.element_type.CopyFrom(self._type(kind[6:-1]))
        elif kind.startswith("STRUCT<"):
            proto.type_kind = self._type_pb.TYPE_STRUCT
            for part in split_fields(kind[7:-1]):
                name, _, inner = part.partition(" ")
                field = proto.struct_type.field.add(field_name=name)
                field.field_type.CopyFrom(self._type(inner))
        else:
            proto.type_kind = _NUMBERS[kind]
        return proto

    def _name(self, kind: Any) -> str:
        if kind.type_kind == self._type_pb.TYPE_ARRAY:
            return f"ARRAY<{self._name(kind.array_type.element_type)}>"
        if kind.type_kind == self._type_pb.TYPE_STRUCT:
            inner = (f"{field.field_name} {self._name(field.field_type)}" for field in kind.struct_type.field)
            return f"STRUCT<{', '.join(inner)}>"
        return _KINDS.get(kind.type_kind) or self._type_pb.TypeKind.Name(kind.type_kind)

    def _fill(self, proto: Any, kind: str, value: Any) -> None:
        if value is None:
            return
        if kind.startswith("ARRAY<"):
            proto.array_value.SetInParent()
            for item in value:
                self._fill(proto.array_value.element.add(), kind[6:-1], item)
            return
        if kind.startswith("STRUCT<"):
            proto.struct_value.SetInParent()
            for part in split_fields(kind[7:-1]):
                name, _, inner = part.partition(" ")
                self._fill(proto.struct_value.field.add(), inner, value[name])
            return
        match kind:
            case "INT64":
                proto.int64_value = value
            case "BOOL":
                proto.bool_value = value
            case "FLOAT64":
                proto.double_value = value
            case "STRING":
                proto.string_value = value
            case "BYTES":
                proto.bytes_value = value
            case "DATE":
                proto.date_value = (value - dt.date(1970, 1, 1)).days
            case "TIMESTAMP":
                micros = (value - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1)
                proto.timestamp_value.seconds, rest = divmod(micros, 1_000_000)
                proto.timestamp_value.nanos = rest * 1000
            case "DATETIME":
                parts = {name: getattr(value, name) for name in _SHIFTS}
                proto.datetime_value.bit_field_datetime_seconds = _packed(parts)
                proto.datetime_value.nanos = value.microsecond * 1000
            case "TIME":
                parts = {name: getattr(value, name) for name in ("hour", "minute", "second")}
                proto.time_value = _packed(parts) << 30 | value.microsecond * 1000
            case "NUMERIC":
                units = int(Decimal(value).scaleb(9, Context(prec=50)))
                proto.numeric_value = units.to_bytes(16, "little", signed=True)
            case _:
                raise ValueError(f"no value of {kind}")

    def _value(self, kind: Any, proto: Any) -> Any:
        if kind.type_kind == self._type_pb.TYPE_ARRAY:
            return [self._value(kind.array_type.element_type, item) for item in proto.array_value.element]
        which = proto.WhichOneof("value")
        if which is None:
            return None
        if kind.type_kind == self._type_pb.TYPE_STRUCT:
            pairs = zip(kind.struct_type.field, proto.struct_value.field, strict=True)
            return {field.field_name: self._value(field.field_type, item) for field, item in pairs}
        held = getattr(proto, which)
        match _KINDS.get(kind.type_kind):
            case "INT64":
                return held if abs(held) <= _SAFE else str(held)
            case "FLOAT64":
                return held if math.isfinite(held) else {"nan": "NaN", "inf": "Infinity"}.get(str(held), "-Infinity")
            case "BYTES":
                return base64.b64encode(held).decode()
            case "DATE":
                return (dt.date(1970, 1, 1) + dt.timedelta(days=held)).isoformat()
            case "TIMESTAMP":
                moment = dt.datetime(1970, 1, 1) + dt.timedelta(seconds=held.seconds, microseconds=held.nanos // 1000)
                return moment.isoformat(timespec="microseconds") + "Z"
            case "DATETIME":
                parts = _unpacked(held.bit_field_datetime_seconds, _SHIFTS)
                return dt.datetime(**parts, microsecond=held.nanos // 1000).isoformat(timespec="microseconds")
            case "TIME":
                parts = _unpacked(held >> 30, {name: _SHIFTS[name] for name in ("hour", "minute", "second")})
                return dt.time(**parts, microsecond=(held & (1 << 30) - 1) // 1000).isoformat(timespec="microseconds")
            case "NUMERIC":
                return _numeric_text(int.from_bytes(held, "little", signed=True))
        return held


def split_fields(text: str) -> list[str]:
    """The fields of a STRUCT's spelling, split at its own commas only."""
    parts, depth, start = [], 0, 0
    for index, char in enumerate(text):
        depth += (char == "<") - (char == ">")
        if char == "," and depth == 0:
            parts.append(text[start:index].strip())
            start = index + 1
    return [*parts, text[start:].strip()]


def _packed(parts: Mapping[str, int]) -> int:
    return sum(value << _SHIFTS[name][0] for name, value in parts.items())


def _unpacked(bits: int, shifts: Mapping[str, tuple[int, int]]) -> dict[str, int]:
    return {name: bits >> shift & (1 << width) - 1 for name, (shift, width) in shifts.items()}


def _numeric_text(units: int) -> str:
    whole, rest = divmod(abs(units), 10**9)
    text = f"{whole}.{rest:09d}".rstrip("0").rstrip(".")
    return f"-{text}" if units < 0 else text
