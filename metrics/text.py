"""A table of numbers as the text that Prometheus reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isnan
from typing import Final

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from metrics.table import Kind, Metric

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST


def text_of(metrics: Sequence[Metric], numbers: Sequence[float]) -> bytes:
    """``numbers`` are the cells of a table of just these metrics."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Once(metrics, numbers))
    return generate_latest(registry)


class _Once(Collector):
    def __init__(self, metrics: Sequence[Metric], numbers: Sequence[float]) -> None:
        self._metrics = metrics
        self._numbers = numbers

    def collect(self) -> Iterator[Family]:
        start = 0
        for metric in self._metrics:
            end = start + metric.width * len(metric.values)
            yield _family(metric, self._numbers[start:end])
            start = end


def _family(metric: Metric, numbers: Sequence[float]) -> Family:
    if metric.kind is Kind.HISTOGRAM:
        return _histogram(metric, numbers)
    if metric.kind is Kind.COUNTER:
        counter = CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
        for label, number in zip(metric.values, numbers, strict=True):
            counter.add_metric(label, number)
        return counter
    gauge = GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
    for label, number in zip(metric.values, numbers, strict=True):
        if not isnan(number):  # it says that there is no such thing
            gauge.add_metric(label, number)
    return gauge


def _histogram(metric: Metric, numbers: Sequence[float]) -> Family:
    family = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
    for number, label in enumerate(metric.values):
        cells = numbers[number * metric.width : (number + 1) * metric.width]
        buckets, count = [], 0.0
        for bound, cell in zip((*metric.bounds, float("inf")), cells[:-1], strict=True):
            count += cell
            buckets.append(("+Inf" if bound == float("inf") else str(bound), count))
        family.add_metric(label, buckets, sum_value=cells[-1])
    return family
