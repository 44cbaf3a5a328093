"""Normal forms: those of unicodedata, but for runs of marks that nobody writes."""

from __future__ import annotations

import sys
import unicodedata
from importlib.util import find_spec
from pathlib import Path

import pytest

from dpicl_rag.answering.canonical_form import canonical_form
from dpicl_rag.knowledge.answer_memory import same_words
from dpicl_rag.languages.content_words import content_words
from dpicl_rag.loaders.identities import key_form
from dpicl_rag.normal_forms import MOST_MARKS, normal_form
from dpicl_rag.synthesis.key_words import words_in
from dpicl_research.keyword_aggregation import words_of

FORMS = ("NFC", "NFD", "NFKC", "NFKD")
MARKS = "\u0315\u0300"  # in the other order in every normal form


@pytest.mark.parametrize(
    "reads",
    [canonical_form, same_words, content_words, key_form, words_of, words_in],
)
def test_a_run_of_marks_is_cut_wherever_a_text_is_normalised(reads):
    cut = "word" + MARKS * (MOST_MARKS // 2)
    is_equal = reads(f"{cut}{MARKS * 20_000} more words") == reads(f"{cut} more words")
    assert is_equal  # no difference is shown of texts so long


@pytest.mark.parametrize("form", FORMS)
def test_what_people_write_has_its_normal_form(form):
    for text in (
        "plain", "naïve", "nai\u0308ve", "ﬁne ½ Ａ", "नमस्ते", "กำลัง", "각", "שָׁלוֹם",
        "z" + MARKS * (MOST_MARKS // 2), "x\u0344y", "ｶﾞ",
    ):  # fmt: skip
        assert normal_form(form, text) == unicodedata.normalize(form, text)


def test_every_character_that_is_put_in_order_is_a_mark():
    for number in range(sys.maxunicode + 1):
        one = chr(number)
        if unicodedata.combining(unicodedata.normalize("NFKD", one)[0]):
            run = one * (MOST_MARKS + 1)
            assert normal_form("NFKD", run) == unicodedata.normalize("NFKD", run[1:])


def test_no_other_module_normalises():
    folders = [
        Path(place)
        for name in ("dpicl_rag", "dpicl_research", "langchain_dpicl_rag", "llama_index_dpicl_rag")
        for place in find_spec(name).submodule_search_locations
    ]
    files = [file for folder in folders for file in folder.rglob("*.py")]
    normalising = [file.name for file in files if "unicodedata.normalize(" in file.read_text()]
    assert normalising == ["normal_forms.py"]
