"""One unit more in a folder of pictures: all others are loaded and read as before."""

from __future__ import annotations

from hypothesis import given, settings

from tests.support.neighbouring_units import PictureCase, check_pictures, picture_cases


@settings(max_examples=80, derandomize=True, deadline=None)
@given(picture_cases())
def test_a_unit_moves_no_other_picture(case: PictureCase) -> None:
    check_pictures(case)
