"""Kinds of answers that questions ask for, and the keys that wordings of one answer share."""

import pytest

from dpicl_rag.languages.answer_keys import AnswerKeys
from dpicl_rag.languages.languages import QuestionKind, language_of

KINDS = {
    "time": (
        "When does the reception open?",
        "At what time does the bus leave?",
        "Wann öffnet die Rezeption?",
        "Um wie viel Uhr beginnt der Kurs?",
        "Quand ouvre la réception ?",
        "À quelle heure commence le cours ?",
        "¿Cuándo abre la recepción?",
        "¿A qué hora empieza el curso?",
        "Quando apre la reception?",
        "A che ora comincia il corso?",
    ),
    "person": (
        "Who handles invoices?",
        "Who is the new caretaker?",
        "To whom do I send the form?",
        "Wer kümmert sich um Rechnungen?",
        "Wie heißt der Hausmeister?",
        "Wem gehört das Rad?",
        "Qui s'occupe des factures ?",
        "Comment s'appelle le gardien ?",
        "Quel est le nom du gardien ?",
        "¿Quién lleva las facturas?",
        "¿Cómo se llama el conserje?",
        "Chi si occupa delle fatture?",
        "Come si chiama il custode?",
    ),
    "date": (
        "Until when is the lift out of order?",
        "Wann wird das Wasser abgestellt?",
        "When is the meeting?",
        "When will the water be off?",
        "What is the deadline for the form?",
        "By when must I hand in the form?",
        "Bis wann ist der Aufzug kaputt?",
        "Jusqu'à quand l'ascenseur est-il en panne ?",
        "¿Hasta cuándo está cerrado el ascensor?",
        "Fino a quando è chiuso l'ascensore?",
    ),
    "number": (
        "How much does a parking space cost?",
        "How many bicycles fit in the room?",
        "What is the phone number of the caretaker?",
        "What does the ticket cost?",
        "What is the rent?",
        "How long does a refund take?",
        "Was kostet ein Stellplatz?",
        "Wie viel kostet ein Stellplatz?",
        "Wie lange dauert die Reparatur?",
        "Combien coûte une place de parking ?",
        "Quel est le prix du billet ?",
        "¿Cuánto cuesta una plaza?",
        "Quanto costa un posto auto?",
    ),
    "reason": (
        "Warum wird das Wasser abgestellt?",
        "Pourquoi l'eau est-elle coupée ?",
        "¿Por qué se corta el agua?",
        "Perché manca l'acqua?",
    ),
    "place": (
        "Où se trouve le local à vélos ?",
        "Where does the part come from, and when?",
        "In which room is the meeting?",
        "Which floor is the office on?",
        "Wo ist der Fahrradraum?",
        "In welchem Stock ist das Büro?",
        "Où est le bureau ?",
        "¿Dónde está la oficina?",
        "Dov'è l'ufficio?",
    ),
    "yes_or_no": (
        "Is the lift working?",
        "Are dogs allowed?",
        "Do I need a ticket?",
        "Can one pay by card?",
        "Ist der Aufzug in Betrieb?",
        "Sind Hunde erlaubt?",
        "Darf man grillen?",
        "Gibt es einen Parkplatz?",
        "Est-ce que les chiens sont admis ?",
        "Peut-on payer par carte ?",
        "L'ascenseur marche-t-il ?",
        "¿Se puede pagar con tarjeta?",
        "¿Está abierta la sauna?",
        "¿Hay aparcamiento?",
        "Si può pagare con la carta?",
        "È aperta la sauna?",
        "C'è un parcheggio?",
    ),
    "other": (
        "Which tenant had knee surgery?",
        "What is X treated with?",
        "Which disease has fever and a rash?",
        "What are the office hours?",
        "What colour are the new bins?",
        "What's the wifi password?",
        "Womit wird Zonkitis behandelt?",
    ),
    "weekday": (
        "On which day is the bin emptied?",
        "What day is the meeting?",
        "An welchem Tag kommt die Müllabfuhr?",
        "Quel jour passe la poubelle ?",
        "¿Qué día es la reunión?",
        "Che giorno è la riunione?",
    ),
    "manner": (
        "What should I bring?",
        "How do I reset it?",
        "Wie setze ich es zurück?",
    ),
    "list": (
        "Which products are mentioned?",
        "What problems do tenants report?",
        "Name the three colours.",
        "Welche Kurse gibt es am Samstag?",
        "Quels cours y a-t-il le samedi ?",
        "¿Qué cursos hay los sábados?",
        "Quali corsi ci sono il sabato?",
    ),
}


