import re
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dpicl_rag.corpora.passages import split_text
from dpicl_rag.errors import ConfigurationError

PROSE = st.text(alphabet=st.sampled_from("ab. \n!?\u3002\u00e9"), max_size=400)


def test_short_text_is_one_passage() -> None:
    assert split_text("  A short note.\n") == ["A short note."]


@pytest.mark.parametrize("text", ["", " ", "\n\n\t"])
def test_white_space_has_no_passages(text: str) -> None:
    assert split_text(text) == []


def test_prefers_paragraphs_to_lines_to_sentences_to_words() -> None:
    assert split_text("aaa bbb. ccc\nddd\n\neee fff", 20, 0) == ["aaa bbb. ccc\nddd", "eee fff"]
    assert split_text("aaa bbb. ccc\nddd eee fff", 20, 0) == ["aaa bbb. ccc", "ddd eee fff"]
    assert split_text("aaa bbb ccc. ddd eee fff", 20, 0) == ["aaa bbb ccc.", "ddd eee fff"]
    assert split_text("aaa bbb ccc ddd eee fff", 20, 0) == ["aaa bbb ccc ddd eee", "fff"]


def test_a_boundary_in_the_first_half_is_not_worth_a_tiny_passage() -> None:
    assert split_text("Hi.\n\nThis sentence is long. And this", 30, 0) == [
        "Hi.\n\nThis sentence is long.",
        "And this",
    ]


def test_a_text_without_boundaries_is_cut_anyway() -> None:
    assert split_text("x" * 25, 10, 3) == ["x" * 10, "x" * 10, "x" * 5]


def test_neighbours_share_whole_words_up_to_the_overlap() -> None:
    words = [f"w{number:03d}" for number in range(100)]
    passages = split_text(" ".join(words), 60, 12)
    for left, right in pairwise(passages):
        shared = [word for word in left.split() if word in right.split()]
        assert shared == right.split()[: len(shared)] == left.split()[-len(shared) :]
        assert len(shared) == 2
    assert [word for word in words if not any(word in passage for passage in passages)] == []


@given(PROSE, st.integers(1, 60), st.floats(0, 0.49))
@example("??????", 4, 0.25)
@example("? ????  ???a?", 10, 0.4375)
def test_passages_fit_and_lose_nothing(text: str, size: int, share: float) -> None:
    overlap = int(size * share)
    passages = split_text(text, size, overlap)
    assert all(passages)
    assert all(len(passage) <= size for passage in passages)
    assert all(passage == passage.strip() for passage in passages)
    # Each passage continues the text where the last one ended, at most `overlap` back. Where a
    # passage repeats itself it may stand in several places; one of them must do.
    ends = {0}
    for passage in passages:
        places = [m.start() for m in re.finditer(f"(?={re.escape(passage)})", text)]
        ends = {
            start + len(passage)
            for end in ends
            for start in places
            if end - overlap <= start and start + len(passage) > end
            if text[end:start].strip() == ""
        }
    assert any(text[end:].strip() == "" for end in ends)


@pytest.mark.parametrize(("size", "overlap"), [(0, 0), (10, 5), (10, -1), (1, 1)])
def test_lengths_out_of_range(size: int, overlap: int) -> None:
    with pytest.raises(ConfigurationError, match=r"size|overlap"):
        split_text("text", size, overlap)


def test_a_very_long_text_without_boundaries() -> None:
    assert len(split_text("x" * 2_000_000, 800, 80)) == 2500
