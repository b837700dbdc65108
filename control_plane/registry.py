"""The datasets this service knows, read from a folder; a broken one never stops the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from pydantic import ValidationError

from contract.canonical import InvalidJson, canonical_json, check_shape
from contract.errors import Category, Component, DatasetAgentError
from contract.ids import is_slug
from control_plane.manifest import DatasetManifest
from control_plane.model_faults import ModelFault, all_faults, faults_in, in_one_line
from control_plane.yaml_reader import Document, UnreadableFile, read_document

DESCRIPTOR_FILES = ("descriptor.yaml", "descriptor.yml", "descriptor.json")
_RESERVED = frozenset({"policies"})
_DATASET_SUFFIXES = frozenset({".sql", ".yaml", ".yml", ".parquet", ".csv", ".duckdb"})

MAX_PUBLISHED_BYTES: Final = 128 * 1024
MAX_PUBLISHED_VALUES: Final = 8_000
"""Of what one dataset adds to a card, which has bounds of its own and is everybody's."""


@dataclass(frozen=True, slots=True)
class InvalidDataset:
    """A dataset whose descriptor cannot be used; ``error`` is one line with the file's name."""

    dataset: str
    error: str


@dataclass(frozen=True, slots=True)
class Registry:
    """What was read at one moment.

    ``invalid`` is keyed by folder and, where known, dataset name, never by that of a dataset in
    ``datasets``. ``faults`` is keyed by folder alone.
    """

    folder: Path
    datasets: Mapping[str, DatasetManifest]
    invalid: Mapping[str, str]
    folders: Mapping[str, Path]
    faults: Mapping[str, str] = field(default_factory=dict)

    def lookup(self, dataset: str) -> DatasetManifest | InvalidDataset | None:
        """The dataset, what is wrong with it, or ``None`` where no such dataset was ever registered."""
        manifest = self.datasets.get(dataset)
        if manifest is not None:
            return manifest
        error = self.invalid.get(dataset)
        return None if error is None else InvalidDataset(dataset=dataset, error=error)

    def path(self, dataset: str) -> Path:
        """The folder that table and template files are relative to. Raises ``KeyError``."""
        return self.folders[dataset]

    def register(self, dataset: str, raw: Any) -> Registry:
        """A registry in which ``raw`` (a descriptor as JSON) stands for ``dataset``.

        A malformed descriptor makes the dataset invalid; it never leaves the old one in place.
        """
        folder = self.folders.get(dataset, self.folder / dataset)
        datasets, invalid = dict(self.datasets), dict(self.invalid)
        datasets.pop(dataset, None)
        invalid.pop(dataset, None)
        try:
            manifest = DatasetManifest.model_validate(raw)
            if manifest.dataset != dataset:
                raise UnreadableFile("dataset: the descriptor is about another dataset")
            datasets[dataset] = manifest
        except ValidationError as error:
            invalid[dataset] = faults_in(error, Document(raw, None))
        except UnreadableFile as error:
            invalid[dataset] = str(error)
        return Registry(
            folder=self.folder,
            datasets=MappingProxyType(datasets),
            invalid=MappingProxyType(invalid),
            folders=MappingProxyType({**self.folders, dataset: folder}),
            faults=self.faults,
        )


def load_registry(folder: Path) -> Registry:
    """Every dataset folder below ``folder``, in name order.

    Raises a CONFIGURATION fault only where ``folder`` itself cannot be listed. A folder is
    a dataset's when it holds a descriptor; one that looks like a dataset (SQL, YAML, data)
    and holds none is listed as invalid. ``policies`` is not a dataset.
    """
    found = [item for child in dataset_folders(folder) if (item := examine(child)) is not None]
    datasets: dict[str, DatasetManifest] = {}
    folders: dict[str, Path] = {}
    faulty: list[tuple[Examined, str]] = []
    for item, why in zip(found, _claims(found), strict=True):
        if item.manifest is None or why is not None:
            faulty.append((item, f"{item.file}: {why or in_one_line(item.faults)}"))
        else:
            datasets[item.manifest.dataset], folders[item.manifest.dataset] = item.manifest, item.folder
    invalid: dict[str, str] = {}
    for item, error in faulty:  # a name that is served is not also broken: a card names each once
        names = {item.folder.name, item.dataset} - datasets.keys()
        invalid |= dict.fromkeys(names or {item.file}, error)
    return Registry(
        folder=folder,
        datasets=MappingProxyType(datasets),
        invalid=MappingProxyType(invalid),
        folders=MappingProxyType(folders),
        faults=MappingProxyType({item.folder.name: error for item, error in faulty}),
    )


def _claims(found: list[Examined]) -> Iterator[str | None]:
    """Of each folder why it may not have the name of its dataset, ``None`` where it may.

    A folder of that name has it, broken or not: whoever writes another takes nobody's dataset
    down, and stands in for none. Where there is none, and several claim the name, none has it.
    """
    times = Counter(item.manifest.dataset for item in found if item.manifest is not None)
    at_home = {item.dataset for item in found if item.folder.name == item.dataset}
    for item in found:
        name = item.dataset
        if item.manifest is None or item.folder.name == name:
            yield None
        elif name in at_home:
            yield f"dataset: {name} is the dataset of the folder {name}; give this one its own name"
        else:
            yield f"dataset: {name} is described by {times[name]} folders" if times[name] > 1 else None


