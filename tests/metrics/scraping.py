"""Reads the metrics of a running agent as a scraper does."""

from __future__ import annotations

import httpx
from prometheus_client.parser import text_string_to_metric_families as parsed

Key = tuple[str, tuple[tuple[str, str], ...]]


class Scraped(dict[Key, float]):
    """Every sample by its name and labels; ``text`` is all that was told."""

    def __init__(self, text: str) -> None:
        self.text = text
        for family in parsed(text):
            for sample in family.samples:
                self[sample.name, tuple(sorted(sample.labels.items()))] = sample.value

    def of(self, name: str, **labels: str) -> float:
        return self[name, tuple(sorted(labels.items()))]

    def has(self, name: str, **labels: str) -> bool:
        return (name, tuple(sorted(labels.items()))) in self


def scrape(url: str, token: str | None = None) -> Scraped:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    response = httpx.get(url + "/metrics", headers=headers, timeout=30)
    if response.status_code != 200:
        raise AssertionError(f"{response.status_code}: {response.text}")
    return Scraped(response.text)
