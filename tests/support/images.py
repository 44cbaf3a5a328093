"""Images made up for tests, as the bytes of files."""

from __future__ import annotations

import io
import struct
import zlib

import torch
from PIL import Image

from dpicl_research.efficient_net import Seen


def an_image(colour=(200, 30, 30), size=(40, 30), format="PNG", **options) -> bytes:
    """One colour with a darker corner, so that turning it shows."""
    image = Image.new("RGB", size, colour)
    image.paste((10, 10, 10), (0, 0, size[0] // 3, size[1] // 3))
    stream = io.BytesIO()
    image.save(stream, format, **options)
    return stream.getvalue()


def a_bomb(width=60_000, height=60_000) -> bytes:
    """A small PNG that claims to be of so many pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(bytes(1000))), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts)


def unreadable() -> dict[str, bytes]:
    """Images that no reader reads, by what is wrong with them."""
    whole, photo = an_image(), an_image(format="JPEG")
    return {
        "cut off": whole[: len(whole) // 2],
        "a header alone": photo[:40],
        "a flipped bit": whole[:50] + bytes([whole[50] ^ 255]) + whole[51:],
        "a bomb": a_bomb(),
        "no pixels": a_bomb(0, 5),
        "text": b"SECRET, and no image",
        "empty": b"",
        "another format": an_image(format="GIF"),
        "a vector": b"<svg xmlns='http://www.w3.org/2000/svg'/>",
    }


class ColourNetwork:
    """Sees a picture's colour as its direction from grey, and words for it."""

    fingerprint = "colours"
    side = 8

    def see(self, picture) -> Seen:
        red, green, blue = picture.image.getpixel((self.side - 1, self.side - 1))
        found = torch.tensor([red, green, blue], dtype=torch.float64) - 127.5
        words = ("red" if red > 127 else "teal", "green" if green > 127 else "pink")
        return Seen(found / found.norm(), words)


class CompanyNetwork(ColourNetwork):
    """A planted fault: features less those of the first picture after the query, as of a batch."""

    def __init__(self) -> None:
        self._all: dict[str, torch.Tensor] = {}

    def see(self, picture) -> Seen:
        seen = super().see(picture)
        self._all.setdefault(picture.digest, seen.features)
        _, first, *_ = *self._all.values(), torch.zeros(3, dtype=torch.float64), None
        found = seen.features - first
        return Seen(found / found.norm().clamp(min=1e-9), seen.words)
