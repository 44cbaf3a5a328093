"""The demo's path with the default model, on two of its questions."""

import re

import pytest


@pytest.mark.heavy
def test_the_mailbox_answers_a_fact_and_keeps_a_secret(tmp_path):
    from rich.progress import Progress

    from demos import email_assistant
    from demos.inbox.generator import generate

    box = generate()
    with Progress(disable=True) as progress:
        assistant = email_assistant.open_assistant(box, tmp_path, progress)
        fact, secret = box.facts[-1], box.secrets[-1]
        told = assistant.ask(fact.question, progress)
        asked = assistant.ask(secret.question, progress)
        again, paid = assistant.ask_again(fact.again, progress)
        same, nothing = assistant.ask_again(fact.question, progress)
    assert fact.is_stated_in(told.ordinary)
    assert not fact.is_stated_in(told.alone)
    # The private answer is a draw; at this agreement another one is all but impossible.
    assert fact.is_stated_in(told.private.text)
    assert told.private.supported
    assert not secret.is_given_away_by(asked.private.text)
    assert not asked.private.supported
    assert secret.is_given_away_by(asked.ordinary)
    assert re.match(r"\S", told.private.text)
    # The memory knows it in other words, and word by word.
    assert again.recalled
    assert paid > 0
    assert (same.text, same.rho, nothing) == (told.private.text, 0.0, 0.0)
