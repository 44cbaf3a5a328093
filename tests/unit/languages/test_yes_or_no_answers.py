"""Yes and no, in a word or in a sentence."""

import pytest

from dpicl_rag.languages.answer_keys import answer_keys


@pytest.mark.parametrize(
    ("question", "answer", "keys"),
    [
        ("Is the lift running?", "Yes, since Monday.", ("Yes",)),
        ("Is the lift running?", "No.", ("No",)),
        ("Is the library open at the moment?", "The library is closed until 3 May.", ("No",)),
        ("Is the library open now?", "The library is open.", ("Yes",)),
        ("Is the library closed?", "The library is open on Mondays.", ("No",)),
        ("Are dogs allowed in the garden?", "Dogs are forbidden in the garden.", ("No",)),
        ("Can I smoke in the garden?", "You can smoke in the garden.", ("Yes",)),
        ("Ist die Bibliothek zurzeit offen?", "Die Bibliothek ist geschlossen.", ("Nein",)),
        ("Le bureau est-il ouvert ?", "Le bureau est fermé.", ("Non",)),
        ("¿Está abierta la oficina ahora?", "La oficina está cerrada.", ("No",)),
        ("È aperto l'ufficio?", "L'ufficio è chiuso.", ("No",)),
        ("Is the lift running?", "No, but it will on Monday.", ("No",)),
        # Taken back in part.
        ("Is the lift running?", "Yes, the lift is running, but it stops at every floor.", ()),
        ("Ist der Aufzug in Betrieb?", "Ja, aber er ist kaputt.", ()),
        ("L'ascenseur marche-t-il ?", "Oui, mais il est en panne.", ()),
        ("¿Está abierto el ascensor?", "Sí, pero está averiado.", ()),
        ("È aperto l'ascensore?", "Sì, ma è guasto.", ()),
        # Of something else, of another day, or denied.
        ("Is the library open?", "The garden is closed.", ()),
        ("Is the course on Monday?", "The course is on Tuesday.", ()),
        ("Is the library open?", "The library is not closed.", ()),
        ("Is the library open?", "The library never opens on Sundays.", ()),
        ("Is it?", "It is.", ()),
    ],
)
def test_what_a_sentence_says_to_a_question(question, answer, keys):
    assert answer_keys(question).of(answer) == keys
