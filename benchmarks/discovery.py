"""Discovery: 10,000 datasets by time, and the public corpus of ``authorized-recall`` by what is found and what is not shown."""

from __future__ import annotations

import random
import time
from itertools import accumulate
from typing import Any, Final

from benchmarks.recall_peer import NotInstalled, corpus, installed, judged
from benchmarks.report import Figure, Section, Side, machine
from contract.principal import Principal
from contract.scope import Sensitivity
from control_plane.descriptor import DatasetDescriptor
from control_plane.discovery import CatalogueEntry, DiscoveryIndex

DATASETS: Final = 10_000
LIMIT: Final = 5
MOST_MS: Final = 5.0
LEAST_RECALL: Final = 0.96
_WORDS: Final = [f"w{number:04}" for number in range(4_000)]
_CAPABILITIES: Final = ("search", "compare")
_KS: Final = (1, 3, 5, 10)


def measure(blocks: int = 3, calls: int = 1_000) -> Section:
    """Questions by people who may use ten, a thousand and all of the datasets, in blocks that take turns."""
    chance = random.Random(3)
    entries = [_entry(number, chance) for number in range(DATASETS)]
    began = time.thread_time()
    index = DiscoveryIndex(entries)
    built = time.thread_time() - began
    people = {f"may use {count:,}": _person(chance.sample(range(DATASETS), count)) for count in (10, 1_000, DATASETS)}
    first = {name: _timed(index, _text(8, chance), person)[1] for name, person in people.items()}
    walls: dict[str, list[tuple[float, ...]]] = {name: [] for name in people}
    worked: dict[str, list[tuple[float, ...]]] = {name: [] for name in people}
    for _ in range(blocks):
        for name, person in people.items():
            wall, work = zip(*(_timed(index, _text(8, chance), person) for _ in range(calls)), strict=True)
            walls[name].append(wall)
            worked[name].append(work)
    work_sides = [Side(f"{name}, processor time", tuple(found)) for name, found in worked.items()]
    sides = [*(Side(name, tuple(found)) for name, found in walls.items()), *work_sides]
    figures = [Figure(f"p99 of a question, {side.name}", side.p99, "ms", most=MOST_MS) for side in work_sides]
    facts: dict[str, Any] = machine() | {"datasets": DATASETS, "built_s": round(built, 2)}
    facts |= {f"first question, {name}, ms of processor time": round(took, 2) for name, took in first.items()}
    found, more = _recall()
    return Section("Discovery over 10,000 datasets", "ms", sides, [*figures, *found], facts | more)


def _timed(index: DiscoveryIndex, question: str, person: Principal) -> tuple[float, float]:
    """Milliseconds by the clock, and of processor time: nothing is waited for, so on an idle machine they are equal."""
    began, worked = time.perf_counter(), time.thread_time()
    index.discover(question, person, limit=LIMIT)
    return (time.perf_counter() - began) * 1e3, (time.thread_time() - worked) * 1e3


def _text(count: int, chance: random.Random) -> str:
    """Words by Zipf's law: a few are in most texts, most are in next to none."""
    return " ".join(chance.choices(_WORDS, cum_weights=_ZIPF, k=count))


_ZIPF: Final = list(accumulate(1 / (rank + 1) for rank in range(len(_WORDS))))


def _entry(number: int, chance: random.Random) -> CatalogueEntry:
    """Two capabilities each; every tenth dataset is on no public card."""
    capabilities = [
        _capability(name, _text(8, chance), keywords=_text(3, chance).split(), examples=[_text(6, chance)])
        for name in _CAPABILITIES
    ]
    public = frozenset(_CAPABILITIES) if number % 10 else frozenset[str]()
    descriptor = _descriptor(f"d{number:05}", _text(20, chance), capabilities)
    return CatalogueEntry(descriptor, f"urn:dataset-agent:{number // 500}", "http://127.0.0.1:1", public)


def _capability(name: str, description: str, **more: Any) -> dict[str, Any]:
    results = [{"name": "id", "type": "STRING"}]
    told = {"name": name, "description": description, "effect": "read", "tool_name": name, "results": results}
    return told | more


