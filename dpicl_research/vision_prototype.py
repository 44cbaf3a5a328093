"""``vision-prototype``: how much a picture looks like the examples of a name. No language model."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import Protocol

import torch

from dpicl_rag import _validate
from dpicl_rag.vision.base import Example, Picture
from dpicl_research.efficient_net import EfficientNetLite, Seen

_TIE = 1e-3  # nats; far below what decides a row


class Network(Protocol):
    """What sees features and words in a picture, one at a time."""

    fingerprint: str
    side: int

    def see(self, picture: Picture) -> Seen:
        """Features of unit length, and words."""
        ...


class VisionPrototype:
    """A stand-in for a vision-language model, for machines that have none.

    The score of a name that an expert has examples of is the mean cosine of the query's features
    with theirs; of a name that it has not seen it is a public number, the same for all of them. The
    row is the log softmax of scores over a temperature. So an expert with one example says whether
    the query is of its name, and nothing about the others.

    Names that it has not seen would tie, and a vote of a tie goes to the first name. So one of them
    is ahead by less than 0.001 nats; which one follows from the expert's own pictures.

    Args:
        network: Sees features; EfficientNet-Lite0 by default.
        temperature: Of the cosines, above 0.
        neutral: The cosine that stands for a name without examples. Both defaults are round numbers
            between the cosines of pictures of one class (median 0.63) and of two (0.28), in the
            training half of the benchmark's groceries.

    Raises:
        ConfigurationError: A number is outside its range.
        MissingDependencyError: The default network's packages are not installed.
    """

    def __init__(
        self, network: Network | None = None, *, temperature: float = 0.1, neutral: float = 0.4
    ) -> None:
        self._temperature = _validate.positive("temperature", temperature)
        self._neutral = _validate.cosine("neutral", neutral)
        self._network = network or EfficientNetLite()
        self.side = self._network.side
        self.fingerprint = (
            f"vision-prototype 1 {temperature:g} {neutral:g} {self._network.fingerprint}"
        )

    def label_log_probs(
        self, examples: Sequence[Example], query: Picture, labels: Sequence[str]
    ) -> torch.Tensor:
        """See `VisionModel`."""
        seen = self._network.see(query).features
        own: dict[str, list[float]] = {}
        for example in examples:
            cosine = float(torch.dot(seen, self._network.see(example.picture).features))
            own.setdefault(example.label, []).append(cosine)
        leaning = _leaning(examples, labels)
        scores = [
            # An exact sum: the order of examples moves no bit.
            math.fsum(own[label]) / len(own[label]) / self._temperature
            if label in own
            else self._neutral / self._temperature + tie
            for label, tie in zip(labels, leaning, strict=True)
        ]
        return torch.log_softmax(torch.tensor(scores, dtype=torch.float64), dim=0)


def _leaning(examples: Sequence[Example], labels: Sequence[str]) -> list[float]:
    """A little for each label, from 0 to `_TIE`, by a hash of the expert's own examples."""
    whose = repr(sorted((example.picture.digest, example.label) for example in examples))
    digests = [hashlib.sha256(f"{whose} {label}".encode()).digest() for label in labels]
    return [_TIE * int.from_bytes(digest[:6], "big") * 2.0**-48 for digest in digests]
