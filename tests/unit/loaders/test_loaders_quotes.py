"""What is cut from a mail, and what must not be."""

import pytest

from dpicl_rag.loaders.quotes import own_words

ANSWER = "Yes, noon is fine.\n\nBring the figures."


@pytest.mark.parametrize(
    "quote",
    [
        "-----Original Message-----\nFrom: Bob\nSent: Monday\nTo: Ann\nSubject: x\n\nOld text.",
        " -----Original Message-----\nFrom: \tBob  \nSent:\tMonday\nTo:\tAnn\n\nOld text.",
        "On Mon, Dec 13, 2000 at 7:05 AM, Bob <bob@example.org> wrote:\n> Old text.\n> More.",
        "On Mon, Dec 13, 2000 at 7:05 AM, Bob\n<bob@example.org> wrote:\n\nOld text.",
        "Am 13.12.2000 um 07:05 schrieb Bob Lee:\n> Old text.",
        "Le 13 déc. 2000 à 07:05, Bob a écrit :\n> Old text.",
        "From: Bob@EXAMPLE on 12/13/2000 07:05 AM\nTo: Ann@EXAMPLE\ncc:\n\nSubject: x\n\nOld text.",
        "> Old text.\n>> Older text.\n>",
        "On Monday, Bob wrote:\n> Old text.\n> On Sunday, Cy wrote:\n>> Older. Old text.",
    ],
)
def test_quotes_below(quote: str) -> None:
    assert own_words(f"{ANSWER}\n\n{quote}\n") == ANSWER


@pytest.mark.parametrize(
    "quote",
    [
        "Od: Bo\nWysłano: poniedziałek, 13 maja 2024 07:05\nDo: Ann\nTemat: x",
        "Från: Bo\nSkickat: den 13 maj 2024 07:05\nTill: Ann\nÄmne: x",
        "От: Bo\nОтправлено: 13 мая 2024 г. 7:05\nКому: Ann\nТема: x",
        "Kimden: Bo\nGönderildi: 13 Mayıs 2024 07:05\nKime: Ann\nKonu: x",
        "差出人: Bo\n送信日時: 2024年5月13日 7:05\n宛先: Ann\n件名: x",
        "*From:* Bo\n*Sent:* Monday\n*To:* Ann\n*Subject:* x",
        "De: Bo\nEnviado el: lunes, 13 de mayo de 2024 7:05\nPara: Ann\nAsunto: x",
        "Nuo: Bo <b@x.org>\nIšsiųsta: 2024 m. gegužės 13 d. 07:05\nKam: Ann\nTema: x",
        "Date: Mon, 13 May 2024 07:05:00\nSubject: x\nFrom: b@x.org\nTo: a@x.org",
        "________________________________\nFrån: Bo\nTill: Ann\nÄmne: x",
        "-----Ursprüngliche Nachricht-----\nVon: Bo",
        "-------- Исходное сообщение --------",
        "W dniu 13.05.2024 o 07:05, Bo Lee pisze:",
        "pon., 13 maj 2024 o 07:05 Bo Lee <b@x.org> napisał(a):",
        "Den mån 13 maj 2024 kl 07:05 skrev Bo Lee <b@x.org>:",
        "пн, 13 мая 2024 г. в 07:05, Bo Lee <b@x.org>:",
        '13.05.2024 7:05 пользователь "Bo" <\nb@x.org> написал:\n>',
        "Bo Lee <b@x.org>, 13 May 2024 Pzt, 07:05 tarihinde şunu yazdı:",
        "2024年5月13日(月) 7:05 Bo Lee <b@x.org>:",
        "##- Bitte geben Sie Ihre Antwort über dieser Zeile ein -##",
        "--- Please reply above this line ---",
    ],
)
def test_quotes_below_in_other_languages(quote: str) -> None:
    if not quote.endswith(">"):
        assert own_words(f"{ANSWER}\n{quote}\n\nOld text.") == ANSWER
    assert own_words(f"{ANSWER}\n\n{quote}\n\n> Old text.\n\nYes.") in (
        ANSWER,
        f"{ANSWER}\n\nYes.",
    )


def test_a_ticket_has_its_newest_comment_below_the_mark() -> None:
    older = f"{'-' * 46}\nBo Lee, May 6, 9:00\n\nOld text."
    assert (
        own_words(f"##- Please type your reply above this line -##\n\n{ANSWER}\n\n{older}")
        == ANSWER
    )


def test_answers_below_and_between() -> None:
    mail = "On Monday, Bob wrote:\n> Old text?\n\nYes.\n\n> More old text?\n\nNo."
    assert own_words(mail) == "Yes.\n\nNo."


@pytest.mark.parametrize(
    "signature",
    [
        "-- \nAnn Lee\nExample Corp.",
        "Best regards,\nAnn Lee\n+1 555 0100",
        "Sent from my iPhone",
        "Thank you,\nAnn",
    ],
)
def test_signatures(signature: str) -> None:
    assert own_words(f"{ANSWER}\n\n{signature}") == ANSWER


@pytest.mark.parametrize(
    "text",
    [
        "Points:\n- one\n- two\n- three",
        "Hello Bob.\nThanks, but the price of the house was not 40 but 45 thousand, I fear.",
        "Hello.\nThank you,\n" + "\n".join(f"line {n} of what matters" for n in range(12)),
        "Data: see below\nTo: be decided",
        "Od: 9:00\nDo: 17:00",
        "Name: Ann\nDate: 2024-05-06 10:00\nRoom: 4",
        "Please, by 6 May 2024 at 9:00 I need:\nfood",
        "He wrote:\nnothing.",
        "Take care.\n/tmp is full",
        "Hello.\n" + "On " + "a " * 3000 + "wrote:",
        "x\ny\n\nz",
    ],
)
def test_what_is_no_quote_stays(text: str) -> None:
    assert own_words(text) == text.strip()


def test_nothing_else() -> None:
    assert own_words("> all\n> quoted") == ""
    assert own_words("") == ""


def test_long_lines_come_back_in_place() -> None:
    lines = [f"{n} " + "word " * 100 + "end" for n in range(12)]
    assert own_words("\n".join(lines)) == "\n".join(lines)


def test_a_text_of_book_length_loses_only_marked_lines() -> None:
    text = "a line of words\n" * 40_000
    assert own_words(text + "> quoted\n") == text.strip()


def test_a_hostile_line_takes_no_time() -> None:
    # With the whole line the library's German pattern runs for a minute; a hang is the failure.
    line = "Am " + "schrieb " * 2000
    assert own_words(f"Hello.\n{line}") == f"Hello.\n{line.strip()}"


def test_eight_rules_are_dropped_and_the_others_stay() -> None:
    parts = [f"part {number}\n\n{'_' * 32}" for number in range(10)]
    kept = [f"part {number}" for number in range(8)]
    assert own_words("\n\n".join(parts)) == "\n\n".join(kept + parts[8:])