def dataset_folders(folder: Path) -> list[Path]:
    """The folders below ``folder`` that may hold a dataset. Raises a CONFIGURATION fault where it cannot be listed."""
    try:
        children = sorted(child for child in folder.iterdir() if child.is_dir())
    except OSError as error:
        raise DatasetAgentError(
            Component.CONTROL_PLANE,
            Category.CONFIGURATION,
            "control_plane.registry.folder",
            f"the datasets folder {folder} cannot be read: {error.strerror}; set DATASET_AGENT_DATASETS",
        ) from error
    return [child for child in children if child.name not in _RESERVED and not child.name.startswith((".", "_"))]


@dataclass(frozen=True, slots=True)
class Examined:
    """A dataset's folder. ``manifest`` is there exactly where there are no ``faults``.

    ``file`` is the descriptor's name for people, ``document`` what it holds.
    """

    folder: Path
    dataset: str
    file: str
    manifest: DatasetManifest | None
    faults: tuple[ModelFault, ...]
    document: Document


def examine(folder: Path) -> Examined | None:
    """The descriptor of a folder with all that is wrong with it; ``None`` where the folder is no dataset's.

    Whatever is in it, nothing is raised.
    """
    try:
        return _examined(folder)
    except OSError as error:
        told = f"the folder cannot be read: {error.strerror}"
    except Exception as error:  # its texts may be from the file
        told = f"the folder cannot be read ({type(error).__name__})"
    return Examined(folder, folder.name, folder.name, None, (ModelFault(None, "", told),), Document(None, None))


def _examined(folder: Path) -> Examined | None:
    empty = Document(None, None)

    def wrong(file: str, *faults: ModelFault, dataset: str = folder.name, document: Document = empty) -> Examined:
        return Examined(folder, dataset, file, None, faults, document)

    present = [name for name in DESCRIPTOR_FILES if (folder / name).is_file()]
    if not present:
        if any(item.suffix in _DATASET_SUFFIXES for item in folder.iterdir()):
            return wrong(folder.name, ModelFault(None, "", "the folder has no descriptor.yaml"))
        return None
    file = f"{folder.name}/{present[0]}"
    if len(present) > 1:
        return wrong(file, ModelFault(None, "", f"stands beside {present[1]}; keep one"))
    try:
        document = read_document(folder / present[0])
    except UnreadableFile as error:
        line, message = error.parts()
        return wrong(file, ModelFault(line, "", message))
    raw, dataset = document.value, folder.name
    if isinstance(raw, dict) and isinstance(raw.get("dataset"), str) and is_slug(raw["dataset"]):
        dataset = raw["dataset"]
    try:
        manifest = DatasetManifest.model_validate(raw)
    except ValidationError as error:
        return wrong(file, *all_faults(error, document), dataset=dataset, document=document)
    problems = (*_unwritable(manifest), *file_problems(folder, manifest, document))
    if problems:
        return wrong(file, *problems, dataset=dataset, document=document)
    return Examined(folder, dataset, file, manifest, (), document)


def file_problems(folder: Path, manifest: DatasetManifest, document: Document) -> Iterator[ModelFault]:
    """Files that a descriptor names and that are not there, or not inside its folder."""
    for number, table in enumerate(manifest.tables):
        if table.file is None:
            continue
        place, path = document.where(("tables", number, "file")), _inside(folder, table.file)
        if path is None:
            yield ModelFault(*place, f"{table.file[:80]!r} leaves the dataset's folder; copy the file into it")
        elif path.exists() and not path.is_file():  # a pipe would be waited for, for ever
            yield ModelFault(*place, f"{table.file[:80]!r} is no regular file")
    for number, capability in enumerate(manifest.capabilities):
        if capability.template is None:
            continue
        place, name = document.where(("capabilities", number, "template")), capability.template[:80]
        path = _inside(folder, capability.template)
        if path is None:
            yield ModelFault(*place, f"{name!r} leaves the dataset's folder; copy the file into it")
        elif not path.is_file():
            yield ModelFault(*place, f"{name!r} does not exist; write it, or correct the name")


def _unwritable(manifest: DatasetManifest) -> Iterator[ModelFault]:
    """What cannot be signed, or would take a card that others are on beyond its bounds."""
    try:
        canonical_json(manifest.model_dump(mode="json"))
        published = canonical_json(manifest.on_card())
        check_shape(published, max_values=MAX_PUBLISHED_VALUES)
    except InvalidJson as error:
        yield ModelFault(None, "", f"it cannot be on a card: {error}")
    except ValueError:
        yield ModelFault(None, "", "it cannot be on a card: it holds what JSON has no form for")
    else:
        if len(published) > MAX_PUBLISHED_BYTES:
            yield ModelFault(None, "", f"it cannot be on a card: it takes more than {MAX_PUBLISHED_BYTES} bytes of one")


def _inside(folder: Path, name: str) -> Path | None:
    """Where a file is; ``None`` where that is outside, or no place at all."""
    try:
        path = (folder / name).resolve()
    except (ValueError, RuntimeError, OSError):  # NUL, text that is no Unicode, links in a circle, a name too long
        return None
    return path if path.is_relative_to(folder.resolve()) else None
