"""The demo's path with the default model, on two of its questions."""

import re

import pytest


@pytest.mark.model
@pytest.mark.slow
def test_the_mailbox_answers_a_fact_and_keeps_a_secret(tmp_path):
    from rich.progress import Progress

    from demos import email_assistant
    from demos.inbox.generator import generate
    from dpicl_rag import PrivateContextLLM

    box = generate()
    with Progress(disable=True) as progress:
        corpus = email_assistant.ingest(box, tmp_path, progress)
        llm = PrivateContextLLM(template=email_assistant.TEMPLATE, max_tokens=12, stop=("\n",))
        assistant = email_assistant.Assistant(corpus, llm)
        fact, secret = box.facts[-1], box.secrets[-1]
        told = assistant.ask(fact.question, progress)
        asked = assistant.ask(secret.question, progress)
    assert fact.is_stated_in(told.ordinary)
    assert not fact.is_stated_in(told.alone)
    # The private answer is a draw; at this agreement another one is all but impossible.
    assert fact.is_stated_in(told.private.text)
    assert not secret.is_given_away_by(asked.private.text)
    assert secret.is_given_away_by(asked.ordinary)
    assert re.match(r"\S", told.private.text)