@pytest.mark.parametrize(
    ("kind", "question"), [(kind, one) for kind, asked in KINDS.items() for one in asked]
)
def test_a_question_says_what_kind_of_answer_it_wants(kind, question):
    assert AnswerKeys(question).kind == kind


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("When does it open?", "en"),
        ("Wann macht ihr auf?", "de"),
        ("Où se trouve le bureau ?", "fr"),
        ("¿Dónde está la oficina?", "es"),
        ("Dov'è l'ufficio?", "it"),
        ("2222", "en"),
    ],
)
def test_the_language_of_a_text(text, code):
    assert language_of(text).code == code


@pytest.mark.parametrize(
    ("question", "keys", "answers"),
    [
        (
            "When does the office open?",
            ("8:30",),
            ("At half past eight.", "The office opens at 8.30 am.", "Um halb neun.", "At 08:30.",
             "À 8h30.", "A las ocho y media.", "Alle otto e mezza."),
        ),
        (
            "Until when is it out of order?",
            ("14 March",),
            ("Until 14 March.", "Until March 14th.", "Bis 14. März.", "Until 2026-03-14.",
             "Jusqu'au 14 mars.", "Hasta el 14 de marzo.", "Fino al 14 marzo."),
        ),
        ("On which day is it?", ("Thursday",), ("Thursdays.", "Am Donnerstag.", "Le jeudi.")),
        (
            "How much is a place?",
            ("45 EUR",),
            ("It costs 45 EUR per month.", "45 euros.", "€45.", "Forty-five euros.", "45,00 €"),
        ),
        (
            "How long does it take?",
            ("9 working days",),
            ("Nine working days.", "9 working days, we hope."),
        ),
        (
            "Who handles invoices?",
            ("Okafor",),
            ("Ms Okafor handles invoices.", "Ngozi Okafor.", "Frau Okafor", "It is Dr. Okafor."),
        ),
        ("Where is the store?", ("room 12",), ("It is in room 12.", "See room 12, please.")),
        ("Where is the street of the office?", ("Tallow Street",), ("In Tallow Street.",)),
        (
            "Wo kann man zelten?",
            ("Birkensee",),
            (
                "Zelten könnt ihr am Zeltplatz Birkensee.",
                "Das Auto und das Zelt dürfen auf dem Zeltplatz Birkensee stehen.",
                "Lo mejor es dormir en Birkensee.",
                "Am Birkensee.",
            ),
        ),
        ("Wo ist der Zeltplatz?", ("Zeltplatz Birkensee",), ("Zeltplatz Birkensee.",)),
        ("Is the lift working?", ("No",), ("No, it is not.", "No.")),
        ("When does the office open?", (), ("The office is nice.", "It opens early.")),
    ],
)  # fmt: skip
def test_wordings_of_one_answer_have_its_key(question, keys, answers):
    found = AnswerKeys(question)
    assert {one: found.of(one) for one in answers} == dict.fromkeys(answers, keys)


def test_a_document_states_a_key_in_whatever_form():
    when = AnswerKeys("When does the office open?")
    assert when.states("Wir öffnen um halb neun.")("8:30")
    assert not when.states("Wir öffnen um neun Uhr.")("8:30")
    price = AnswerKeys("How long does it take?")
    assert price.states("Das dauert 9 Tage.")("9 days")
    who = AnswerKeys("Who handles invoices?")
    assert who.states("ask ms okafor")("Okafor")
    assert not who.states("ask ms okaforo")("Okafor")


def test_reasons_and_lists_have_several_keys_and_at_most_so_many():
    why = AnswerKeys("Why is the sauna closed?")
    assert why.of("Because the floor gets new tiles.") == ("floor", "tile")
    assert why.most == 2
    courses = AnswerKeys("Which courses are there on Saturdays?")
    assert courses.of("Yoga, diving, chess and aqua gymnastics on Saturdays.") == (
        "yoga", "diving", "chess",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("question", "answer", "keys"),
    [
        ("Why is the sauna closed?", "It's because of the floor tiles", ("floor", "tile")),
        ("Why is the sauna closed?", "New floor tiles are the reason why", ("floor", "tile")),
        ("Warum ist die Sauna zu?", "Es gibt wegen der Meisterschaft keine", ("Meisterschaft",)),
    ],
)
def test_words_that_announce_a_reason_are_none(question, answer, keys):
    assert AnswerKeys(question).of(answer) == keys


