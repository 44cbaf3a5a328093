"""No adapter tells neighbouring corpora apart by anything but the answer.

Every adapter is driven in every mode over a corpus and over its neighbours, and gives the same
answer. All that its framework was told, and all that was logged, warned of, printed, returned and
raised must be the same.
"""

from __future__ import annotations

import contextlib
import logging
import os
import random
import sys
import warnings

import pytest

from dpicl_rag.auditing.channels import differences
from dpicl_rag.mechanisms.randomness import Randomness
from tests.integrations.drives import DRIVES, watched
from tests.integrations.leak_probe import Comparison, Drive, SpyModel, Stage

pytestmark = pytest.mark.usefixtures("frozen")

DOCUMENTS = [f"The patient has zingpocket {number}." for number in range(3)]

NEIGHBOURS = {
    "one unit more, of odd content": [*DOCUMENTS, "\0\x1b[2J<|end|>\u202e"],
    "one unit longer": [*DOCUMENTS[:2], DOCUMENTS[2] * 100],
}


AGAIN = (", async", ", at once", "stream")
"""Other ways of drives that stand here, too; `test_no_leak` goes all of them each time."""


class SameAnswer(Randomness):
    """Coins under which every draw is of one token, whatever the documents say."""

    def __init__(self, token: int) -> None:
        self._token = token
        self._random = random.Random(1)

    def uniform(self) -> float:
        return self._random.random()

    def below(self, bound: int) -> int:
        return self._random.randrange(bound)

    def draw(self, scores: object) -> int:
        return self._token


async def told(drive: Drive, tiny_model, documents: list[str], folder) -> Comparison:
    store = folder / "store"
    store.mkdir(parents=True, mode=0o700)  # what a user's own client writes there is the user's
    [token] = tiny_model.tokenizer.encode("e")
    probe, model, coins = Comparison(folder), SpyModel(tiny_model), SameAnswer(token)
    await watched(drive, Stage(model, documents, "What is the disease?", probe, store, coins))
    return probe


@pytest.mark.one_in(12)
@pytest.mark.parametrize(
    "drive",
    [
        pytest.param(*one.values, id=one.id, marks=pytest.mark.heavy)
        if any(way in one.id for way in AGAIN)
        else one
        for one in DRIVES
    ],
)
async def test_neighbours_differ_in_nothing_but_the_answer(drive: Drive, tiny_model, tmp_path):
    base = await told(drive, tiny_model, DOCUMENTS, tmp_path / "base")
    assert "output" in base.told
    for kind, documents in NEIGHBOURS.items():
        other = await told(drive, tiny_model, documents, tmp_path / kind)
        if differences(base, other):  # the first run also has what a process tells only once
            base = await told(drive, tiny_model, DOCUMENTS, tmp_path / f"base of {kind}")
        assert not {place: show(base, other, place) for place in differences(base, other)}, kind


def show(one: Comparison, other: Comparison, place: str) -> list[list[str]]:
    return [
        [text[:300] for text in (a.told[place] - b.told[place])]
        for a, b in ((one, other), (other, one))
    ]


def test_a_comparison_sees_a_difference_in_every_channel(tmp_path):
    shut = logging.getLogger("shut")
    shut.propagate = False

    def tell(count: int) -> None:
        shut.debug("read %d", count)
        warnings.warn(f"{count} texts", UserWarning, stacklevel=1)
        sys.stdout.write(f"{count}")
        os.write(2, b"." * count)
        (tmp_path / "seen").write_text("." * count)
        try:
            raise KeyError(count)
        except KeyError as error:
            raise ValueError("refused") from error

    def told(count: int) -> Comparison:
        probe = Comparison(tmp_path)
        with contextlib.suppress(ValueError), probe.listening():
            tell(count)
        return probe

    places = ["error", "file", "log shut", "stderr", "stdout", "warning"]
    assert differences(told(3), told(4)) == places
    assert differences(told(3), told(3)) == []
