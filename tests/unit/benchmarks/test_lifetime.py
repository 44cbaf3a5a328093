from collections import Counter

import pytest

from benchmarks.lifetime import FRAMES, OVER, Told, make_stream
from benchmarks.made_up_facts import MADE_UP
from demos.inbox.facts import FACT_WORDINGS
from demos.inbox.generator import THREADS_PER_FACT, generate

FACTS = (*FACT_WORDINGS, *MADE_UP)


def test_forty_facts_each_stated_by_every_reply_and_by_nothing_else():
    assert len({wording.fact.topic for wording in FACTS}) == 40
    for wording in FACTS:
        said = [reply for other in FACTS if other != wording for reply in other.replies]
        assert all(wording.fact.is_stated_in(reply) for reply in wording.replies)
        assert not any(wording.fact.is_stated_in(text) for text in (*said, *wording.closings))


@pytest.mark.heavy
def test_a_mailbox_of_more_facts_has_threads_about_each():
    inbox = generate(wordings=FACTS)
    mail = "\n".join(
        message.get_body(("plain", "html")).get_content() for message in inbox.messages
    )
    assert len(inbox.facts) == 40
    for wording in MADE_UP:
        assert mail.count(wording.fact.expected[0]) >= THREADS_PER_FACT


def test_a_stream_asks_often_for_few_facts_and_repeats_no_wording_too_early():
    asked = make_stream(FACT_WORDINGS, 400, seed=0)
    assert asked[:100] == make_stream(FACT_WORDINGS, 100, seed=0)
    counts = Counter(one.fact.fact.topic for one in asked).most_common()
    assert counts[0][1] > 3 * counts[-1][1]
    wordings = len(FRAMES) * (1 + len(FACT_WORDINGS[0].questions))
    assert max(Counter(one.text for one in asked).values()) == 1 + (counts[0][1] > wordings)


def test_a_fact_is_over_after_wrong_answers_in_a_row():
    told = Told()
    for right in (False, False, True, *[False] * (OVER - 1)):
        told.right["hours"].append(right)
        assert not told.over("hours")
    told.right["hours"].append(False)
    assert told.over("hours")
    assert not told.over("refund")