@pytest.mark.parametrize(
    ("answer", "items"),
    [
        (
            "Saturday is the day of aqua gymnastics and baby swimming.",
            "aquagymnastics, babyswimming",
        ),
        ("Aquafitness, aqua-fitness and aqua fitness.", "aquafitness"),
        ("Our Saturday programme has diving.", "diving"),
        ("On Saturdays there is yoga or chess, at 9:30.", "yoga, chess"),
        ("The courses are on Saturdays.", ""),
    ],
)
def test_items_of_a_list_stay_whole(answer, items):
    courses = AnswerKeys("Which courses are there on Saturdays?")
    assert ", ".join(courses.of(answer)) == items
    assert all(map(courses.states(answer), courses.of(answer)))


def test_a_document_may_write_an_item_in_one_word_or_in_several():
    states = AnswerKeys("Which courses are there on Saturdays?").states
    assert states("We come for aqua fitness and diving.")("aquafitness")
    assert states("Aqua-fitness is full.")("aquafitness")
    assert not states("We come for aqua gymnastics and fitness.")("aquafitness")
    german = AnswerKeys("Welche Kurse gibt es am Samstag?")
    assert german.of("Aquafitness und freies Schwimmen.") == ("Aquafitness", "freies Schwimmen")


@pytest.mark.parametrize(
    ("answer", "phrase"),
    [
        ("Zonkitis is treated with blerpox pills.", "Blerpox Pills"),
        ("Blerpox pills", "Blerpox Pills"),
        ("It sounds like Blue Splinter Fever to me", "Blue Splinter Fever"),
        ("The doctor gives Toe Therapy and Warm Shoes.", "Toe Therapy and Warm Shoes"),
        ("With PumpOMatic 3000", "PumpOMatic 3000"),
        ("Zonkitis is treated.", None),
        ("The.", None),
    ],
)
def test_other_questions_are_answered_by_a_phrase(answer, phrase):
    found = AnswerKeys("What is Zonkitis treated with?").of(answer, by_parts=True)
    assert found == ((phrase,) if phrase else ())


def test_a_name_may_have_words_of_the_question():
    which = AnswerKeys("Which disease has sudden loss of hair?")
    assert which.of("It is Sudden Moss Disease") == ("Sudden Moss Disease",)


def test_a_numbered_thing_that_was_asked_about_is_no_place():
    keys = AnswerKeys("Where did the Breezer 2 go?")
    assert keys.of("It is the Breezer 2.") == ()
    assert keys.of("The Breezer 2 is in room 12.") == ("room 12",)


def test_words_that_say_nothing_in_another_language_are_no_name():
    where = AnswerKeys("Wo kann man parken?")
    assert where.of("The.", by_parts=True) == ()
    assert where.of("The Kestrel Room") == ("Kestrel Room",)
    assert AnswerKeys("Où est-ce ?").of("el 21") == ()


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("Until which hour can I pick up my dog?", QuestionKind.TIME),
        ("What is the latest hour to come?", QuestionKind.TIME),
        ("By what time must I be there?", QuestionKind.TIME),
        ("What is the last day of it?", QuestionKind.DATE),
        ("Which doctor looks at eyes?", QuestionKind.PERSON),
        ("Which hospital would see us?", QuestionKind.PLACE),
        ("Welche Tierärztin macht das?", QuestionKind.PERSON),
        ("Welcher Kollege hilft?", QuestionKind.PERSON),
        ("À quel emplacement les visiteurs doivent-ils se garer ?", QuestionKind.PLACE),
        ("Quelles règles doit-on suivre ?", QuestionKind.LIST),
        ("Le musée est-il ouvert ?", QuestionKind.YES_OR_NO),
    ],
)
def test_kinds_of_questions_as_people_put_them(question, kind):
    assert AnswerKeys(question).kind is kind


def test_a_question_that_says_much_is_asked_of_documents_that_have_a_part_of_it():
    much = AnswerKeys("Which disease has fever, a dry cough, red eyes and swollen feet?")
    assert much.about("Came in with a dry cough and red eyes: moss pox.")
    assert not much.about("Came in with a headache and a cough: it is the flu, said the doctor.")
    assert much.about("Der Patient hatte Kopfschmerzen, und das war die Grippe.")
    worded = AnswerKeys("How much must I pay when my tomcat stays overnight at your house?")
    assert worded.about("A place for a cat is 17 euros.")
    little = AnswerKeys("Which disease has fever?")
    assert little.about("Came in with a headache: it is the flu.")


