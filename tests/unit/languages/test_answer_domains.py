"""Public lists of answers: each value is the key of itself, and no key of a kind stands outside."""

from itertools import chain

import pytest

from dpicl_rag.languages.answer_domains import answer_domain
from dpicl_rag.languages.answer_keys import AnswerKeys
from dpicl_rag.languages.languages import QuestionKind, languages

ASKED = {
    "en": ("Is it open?", "On which day?", "When does it open?", "Until when?"),
    "de": ("Ist es offen?", "An welchem Tag?", "Wann öffnet es?", "Bis wann ist das?"),
    "fr": ("Est-ce que c'est ouvert ?", "Quel jour ?", "Quand ouvre le local ?", "Jusqu'à quand ?"),
    "es": ("¿Está abierto?", "¿Qué día?", "¿Cuándo abre la sala?", "¿Hasta cuándo?"),
    "it": ("È aperto?", "Che giorno?", "Quando apre la sala?", "Fino a quando?"),
}
KINDS = (QuestionKind.YES_OR_NO, QuestionKind.WEEKDAY, QuestionKind.TIME, QuestionKind.DATE)
SIZES = (2, 7, 193 + 1248, 366 + 7 + 193 + 1248)


def keys_of(code, kind):
    found = AnswerKeys(ASKED[code][KINDS.index(kind)])
    assert (found.language.code, found.kind) == (code, kind)
    return found


@pytest.mark.parametrize("code", ASKED)
@pytest.mark.parametrize(("kind", "size"), list(zip(KINDS, SIZES, strict=True)))
def test_each_value_is_its_own_key_and_is_there_once(code, kind, size):
    found = keys_of(code, kind)
    values = list(chain(*found.domain))
    assert len(values) == len(set(values)) == size
    # Midnight at the end of a day is written as it is read.
    assert [found.of(value)[:1] for value in values] == [(value,) for value in values]


@pytest.mark.parametrize("code", ASKED)
@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (QuestionKind.TIME, ("8.07", "0:00", "24:00", "6:45 pm", "12 am", "half past eight")),
        (QuestionKind.DATE, ("2024-02-29", "3.4.", "halb neun", "am Montag", "14 March", "mardi")),
        (QuestionKind.WEEKDAY, ("lunes", "Sonntags", "on Fridays")),
    ],
)
def test_what_is_said_in_any_language_is_on_the_list(code, kind, said):
    found = keys_of(code, kind)
    listed = set(chain(*found.domain))
    for answer in said:
        (key,) = found.of(f"{answer}.")
        assert key in listed


def test_full_tens_and_quarters_come_first():
    usual, odd = answer_domain(QuestionKind.TIME, languages()[0])
    assert {"0:00", "8:15", "8:40", "23:50", "24:00"} <= set(usual)
    assert {"0:01", "8:07", "8:25", "23:59"} <= set(odd)


@pytest.mark.parametrize("kind", [kind for kind in QuestionKind if kind not in KINDS])
def test_names_amounts_and_reasons_have_no_list(kind):
    assert answer_domain(kind, languages()[0]) == ()
