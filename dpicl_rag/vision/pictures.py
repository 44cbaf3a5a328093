"""Images as pictures of a public size. One that cannot be read counts as none, without notice.

A unit's owner may send anything. So an error, a warning or a log line that an image can cause would
tell that it is there: a damaged or huge one counts as an image without content.
"""

from __future__ import annotations

import hashlib
import importlib
import io
import threading
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpicl_rag._packaged import optional
from dpicl_rag._unobserved import unobserved

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
    optional("PIL.Image", "images", "Pillow")
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