def test_a_date_is_nobody_and_a_thing_that_was_asked_about_no_place():
    who = AnswerKeys("Who leads the house?")
    assert who.of("It is closed until 14 March") == ()
    assert who.of("On Mondays Mr Wessel does") == ("Wessel",)
    assert who.of("Theresa May does") == ("May",)
    assert AnswerKeys("Where do the members meet?").of("I am member 3.") == ()
    assert AnswerKeys("In which room do they meet?").of("It is room 3.") == ("room 3",)


def test_of_several_numbers_that_of_what_is_asked_for_is_the_key():
    days = AnswerKeys("How many days does a refund take?")
    assert days.of("Ticket of customer 3: the refund took nine days.") == ("9 days",)
    assert days.of("It took 9 of them.") == ("9",)


def test_names_and_numbers_of_a_question_are_looked_for():
    treated = AnswerKeys("What is Zonkitis treated with in room 4?")
    assert treated.about("zonkitis, room 4")
    assert not treated.about("zonkitis, room 5")
    assert not treated.about("room 4")
    assert AnswerKeys("Warum fällt das Training am Montag aus?").about("nothing of it")
    assert AnswerKeys("Is it open on Monday?").about("lundi")
    assert AnswerKeys("My dog is ill at 3 a.m., where do I go?").about("the hospital in Hardwald")


@pytest.mark.parametrize(
    ("question", "answer", "answers"),
    [
        ("Until when is the sauna closed?", "The sauna is closed until 2026.", False),
        ("Until when is the sauna closed?", "Until 21 November.", True),
        ("When does the pool open at weekends?", "The pool opens at weekends.", False),
        ("When is lunch?", "At noon.", True),
        ("When does it open?", "Im Frühling.", True),
        ("How much is a ticket?", "A ticket is cheap.", False),
        ("How much is a ticket?", "Fifteen euros.", True),
        ("Who opens the pool?", "Nobody does.", True),
        ("Is it open?", "It is closed.", True),
        ("Why is the library closed?", "Floor.", False),
        ("Why is the library closed?", "Because of the floor.", True),
        ("Why is the library closed?", "Refurbishment.", False),
        ("Warum ist die Bücherei zu?", "Boden.", False),
        ("Warum ist die Bücherei zu?", "Stromausfall.", True),
    ],
)
def test_an_answer_has_what_the_question_asks_for(question, answer, answers):
    assert AnswerKeys(question).answers(answer) is answers


@pytest.mark.parametrize(
    ("question", "answer", "keys"),
    [
        ("What are the opening hours on weekdays?", "It opens at a quarter to seven.", ("6:45",)),
        ("What are the opening hours?", "From 9 to 17.", ("9:00 \u2013 17:00",)),
        ("What are the opening hours?", "9:00-17:30", ("9:00 \u2013 17:30",)),
        ("What are the office hours?", "We are here from 9 am to 5 pm.", ("9:00 \u2013 17:00",)),
        ("What are the office hours?", "Monday to Friday, 8.30 to 12", ("8:30 \u2013 12:00",)),
        ("Wie sind die Öffnungszeiten?", "Von 9 bis 17 Uhr.", ("9:00 \u2013 17:00",)),
        ("Welche Öffnungszeiten hat das Bad?", "8.30-12 Uhr", ("8:30 \u2013 12:00",)),
        ("Quels sont les horaires ?", "De 9h à 17h30.", ("9:00 \u2013 17:30",)),
        ("¿Cuál es el horario?", "De 9 a 17 horas.", ("9:00 \u2013 17:00",)),
        ("Quali sono gli orari?", "Dalle 9 alle 17.", ("9:00 \u2013 17:00",)),
        ("What are the office hours?", "9-12 and 14-18.", ()),  # two spans are no one span
        ("What are the office hours?", "Saturday is the day of diving.", ()),
        ("How many hours does it take?", "40 hours", ("40 hours",)),
    ],
)
def test_opening_hours_are_from_when_to_when(question, answer, keys):
    assert AnswerKeys(question).of(answer) == keys


def test_a_document_states_opening_hours_in_whatever_form():
    states = AnswerKeys("What are the opening hours?").states("We open at nine o'clock, till 5 pm.")
    assert states("9:00 \u2013 17:00")
    assert states("17:00")
    assert not states("9:00 \u2013 18:00")
