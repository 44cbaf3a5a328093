"""Where sentences end, in five languages."""

import pytest

from dpicl_rag.languages.languages import QuestionKind, language_of
from dpicl_rag.languages.sentences import first_sentence


@pytest.mark.parametrize(
    ("first", "rest"),
    [
        ("It opens at 8.30", " Come early."),
        ("It opens at 8", " Come early."),
        ("Der Kurs fällt am 21. November aus", " Danach nicht."),
        ("Er ist im 2. Stock", " Bitte klingeln."),
        ("Sie kostet 8", " Bitte zahlen."),
        ("Er fährt z. B. am Montag", " Dann nicht."),
        ("Er fährt d.h. montags", " Nie sonst."),
        ("Raum Nr. 5 ist frei", " Gut."),
        ("Ask Mr. Smith", " He knows."),
        ("M. Dupont garde la clé", " Il est là."),
        ("Abre p. ej. los martes", " Nada más."),
        ("Pregunte a la Sra. Ruiz", " Ella sabe."),
        ("Penne, matite, ecc", " Tutto qui."),
        ("Penne, ecc. sono qui", " Altro."),
        ("Il dott. Rossi apre per es. il lunedì", " Poi no."),
        ("It is in St. Gallen", " Go there."),
        ("J. R. Weber leads it", " Ask him."),
        ("Some, e.g. those of Monday, are free", " Then not."),
        ("It opens at 6 p.m. on Mondays", " It is shut then."),
        ("It opens at 6.40 a.m", " The shop does too."),
        ("Bring it to gate B", " Then wait."),
        ("Jan. 5 is free", " Take it."),
        ("It is closed until 21 Nov", " It opens then."),
    ],
)
def test_a_point_that_abbreviates_ends_no_sentence(first, rest):
    assert first_sentence(f"{first}.{rest}") == first


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("And on which day is it?", QuestionKind.WEEKDAY),
        ("Und wann öffnet es?", QuestionKind.TIME),
        ("Et quand ferme-t-elle ?", QuestionKind.TIME),
        ("¿Y en qué sala?", QuestionKind.PLACE),
        ("E quando apre?", QuestionKind.TIME),
        ("Thank you. But why?", QuestionKind.REASON),
        ("And at weekends?", QuestionKind.OTHER),
        # The first of two is asked for.
        ("Where does it come from, and when?", QuestionKind.PLACE),
    ],
)
def test_a_question_is_of_the_kind_that_stands_behind_its_conjunction(question, kind):
    assert language_of(question).kind(question) == kind
