"""Expected verdicts as a table, by which a data owner tests policies: read strictly, told apart from what is decided.

A case names principals, datasets and capabilities (one, a list, or ``*``) and what each of their
combinations must come to. A combination that several cases name is decided by the most exact one;
two as exact as one another contradict. A CSV file has the members as columns.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field, ValidationError, field_validator

from contract.canonical import InvalidJson, parse_json
from contract.errors import Category, Component, DatasetAgentError
from contract.files import read_bounded
from contract.ids import Slug
from contract.schema import Strict
from contract.scope import Obligations, ScopeError
from contract.verdict import VERDICTS, Decision, Reason, Verdict
from control_plane.model_faults import all_faults, in_one_line
from control_plane.obligations import parse_obligations
from control_plane.yaml_reader import Document, UnreadableFile, read_document

ANY: Final = "*"
MAX_CASES: Final = 10_000
MAX_COMBINATIONS: Final = 200_000
_MAX_BYTES: Final = 1_000_000
_COLUMNS: Final = ("principal", "dataset", "capability", "verdict", "reason", "policy_id", "max_age_s", "obligations")
_UNSAID: Final = "unsaid"

_Name = Slug | Literal["*"]
_Names = Annotated[tuple[_Name, ...], Field(strict=False, min_length=1)]


class ExpectedCase(Strict):
    """One line. ``policy_id`` and ``obligations`` are checked where they are given; null is none."""

    principal: _Names
    dataset: _Names
    capability: _Names
    verdict: Annotated[Verdict, Field(strict=False)]
    reason: Annotated[Reason, Field(strict=False)] | None = None
    policy_id: str | None = _UNSAID
    obligations: dict[str, Any] | None = None
    max_age_s: float | None = Field(default=None, gt=0, strict=False)

    @field_validator("principal", "dataset", "capability", mode="before")
    @classmethod
    def _one_is_a_list(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value

    @field_validator("obligations", mode="before")
    @classmethod
    def _whole(cls, value: Any) -> Any:
        """What is left out of obligations is none of that kind."""
        if value is None:
            return None
        if not isinstance(value, dict):
            raise ValueError("obligations must have members: rows, columns, masks, stale_s")
        whole: dict[str, Any] = {"rows": {}, "columns": None, "masks": {}} | value
        try:
            return parse_obligations(whole).to_json()
        except ScopeError as error:
            raise ValueError(f"obligations: {error}") from error


class ExpectedFile(Strict):
    """``now`` is the time of every case, for rules about age; default: the time of the test."""

    now: datetime | None = Field(default=None, strict=False)
    cases: Annotated[tuple[ExpectedCase, ...], Field(strict=False, min_length=1, max_length=MAX_CASES)]

    @field_validator("now")
    @classmethod
    def _zoned(cls, value: datetime | None) -> datetime | None:
        if value is not None and value.tzinfo is None:
            raise ValueError("needs a time zone, for example 2026-09-01T00:00:00Z")
        return value


@dataclass(frozen=True, slots=True)
class Expected:
    """What one combination must come to, and the line of the file that says so."""

    principal: str
    dataset: str
    capability: str
    case: ExpectedCase
    line: int | None

    def differences(self, decision: Decision) -> tuple[str, ...]:
        """In what a decision is another one, each as ``member: expected, found``."""
        case, found = self.case, decision
        told = [("verdict", case.verdict.value, found.verdict.value)]
        if case.reason is not None:
            told.append(("reason", case.reason.value, found.reason.value))
        if case.policy_id != _UNSAID:
            told.append(("policy_id", case.policy_id or "none", found.policy_id or "none"))
        if case.obligations is not None:
            mine, theirs = case.obligations, found.obligations.to_json()
            told += [(name, _shown(mine.get(name)), _shown(theirs.get(name))) for name in sorted({*mine, *theirs})]
        return tuple(f"{name}: expected {mine}, found {theirs}" for name, mine, theirs in told if mine != theirs)


@dataclass(frozen=True, slots=True)
class Table:
    """The combinations of a file in its order; ``now`` is POSIX seconds, ``None`` where the file says none."""

    expected: tuple[Expected, ...]
    now: float | None


def read_table(path: Path, people: tuple[str, ...], datasets: Mapping[str, tuple[str, ...]]) -> Table:
    """The table of a ``.yaml`` or ``.csv`` file; ``*`` stands for these people, and these datasets' capabilities.

    Raises INVALID_INPUT with file and line: for a file that is not of this form, a name that is not
    there, and cases that contradict one another.
    """
    document = _csv(path) if path.suffix == ".csv" else _yaml(path)
    if isinstance(document.value, dict) and document.value.get("cases") == []:
        raise _fault(path, None, "it holds no case")
    try:
        file = ExpectedFile.model_validate(document.value)
    except ValidationError as error:
        raise _fault(path, None, in_one_line(all_faults(error, document))) from error
    chosen: dict[tuple[str, str, str, float | None], tuple[int, Expected]] = {}
    for number, case in enumerate(file.cases):
        line = document.where(("cases", number))[0]
        for one in _combinations(path, case, line, people, datasets):
            key = (one.principal, one.dataset, one.capability, case.max_age_s)
            exact = _exactness(case)
            before = chosen.get(key)
            if before is not None and before[0] == exact and before[1].case != case:
                told = f"{' '.join(key[:3])} is said another way in line {before[1].line}; keep one"
                raise _fault(path, line, told)
            if before is None or before[0] < exact:
                chosen[key] = (exact, one)
            if len(chosen) > MAX_COMBINATIONS:
                raise _fault(path, line, f"it names more than {MAX_COMBINATIONS:,} combinations")
    now = None if file.now is None else file.now.timestamp()
    return Table(tuple(one for _, one in chosen.values()), now)


def contradiction(case: ExpectedCase) -> str | None:
    """Why no decision could ever be as a case says."""
    if case.reason is not None and VERDICTS[case.reason] is not case.verdict:
        return f"{case.reason.value} is never {case.verdict.value}, it is {VERDICTS[case.reason].value}"
    if case.verdict is Verdict.INDETERMINATE and case.policy_id not in (None, _UNSAID):
        return "an INDETERMINATE decision names no policy"
    if case.verdict is not Verdict.GRANTED and case.obligations not in (None, Obligations().to_json()):
        return "only a GRANTED decision has obligations"
    return None


def _combinations(
    path: Path, case: ExpectedCase, line: int | None, people: tuple[str, ...], datasets: Mapping[str, tuple[str, ...]]
) -> Iterator[Expected]:
    if (why := contradiction(case)) is not None:
        raise _fault(path, line, why)
    for person in _named(case.principal, people):
        for dataset in _named(case.dataset, tuple(datasets)):
            # A name that nobody has is a case too: UNKNOWN_PRINCIPAL, MISSING_DESCRIPTOR, UNREGISTERED_CAPABILITY.
            for capability in _named(case.capability, datasets.get(dataset, ())):
                yield Expected(person, dataset, capability, case, line)


def _named(names: tuple[str, ...], known: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for item in names for name in (known if item == ANY else (item,))))


def _exactness(case: ExpectedCase) -> int:
    return sum(ANY not in names for names in (case.principal, case.dataset, case.capability))


def _yaml(path: Path) -> Document:
    try:
        return read_document(path)
    except UnreadableFile as error:
        line, message = error.parts()
        raise _fault(path, line, message) from error


def _csv(path: Path) -> Document:
    """A CSV file as the document of the same table in YAML; several names in a cell are parted by blanks."""
    try:
        text = read_bounded(path, _MAX_BYTES).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        told = "is not UTF-8" if isinstance(error, UnicodeDecodeError) else f"cannot be read: {error.strerror}"
        raise _fault(path, None, told) from error
    rows = csv.reader(io.StringIO(text), strict=True)
    cases: list[dict[str, Any]] = []
    lines: list[int] = []
    try:
        head = next(rows, [])
        if unknown := [name for name in head if name not in _COLUMNS]:
            raise _fault(path, 1, f"there is no column {unknown[0][:40]!r}: {', '.join(_COLUMNS)}")
        for row in rows:
            if any(row):
                if len(row) != len(head):
                    raise _fault(path, rows.line_num, f"it has {len(row)} cells and {len(head)} columns")
                lines.append(rows.line_num)
                cases.append(_cells(path, rows.line_num, dict(zip(head, row, strict=True))))
    except csv.Error as error:
        raise _fault(path, rows.line_num, str(error)) from error
    return _Rows({"cases": cases}, None, tuple(lines))


@dataclass(frozen=True, slots=True)
class _Rows(Document):
    """A document whose cases stand in these lines of a CSV file."""

    lines: tuple[int, ...] = ()

    def where(self, path: Sequence[int | str]) -> tuple[int | None, str]:
        number = path[1] if len(path) > 1 else None
        line = self.lines[number] if isinstance(number, int) and number < len(self.lines) else 1
        return line, ".".join(str(part) for part in path[2:])


def _cells(path: Path, line: int, row: Mapping[str, str]) -> dict[str, Any]:
    case: dict[str, Any] = {name: text.strip() for name, text in row.items() if text.strip()}
    for name in ("principal", "dataset", "capability"):
        if name in case:
            case[name] = case[name].split()
    if case.get("policy_id") == "-":
        case["policy_id"] = None
    try:
        if "obligations" in case:
            case["obligations"] = parse_json(case["obligations"].encode(), limit=_MAX_BYTES)
    except InvalidJson as error:
        raise _fault(path, line, f"obligations: {error}") from error
    return case


def _shown(value: Any) -> str:
    return "none" if value in (None, {}, 0) else str(value)


def _fault(path: Path, line: int | None, problem: str) -> DatasetAgentError:
    place = path.name if line is None else f"{path.name}:{line}"
    return DatasetAgentError(
        Component.CONTROL_PLANE, Category.INVALID_INPUT, "control_plane.policy.expected", f"{place}: {problem}"
    )
