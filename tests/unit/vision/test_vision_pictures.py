"""Images as pictures of one shape; what cannot be read is none, and nobody is told."""

from __future__ import annotations

import io
import logging
import os
import random
import warnings

import pytest
from PIL import Image

from dpicl_rag.vision import base
from dpicl_rag.vision.base import read_picture
from tests.support.images import a_bomb, an_image, unreadable

SIDE = 16


def test_bytes_and_a_file_are_the_same_picture(tmp_path):
    file = tmp_path / "a.png"
    file.write_bytes(an_image())
    by_path, by_bytes = read_picture(file, SIDE), read_picture(an_image(), SIDE)
    assert by_path.digest == by_bytes.digest
    assert by_path.image.tobytes() == by_bytes.image.tobytes()
    assert read_picture(an_image((0, 0, 1)), SIDE).digest != by_path.digest


@pytest.mark.parametrize("size", [(40, 30), (30, 40), (1, 900), (2000, 3), (SIDE, SIDE)])
@pytest.mark.parametrize("format", ["PNG", "JPEG"])
def test_every_picture_has_the_same_shape(size, format):
    picture = read_picture(an_image(size=size, format=format), SIDE)
    assert (picture.image.size, picture.image.mode) == ((SIDE, SIDE), "RGB")


def test_a_picture_of_its_size_is_left_as_it_is():
    image = read_picture(an_image(size=(SIDE, SIDE)), SIDE).image
    assert image.getpixel((15, 15)) == (200, 30, 30)
    assert image.getpixel((0, 0)) == (10, 10, 10)


def test_a_camera_that_was_held_upside_down_is_turned():
    exif = Image.Exif()
    exif[0x0112] = 3
    image = read_picture(an_image(size=(SIDE, SIDE), format="PNG", exif=exif), SIDE).image
    assert image.getpixel((15, 15)) == (10, 10, 10)


@pytest.fixture
def overheard(caplog, capfd):
    """Nothing of what is done here is logged, warned of or printed."""
    caplog.set_level(logging.DEBUG)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    assert not caught
    assert not caplog.records
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("wrong", sorted(unreadable()))
def test_what_cannot_be_read_is_no_picture_and_tells_nothing(wrong, overheard, tmp_path):
    content = unreadable()[wrong]
    assert read_picture(content, SIDE) is None
    (tmp_path / "x").write_bytes(content)
    assert read_picture(tmp_path / "x", SIDE) is None


def test_a_good_picture_tells_nothing_either(overheard):
    assert read_picture(an_image(), SIDE) is not None


def as_file(mode, format, **options):
    stream = io.BytesIO()
    image = Image.effect_noise((20, 20), 90).convert("RGB").convert(mode)
    image.save(stream, format, **options)
    return stream.getvalue()


MODES = {
    "palette": as_file("P", "PNG", transparency=bytes(range(9))),
    "grey with alpha": as_file("LA", "PNG"),
    "sixteen bits": as_file("I;16", "PNG"),
    "one bit": as_file("1", "PNG"),
    "four inks": as_file("CMYK", "JPEG"),
    "grey": as_file("L", "JPEG", progressive=True),
    "moving": as_file("RGB", "PNG", save_all=True, append_images=[Image.new("RGB", (20, 20))]),
    "a camera's": as_file("RGB", "JPEG", exif=b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01"),
}


@pytest.mark.parametrize("kind", sorted(MODES))
def test_every_kind_of_picture_is_read_and_tells_nothing(kind, overheard):
    assert read_picture(MODES[kind], SIDE).image.mode == "RGB"


@pytest.mark.parametrize("kind", sorted(MODES))
def test_bytes_that_are_turned_over_cause_nothing(kind, overheard):
    coins = random.Random(kind)
    for _ in range(60):
        content = bytearray(MODES[kind])
        for _ in range(coins.randint(1, 6)):
            content[coins.randrange(len(content))] = coins.randrange(256)
        if coins.random() < 0.3:
            del content[coins.randrange(len(content)) :]
        found = read_picture(bytes(content), SIDE)
        assert found is None or found.image.size == (SIDE, SIDE)


def test_files_that_are_no_files_are_no_pictures(tmp_path, overheard):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, tmp_path / "missing", None):
        assert read_picture(path, SIDE) is None


def test_a_bomb_is_not_unpacked(monkeypatch):
    monkeypatch.setattr(Image.Image, "load", lambda *_: pytest.fail("it was unpacked"))
    assert read_picture(a_bomb(), SIDE) is None
    assert read_picture(a_bomb(2**13, 2**13 + 1), SIDE) is None


def test_a_file_of_too_many_bytes_is_not_read(monkeypatch, tmp_path):
    (tmp_path / "a.png").write_bytes(an_image())
    monkeypatch.setattr(base, "MAX_BYTES", len(an_image()) - 1)
    assert read_picture(tmp_path / "a.png", SIDE) is None
    assert read_picture(an_image(), SIDE) is None


def test_a_lack_of_memory_is_no_picture(monkeypatch):
    def fails(*_):
        raise MemoryError("SECRET")

    monkeypatch.setattr(base, "_opened", fails)
    assert read_picture(an_image(), SIDE) is None


def test_a_picture_shows_nothing_of_itself():
    assert repr(read_picture(an_image(), SIDE)) == "Picture(<private>)"