def _descriptor(name: str, description: str, capabilities: list[dict[str, Any]], **more: Any) -> DatasetDescriptor:
    told = {
        "dataset": name,
        "description": description,
        "tenant": "acme",
        "version": "1.0",
        "revision": "r1",
        "schema_version": "1",
        "as_of": "2026-09-01T00:00:00Z",
        "freshness": {"maximum_age_s": 3_600},
        "provenance": {"system": "bench", "source": "bench"},
        "capabilities": capabilities,
    }
    return DatasetDescriptor.model_validate(told | more)


def _person(held: list[int]) -> Principal:
    return _named("bench", {f"d{number:05}": frozenset(_CAPABILITIES) for number in held})


def _named(name: str, held: dict[str, frozenset[str]]) -> Principal:
    """Cleared for everything: what may be used is what is held, as in the corpus."""
    return Principal("https://issuer.example", name, "acme", name, name, Sensitivity.RESTRICTED, held)


def _recall() -> tuple[list[Figure], dict[str, Any]]:
    try:
        installed()
    except NotInstalled as problem:
        return [], {"authorized-recall": f"not measured: {problem}"}
    told = corpus()
    named = {item["dataset"]: item["dataset"].lower() for item in told["datasets"]}  # a name here is lower case
    index = DiscoveryIndex([_of_corpus(item, named) for item in told["datasets"]])
    everything = _named("everybody", {name: frozenset(_names(told)) for name in named.values()})
    pairs = []
    for query in told["queries"]:
        blind = _ranking(index, query["query"], everything, len(named))
        for name, profile in told["profiles"].items():
            held = {named[dataset]: frozenset(names) for dataset, names in profile["grants"].items()}
            shown = _ranking(index, query["query"], _named(name, held), max(_KS))
            relevant = [named[dataset] for dataset in query["relevant"]]
            pairs.append({"held": sorted(held), "relevant": relevant, "shown": shown, "blind": blind})
    means = judged(pairs)
    return _figures(means), {"pairs": means["pairs"], "pairs_with_something_relevant": means[_SOME_PAIRS]}


_SOME: Final = "of pairs with something relevant"
_SOME_PAIRS: Final = "pairs with something relevant"


def _figures(means: dict[str, Any]) -> list[Figure]:
    figures = []
    for k in _KS:
        least = LEAST_RECALL if k == 5 else None
        figures.append(Figure(f"Authorized Recall@{k}, all pairs", means[f"recall@{k}"], "", least=least))
        some = means[f"recall@{k} {_SOME}"]
        figures.append(Figure(f"Authorized Recall@{k}, {_SOME_PAIRS}", some, "", least=least))
        figures.append(Figure(f"Authorized Precision@{k}, {_SOME_PAIRS}", means[f"precision@{k} {_SOME}"], ""))
        figures.append(Figure(f"Authorized nDCG@{k}, {_SOME_PAIRS}", means[f"ndcg@{k} {_SOME}"], ""))
        loss = some - means[f"post@{k} {_SOME}"]
        figures.append(Figure(f"lost if cut before the filter @{k}, {_SOME_PAIRS}", loss, ""))
        figures.append(Figure(f"Unauthorized Exposure@{k}", means[f"exposure@{k}"], "", most=0.0))
    return figures


def _ranking(index: DiscoveryIndex, question: str, person: Principal, limit: int) -> list[str]:
    return [item.entry.descriptor.dataset for item in index.discover(question, person, limit=limit).candidates]


def _names(told: dict[str, Any]) -> list[str]:
    return [capability["name"] for capability in told["datasets"][0]["capabilities"]]


def _of_corpus(item: dict[str, Any], named: dict[str, str]) -> CatalogueEntry:
    """A dataset of the corpus as a descriptor; what is restricted there is on no public card."""
    capabilities = [
        _capability(one["name"], one["description"], sensitivity=one["sensitivity"], policy_id="P-1")
        for one in item["capabilities"]
    ]
    descriptor = _descriptor(
        named[item["dataset"]], item["description"], capabilities, schemas=item["schemas"], policies=["P-1"]
    )
    public = frozenset(one["name"] for one in item["capabilities"] if one["sensitivity"] != "restricted")
    return CatalogueEntry(descriptor, "urn:dataset-agent:corpus", "http://127.0.0.1:1", public)
