"""Metrics for operators: public numbers only."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Sample

from dpicl_rag.results import PrivateAnswer
from dpicl_rag.server.api_keys import Caller


class _Counter(Counter):
    """A counter without its time of creation, which Prometheus' own would reveal."""

    def _child_samples(self) -> Iterable[Sample]:
        return [one for one in super()._child_samples() if one.name == "_total"]


class Metrics:
    """Counters by corpus, which is a name that clients may use, and by how things ended.

    No durations, no tokens of prompts, no numbers of documents: they would follow from what was
    found.
    """

    def __init__(self) -> None:
        self._registry = CollectorRegistry()

        def counter(name: str, text: str, *labels: str) -> Counter:
            return _Counter(f"dpicl_{name}", text, labels, registry=self._registry)

        self._requests = counter("requests", "Requests by status", "corpus", "status")
        self._answers = counter("answers", "Answers by how they ended", "corpus", "stopped_by")
        self._tokens = counter("released_tokens", "Tokens that were released", "corpus")
        self._rho = counter("rho", "zCDP rho by the public bound", "corpus")
        self.inside = Gauge("dpicl_inside", "Answers under way or waiting", registry=self._registry)

    def request(self, corpus: str, status: int) -> None:
        """Count a request."""
        self._requests.labels(corpus, str(status)).inc()

    def answer(self, corpus: str, answer: PrivateAnswer) -> None:
        """Count an answer that has ended."""
        self._answers.labels(corpus, answer.stopped_by).inc()
        self._tokens.labels(corpus).inc(answer.tokens)
        self._rho.labels(corpus).inc(answer.rho)

    def text(self, caller: Caller) -> bytes:
        """In the form that Prometheus reads, of the corpora that a caller may ask."""
        return generate_latest(_Open(self._registry, caller))


class _Open(CollectorRegistry):
    """A registry without the corpora that are closed to a caller."""

    def __init__(self, every: CollectorRegistry, caller: Caller) -> None:
        super().__init__()
        self._every = every
        self._caller = caller

    def collect(self) -> Iterable[Metric]:
        """Metrics as Prometheus collects them."""
        for metric in self._every.collect():
            metric.samples = [
                one for one in metric.samples if self._caller.may_ask(one.labels.get("corpus", ""))
            ]
            yield metric
