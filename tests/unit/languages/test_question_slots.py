"""Which questions ask for the same."""

import pytest

from dpicl_rag.languages.languages import QuestionKind, language_of
from dpicl_rag.languages.question_slots import same_asked


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("How long does a refund take?", "After how many days does a refund arrive?"),
        ("What time does the depot open?", "When can I come to the depot in the morning?"),
        ("How long does a refund take?", "How long does a refund take to reach my account?"),
        ("Who handles invoices?", "Who is responsible for invoices?"),
        ("How much is the kiln?", "What is the price of the kiln?"),
        ("When does the depot open?", "Could you tell me when the depot opens?"),
        ("When does the depot open?", "From what time is the depot open?"),
        ("What is the code for the lamp?", "Could you send me the code for the lamp?"),
        ("Seit wann ist der Aufzug defekt?", "Wann ist der Aufzug defekt?"),
        ("Wie lange dauert eine Erstattung?", "Wie viele Tage dauert eine Erstattung?"),
        ("Wann öffnet das Lager?", "Können Sie mir sagen, wann das Lager öffnet?"),
        ("Combien coûte la carte ?", "Quel est le prix de la carte ?"),
        ("¿Cuándo abre la biblioteca?", "¿A qué hora abre la biblioteca?"),
        ("A che ora apre il museo?", "Quando apre il museo?"),
    ],
)
def test_other_words_ask_for_the_same(one, other):
    assert same_asked(one, other)
    assert same_asked(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Is the lift working?", "Until when is the lift out of order?"),
        ("When is the lift repaired?", "Until when is the lift repaired?"),
        ("Who teaches the course?", "When does the course begin?"),
        ("Why is the depot closed?", "Is the depot closed?"),
        ("Who handles invoices?", "Who handles parcels?"),
        ("When does the depot open?", "When does the depot close?"),
        ("When does the depot open?", "When does the library open?"),
        ("When does the new pool open?", "When does the new sauna open?"),
        ("Where is the new pool?", "Where is the new sauna?"),
        ("Où est la grande piscine ?", "Où est la grande salle ?"),
        ("Who teaches the evening yoga course?", "Who teaches the evening pottery course?"),
        ("Wann öffnet das neue Bad?", "Wann öffnet das neue Lager?"),
        ("Our auditor wants a lift. When does it come?", "What does it want from me?"),
        ("When does the depot open on weekdays?", "When does the depot open at weekends?"),
        ("When does the depot open?", "When does the depot open on Fridays?"),
        ("How much is the deposit for a key?", "How much is the deposit for a bike?"),
        ("How much is the kiln?", "What is the code of the discount for the kiln?"),
        ("What does error 47 mean?", "What does error 48 mean?"),
        ("Where does Ida Holm work?", "Where does Lou Brandt work?"),
        ("Wann öffnet das Lager?", "Wann schließt das Lager?"),
        ("Bis wann ist der Aufzug defekt?", "Ist der Aufzug defekt?"),
        ("Combien coûte la carte ?", "Combien coûte la clé ?"),
        ("¿Cuándo abre la biblioteca?", "¿Quién abre la biblioteca?"),
        ("A che ora apre il museo?", "A che ora chiude il museo?"),
        ("When does the depot open?", "Wann öffnet das Depot?"),
    ],
)
def test_of_another_kind_or_about_another_thing_is_not_the_same(one, other):
    assert not same_asked(one, other)
    assert not same_asked(other, one)


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("Could you tell me how long it takes?", QuestionKind.NUMBER),
        ("Können Sie mir sagen, wer den Schlüssel hat?", QuestionKind.PERSON),
        ("Pouvez-vous me dire où est la clé ?", QuestionKind.PLACE),
        ("¿Puede decirme quién tiene la llave?", QuestionKind.PERSON),
        ("Può dirmi quando apre?", QuestionKind.TIME),
        ("Could you give me the name of the chair?", QuestionKind.OTHER),
        ("My code is lost. Could you send it again?", QuestionKind.OTHER),
        ("Können Sie mir den Namen nennen?", QuestionKind.OTHER),
        ("Pouvez-vous me donner le nom ?", QuestionKind.OTHER),
        ("¿Puede darme el nombre?", QuestionKind.OTHER),
        ("Può darmi il nome?", QuestionKind.OTHER),
        ("Could you open it?", QuestionKind.YES_OR_NO),
        ("Can you send parcels abroad?", QuestionKind.YES_OR_NO),
        ("Können Sie sie öffnen?", QuestionKind.YES_OR_NO),
    ],
)
def test_politeness_is_no_kind(question, kind):
    assert language_of(question).kind(question) == kind
