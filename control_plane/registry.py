"""The datasets this service knows, read from a folder; a broken one never stops the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from contract.errors import Category, Component, DatasetAgentError
from contract.ids import is_slug
from control_plane.descriptor import DatasetManifest
from control_plane.model_faults import ModelFault, all_faults, faults_in, in_one_line
from control_plane.yaml_reader import Document, UnreadableFile, read_document

DESCRIPTOR_FILES = ("descriptor.yaml", "descriptor.yml", "descriptor.json")
_RESERVED = frozenset({"policies"})
_DATASET_SUFFIXES = frozenset({".sql", ".yaml", ".yml", ".parquet", ".csv", ".duckdb"})


@dataclass(frozen=True, slots=True)
class InvalidDataset:
    """A dataset whose descriptor cannot be used; ``error`` is one line with the file's name."""

    dataset: str
    error: str


@dataclass(frozen=True, slots=True)
class Registry:
    """What was read at one moment. ``invalid`` is keyed by folder and, where known, dataset name."""

    folder: Path
    datasets: Mapping[str, DatasetManifest]
    invalid: Mapping[str, str]
    folders: Mapping[str, Path]

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
        )


def load_registry(folder: Path) -> Registry:
    """Every dataset folder below ``folder``, in name order.

    Raises a CONFIGURATION fault only where ``folder`` itself cannot be listed. A folder is
    a dataset's when it holds a descriptor; one that looks like a dataset (SQL, YAML, data)
    and holds none is listed as invalid. ``policies`` is not a dataset.
    """
    found = [item for child in dataset_folders(folder) if (item := examine(child)) is not None]
    times = Counter(item.manifest.dataset for item in found if item.manifest is not None)
    datasets: dict[str, DatasetManifest] = {}
    invalid: dict[str, str] = {}
    folders: dict[str, Path] = {}
    for item in found:
        manifest = item.manifest
        if manifest is not None and times[manifest.dataset] == 1:
            datasets[manifest.dataset] = manifest
            folders[manifest.dataset] = item.folder
            continue
        error_text = in_one_line(item.faults)
        if manifest is not None:
            error_text = f"dataset: {manifest.dataset} is described by {times[manifest.dataset]} folders"
        for name in {item.folder.name, item.dataset}:
            invalid[name] = f"{item.file}: {error_text}"
    return Registry(
        folder=folder,
        datasets=MappingProxyType(datasets),
        invalid=MappingProxyType(invalid),
        folders=MappingProxyType(folders),
    )


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
    """The descriptor of a folder with all that is wrong with it; ``None`` where the folder is no dataset's."""
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
    problems = tuple(file_problems(folder, manifest, document))
    if problems:
        return wrong(file, *problems, dataset=dataset, document=document)
    return Examined(folder, dataset, file, manifest, (), document)


def file_problems(folder: Path, manifest: DatasetManifest, document: Document) -> Iterator[ModelFault]:
    """Files that a descriptor names and that are not there, or not inside its folder."""
    for number, table in enumerate(manifest.tables):
        if table.file is not None and _inside(folder, table.file) is None:
            place = document.where(("tables", number, "file"))
            yield ModelFault(*place, f"{table.file[:80]!r} leaves the dataset's folder; copy the file into it")
    for number, capability in enumerate(manifest.capabilities):
        if capability.template is None:
            continue
        place, name = document.where(("capabilities", number, "template")), capability.template[:80]
        path = _inside(folder, capability.template)
        if path is None:
            yield ModelFault(*place, f"{name!r} leaves the dataset's folder; copy the file into it")
        elif not path.is_file():
            yield ModelFault(*place, f"{name!r} does not exist; write it, or correct the name")


def _inside(folder: Path, name: str) -> Path | None:
    path = (folder / name).resolve()
    return path if path.is_relative_to(folder.resolve()) else None
