"""Who sent a mail: what of it is no part of what it says."""

import pytest

from dpicl_rag.languages.sentences import mail_as_read, names_a_day, without_sender

BODY = "Hello,\n\nThe pool opens at 6."
QUOTE = "On 3 May Ida wrote:\n> When?"

THREAD = (
    f"From: Ida\nSubject: A\n\n{BODY}\n\nIda\nElm Court\n\n"
    f"From: Office\nSubject: B\nDate: today\n\nAt 6 sharp.\n\nThe office\nElm Court\n\n{QUOTE}"
)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"{BODY}\n\nBest wishes\nIda Holm\nTel. 05552 1", BODY),
        (f"{BODY}\n\nIda\n\n{QUOTE}", f"{BODY}\n\n{QUOTE}"),
        (f"Subject: A\nFrom: Ida\nDate: today\n\n{BODY}\n\nIda", f"Subject: A\n\n\n{BODY}"),
        (f"Von: Ida\nBetreff: A\n\n{BODY}\n\nIda Holm", f"Betreff: A\n\n{BODY}"),
        (f"Subject: A\nDate: today\n\n{BODY}", f"Subject: A\n\n\n{BODY}"),
        ("Date: 3 May\nThe lift broke.\n\nQ: Who came?\nA: Nobody.", None),
        ("It is open.\n\nFrom: 8:00\nTo: 16:00\n\nWelcome.", None),
        (THREAD, f"Subject: A\n\n{BODY}\n\nSubject: B\n\n\nAt 6 sharp.\n\n{QUOTE}"),
        ("name: Ida\ncity: Lund", "name: Ida\ncity: Lund"),
        ("Subject: A\nFrom: Ida\n\nKestrel Room", "Subject: A\nFrom: Ida\n\nKestrel Room"),
        ("It is open.\n\nCourses:\n\nDiving\nYoga", "It is open.\n\nCourses:\n\nDiving\nYoga"),
        ("It is open.\n\nCome at six.", "It is open.\n\nCome at six."),
        ("Fever since May.\n\nDiagnosis: influenza\nRx: rest", None),
        (f"{BODY}\n\nIda Holm\nPhone: +44 (0) 5552 21\nE-mail: ida@elm.example", BODY),
        (f"{BODY}\n\nIda\n{' of'.join(['The House'] * 5)} Elm Court\nTel. 0555 212", BODY),
        ("It is open.\n\n- Diving\n- Yoga", None),
        (f"From: Ida\n\n{BODY}\n\n1. Diving\n2. Yoga", f"\n\n{BODY}\n\n1. Diving\n2. Yoga"),
        (f"From: Ida\n\n{BODY}\n\nIda\nTel.: 05552 1", f"\n\n{BODY}"),
        ("It is open.", "It is open."),
        ("", ""),
    ],
)
def test_what_a_mail_says(text, left):
    assert without_sender(text) == (text if left is None else left)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"{BODY}\n\nBest wishes\nIda Holm\nTel. 05552 1", None),
        (
            f"Subject: A\nFrom: Ida Holm <ida@elm.example>\nTo: us\nDate: today\n\n{BODY}\n\nIda",
            f"Subject: A\nFrom: Ida Holm\n\n{BODY}",
        ),
        (
            f"De : ida@elm.example\nObjet : A\n\n{BODY}",
            f"De : ida@elm.example\nObjet : A\n\n{BODY}",
        ),
        (f"From: Ida <the office>\n\n{BODY}", f"From: Ida <the office>\n\n{BODY}"),
        ("It costs 5 <see below>.\n\nFrom: 8:00\n\nWelcome.", None),
        (
            THREAD,
            f"From: Ida\nSubject: A\n\n{BODY}\n\n"
            f"From: Office\nSubject: B\n\nAt 6 sharp.\n\n{QUOTE}",
        ),
        ("Subject: A\nFrom: Ida <ida@elm.example>\n\nKestrel Room", None),
        ("", ""),
    ],
)
def test_what_an_expert_reads_of_a_mail(text, left):
    """Its writer stays: who says "I am in on Monday" has a name."""
    assert mail_as_read(text) == (text if left is None else left)


@pytest.mark.parametrize(
    ("question", "named"),
    [
        ("Was it written in October?", True),
        ("Geht es um den Kurs am Mittwoch?", True),
        ("Is it about the sauna?", False),
        ("", False),
    ],
)
def test_a_question_for_a_day(question, named):
    assert names_a_day(question) is named


def test_who_is_asked_for_a_day_reads_the_fields():
    text = f"From: Ida <ida@elm.example>\nDate: 3 Oct\nSubject: A\n\n{BODY}\n\nIda\nElm Court"
    assert mail_as_read(text, dated=True) == f"From: Ida\nDate: 3 Oct\nSubject: A\n\n{BODY}"
