"""Threads are connected components, so no privacy unit depends on another."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpicl_rag.loaders.records import ThreadKeys
from dpicl_rag.loaders.subjects import is_forward, is_reply, normalise
from dpicl_rag.loaders.threads import thread_ids


def mail(
    own: str, *references: str, subject: str = "", timestamp: float | None = 0.0
) -> ThreadKeys:
    return ThreadKeys(own, references, subject, timestamp)


def test_references_join() -> None:
    one, two, three, other = thread_ids([mail("1"), mail("2", "1"), mail("3", "2"), mail("4")])
    assert one == two == three != other


def test_two_answers_to_an_unseen_message_join() -> None:
    one, two = thread_ids([mail("1", "unseen"), mail("2", "unseen")])
    assert one == two


def test_a_late_message_joins_two_threads() -> None:
    assert len(set(thread_ids([mail("1"), mail("2"), mail("3", "1", "2")]))) == 1


def test_subjects_join() -> None:
    subjects = ["Plans", "RE: plans", "[list] Fwd: Re[2]:  PLANS (fwd)", "Plans"]
    assert len(set(thread_ids([mail(s + str(n), subject=s) for n, s in enumerate(subjects)]))) == 1


def test_subjects_that_say_nothing_do_not_join() -> None:
    subjects = ["", "Re: ", "Re:", "(no subject)", "Re: <No Subject>", "none"]
    messages = [mail(str(n), subject=s) for n, s in enumerate(subjects)]
    assert len(set(thread_ids(messages))) == len(subjects)


def test_the_same_message_twice_is_one_thread() -> None:
    one, two = thread_ids([mail("1"), mail("1")])
    assert one == two


def test_an_answer_that_arrives_later_keeps_the_name() -> None:
    before = [mail("1", timestamp=1.0), mail("2", "1", timestamp=2.0)]
    after = [*before, mail("0", "1", timestamp=3.0), mail("00", "2", timestamp=None)]
    assert set(thread_ids(before)) == set(thread_ids(after))


def test_the_root_may_arrive_last() -> None:
    before = [mail("2", "1", timestamp=2.0)]
    assert thread_ids(before) == thread_ids([*before, mail("1", timestamp=1.0)])[:1]


ids = st.sampled_from("abcdefghijkl")
messages = st.lists(
    st.builds(
        ThreadKeys,
        ids,
        st.lists(ids, max_size=2).map(tuple),
        st.sampled_from(["", "", "", "x", "Re: x", "y", "Fw: y"]),
        st.none() | st.integers(0, 3).map(float),
    ),
    max_size=12,
)


@settings(max_examples=200, derandomize=True, deadline=None)
@given(messages, st.randoms(use_true_random=False))
def test_order_does_not_matter(found: list[ThreadKeys], random: object) -> None:
    order = list(range(len(found)))
    random.shuffle(order)  # type: ignore[attr-defined]
    shuffled = thread_ids([found[index] for index in order])
    assert shuffled == [thread_ids(found)[index] for index in order]


@settings(max_examples=200, derandomize=True, deadline=None)
@given(messages, st.data())
def test_taking_a_thread_away_leaves_the_others(
    found: list[ThreadKeys], data: st.DataObject
) -> None:
    threads = thread_ids(found)
    if not threads:
        return
    gone = data.draw(st.sampled_from(threads))
    rest = [message for message, thread in zip(found, threads, strict=True) if thread != gone]
    assert thread_ids(rest) == [thread for thread in threads if thread != gone]


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        ("Plans", "plans"),
        ("Re: Plans", "plans"),
        ("RE:RE: Fw:Plans", "plans"),
        ("AW: WG: Plans", "plans"),
        ("Re (3) : Plans", "plans"),
        ("回复：Plans", "plans"),
        ("[dev] Re: [dev] Plans", "plans"),
        ("Recap of plans", "recap of plans"),
        ("Answer: plans", "answer: plans"),
        ("[only a tag]", ""),
        ("  ", ""),
    ],
)
def test_normalise(subject: str, expected: str) -> None:
    assert normalise(subject) == expected


def test_reply_and_forward() -> None:
    assert is_reply("Re: Fwd: x")
    assert is_reply("[list] AW: x")
    assert not is_reply("Fwd: Re: x")
    assert not is_reply("Revenue: x")
    assert is_forward("FW: Re: x")
    assert not is_forward("Re: Fwd: x")
    assert not is_forward("Forwarding: x")
