"""Pictures of a public size, the interface of image models, and the rows of experts.

A unit's owner may send anything. So an error, a warning or a log line that an image can cause would
tell that it is there: a damaged or huge one counts as an image without content.
"""

from __future__ import annotations

import hashlib
import importlib
import io
import threading
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch

from dpicl_rag._packaged import optional
from dpicl_rag._unobserved import unobserved
from dpicl_rag.documents import Document
from dpicl_rag.mechanisms.step import DenseStep

MAX_BYTES = 32 * 2**20
"""A larger file is not read."""

MAX_PIXELS = 2**26
"""An image of more pixels is not unpacked: a few kilobytes may claim to be many gigabytes."""

_JPEG, _PNG = b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n"
_quiet = threading.Lock()


@dataclass(frozen=True, slots=True, repr=False)
class Picture:
    """An image as models read it.

    Attributes:
        image: A Pillow image, RGB, square, of a side that the model fixed.
        digest: SHA-256 of its pixels. As private as they are.
    """

    image: Any
    digest: str

    def __repr__(self) -> str:
        return "Picture(<private>)"


def read_picture(image: bytes | Path | None, side: int) -> Picture | None:
    """The largest square in the middle of an image, resized.

    JPEG and PNG are read, and turned as the camera was held. What comes out has the same shape for
    every image.

    Args:
        image: The bytes of a file, or its path.
        side: Side of the square in pixels. Public.

    Returns:
        None where it is no such image, or larger than `MAX_BYTES` or `MAX_PIXELS`.

    Raises:
        MissingDependencyError: Pillow is not installed; whatever the image is.
    """
    optional("PIL.Image", "dpicl-rag[images]", "Pillow")
    with unobserved(), _quiet, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return _read(image, side)
        except Exception:  # whatever it is, including a lack of memory, it would tell of the image
            return None


def _read(image: bytes | Path | None, side: int) -> Picture | None:
    content = image if isinstance(image, bytes) else _content(image)
    if content is None or len(content) > MAX_BYTES:
        return None
    opened = _opened(content)
    if opened is None or not 0 < opened.width * opened.height <= MAX_PIXELS:
        return None
    ops = importlib.import_module("PIL.ImageOps")
    opened.draft("RGB", (2 * side, 2 * side))  # a large JPEG is unpacked at a fraction of its size
    upright = ops.exif_transpose(opened).convert("RGB")
    square = ops.fit(upright, (side, side), method=3)  # bicubic
    return Picture(square, hashlib.sha256(square.tobytes()).hexdigest())


def _content(path: Path | None) -> bytes | None:
    # A pipe would block for ever.
    if path is None or not Path(path).is_file():
        return None
    with Path(path).open("rb") as stream:
        return stream.read(MAX_BYTES + 1)


def _opened(content: bytes) -> Any:
    """The image before it is unpacked, or None for another kind.

    Pillow's own ``open`` warns of large images by their size, and knows formats that take memory
    before they say how much.
    """
    stream = io.BytesIO(content)
    if content.startswith(_JPEG):
        return importlib.import_module("PIL.JpegImagePlugin").JpegImageFile(stream)
    if content.startswith(_PNG):
        return importlib.import_module("PIL.PngImagePlugin").PngImageFile(stream)
    return None


@dataclass(frozen=True, slots=True, repr=False)
class Example:
    """A picture and its label, one of the public ones."""

    picture: Picture
    label: str

    def __repr__(self) -> str:
        return "Example(<private>)"


class VisionModel(Protocol):
    """Labels a picture after some examples.

    A row is a function of its own examples and of public things to the last bit: pictures are read
    one at a time, or in passes whose shape is public. No error depends on a picture.
    """

    @property
    def fingerprint(self) -> str:
        """Identifies what rows follow from beside the pictures."""
        ...

    @property
    def side(self) -> int:
        """Side of the pictures that it reads, in pixels. Public."""
        ...

    def label_log_probs(
        self, examples: Sequence[Example], query: Picture, labels: Sequence[str]
    ) -> torch.Tensor:
        """The row of one expert.

        Args:
            examples: What the expert reads, any number of them; none gives the public row.
            query: A public picture.
            labels: Public names, at least two. Those of the examples are among them.

        Returns:
            Log-probabilities, normalised over the labels, float64 [labels].
        """
        ...


@runtime_checkable
class SharedPasses(Protocol):
    """A model whose engine reads many rows together and keeps each one's bits."""

    def rows(
        self, experts: Iterable[Sequence[Example]], query: Picture, labels: Sequence[str]
    ) -> torch.Tensor:
        """``label_log_probs`` of each expert, the same to the last bit, float64 [n, labels]."""
        ...


def rows_of_experts(
    model: VisionModel,
    experts: Iterable[Sequence[Example]],
    query: Picture,
    labels: Sequence[str],
) -> torch.Tensor:
    """The row of each expert, one or more, float64 [n, labels]."""
    if isinstance(model, SharedPasses):
        return model.rows(experts, query, labels)
    return torch.stack([model.label_log_probs(own, query, labels) for own in experts])


def read_examples(documents: Iterable[Document], labels: Sequence[str], side: int) -> list[Example]:
    """Examples from those documents whose images can be read, in their order.

    A picture that cannot be read is left out in silence, and so is a text that is none of the
    labels: an error would tell that they are there.
    """
    return [
        Example(picture, document.text)
        for document in documents
        if document.text in labels and (picture := read_picture(document.image, side)) is not None
    ]


def read_rows(
    model: VisionModel,
    experts: Iterable[Sequence[Document]],
    query: Picture,
    labels: Sequence[str],
) -> DenseStep:
    """The public row, and a row for each expert that has something to read.

    An expert with nothing to read has nothing to say: it has no row. That follows from its own
    documents alone.

    Args:
        model: Reads them.
        experts: The documents of each expert.
        query: A public picture.
        labels: Public names.
    """
    own = (read_examples(documents, labels, model.side) for documents in experts)
    # One expert after another: pictures that were unpacked are not kept.
    speaking = chain([()], (examples for examples in own if examples))
    rows = rows_of_experts(model, speaking, query, labels)
    return DenseStep(rows[0], rows[1:])
