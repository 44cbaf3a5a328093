"""Threads are connected components, so no privacy unit depends on another."""

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpicl_rag.loaders.records import ThreadKeys
from dpicl_rag.loaders.threads import (
    PERIOD,
    is_forward,
    is_marked,
    is_reply,
    normalise,
    subject_ties,
    thread_ids,
    thread_keys,
    tying_many,
)


def mail(
    own: str,
    *references: str,
    subject: str = "",
    timestamp: float | None = 0.0,
    people: str = "ann bob",
) -> ThreadKeys:
    sender, *recipients = people.split()
    return ThreadKeys(own, references, subject, timestamp, sender, tuple(recipients))


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


@pytest.mark.parametrize(
    ("other", "joins"),
    [
        ({}, True),
        ({"people": "bob ann"}, True),
        ({"people": "bob cy ann"}, True),
        ({"subject": "plans"}, False),  # nobody answers
        ({"people": "cy bob"}, False),  # a stranger
        ({"people": "cy ann"}, False),
        ({"people": "cy"}, False),
        ({"people": "ann"}, False),
        ({"timestamp": PERIOD - 1.0}, True),
        ({"timestamp": 1 - PERIOD}, True),
        ({"timestamp": 2.0 * PERIOD}, False),
        ({"timestamp": -PERIOD - 1.0}, False),
        ({"timestamp": None}, False),
        ({"subject": "Re: other plans"}, False),
    ],
)
def test_when_a_subject_joins(other: dict[str, Any], joins: bool) -> None:
    messages = [mail("1", subject="Plans"), mail("2", **{"subject": "Re: Plans", **other})]
    for order in (messages, messages[::-1]):
        assert len(set(thread_ids(order))) == 2 - joins
        assert subject_ties(order) == [(0, 1)] * joins


@pytest.mark.parametrize("place", [0.0, 0.3, 0.999])
@pytest.mark.parametrize("apart", [0.001, 0.5, 1.0])
def test_any_two_within_a_period_share_a_key(place: float, apart: float) -> None:
    one, other = (
        mail("x", subject="Re: Plans", timestamp=when * PERIOD) for when in (place, place + apart)
    )
    assert set(thread_keys(one)[1:]) & set(thread_keys(other)[1:])


def test_a_mail_to_nobody_is_one_to_oneself() -> None:
    one, other, stranger = thread_ids(
        [
            mail("1", subject="Plans", people="ann"),
            mail("2", subject="Re: Plans", people="ann"),
            mail("3", subject="Re: Plans", people="cy"),
        ]
    )
    assert one == other != stranger


def test_a_strangers_guesses_join_nothing() -> None:
    """An audit's attack: thirty threads, and a stranger who guesses their subjects."""
    subjects = [f"subject {number}" for number in range(30)]
    theirs = [mail(f"a{s}", subject=s) for s in subjects]
    theirs += [mail(f"b{s}", subject=f"Re: {s}", people="bob ann") for s in subjects]
    guessed = [mail(f"x{s}", subject=f"Re: {s}", people="cy ann bob") for s in subjects]
    guessed += [mail("y", *(f"x{s}" for s in subjects), people="cy ann")]
    before, after = thread_ids(theirs), thread_ids([*theirs, *guessed])
    assert after[: len(theirs)] == before
    assert len(set(before)) == 30
    assert len(set(after)) == 31
    assert len(subject_ties([*theirs, *guessed])) == 30


def withheld(messages: list[ThreadKeys]) -> set[str]:
    return {messages[place].message_id for place in tying_many(messages)}


def test_whoever_ties_many_conversations_is_withheld() -> None:
    """Four with 99 references each, which would weld 300; copies do not help."""
    theirs = [mail(f"{n}", *([f"{n - 1}"] if n % 3 else [])) for n in range(900)]
    tying = [mail(f"h{n}", *(f"{3 * one}" for one in range(75 * n, 75 * n + 99))) for n in range(4)]
    for more in (
        tying,
        [*tying, *(mail(f"copy {one.message_id}", *one.references) for one in tying)],
    ):
        assert withheld([*theirs, *more]) == {one.message_id for one in more}


@pytest.mark.parametrize("count", [3, 4])
def test_three_conversations_may_become_one(count: int) -> None:
    theirs = [mail(str(n)) for n in range(count)]
    tie = mail("tie", *map(str, range(count)))
    assert withheld([*theirs, tie]) == ({"tie"} if count > 3 else set())


def test_small_steps_are_counted_within_a_load() -> None:
    theirs = [mail(str(n)) for n in range(60)]
    steps = [mail(f"h{n}", str(n), str(n + 1)) for n in range(59)]
    kept = [one for one in (*theirs, *steps) if one.message_id not in withheld([*theirs, *steps])]
    threads = Counter(thread_ids(kept)[: len(theirs)])
    assert max(threads.values()) == 3


def test_ids_of_messages_that_are_not_there_count() -> None:
    """Conversations whose first mail is not in the mailbox, and of which each has more ids."""
    theirs = [mail(f"{n}.{m}", *(f"{n}-{k}" for k in range(9))) for n in range(5) for m in "ab"]
    assert withheld([*theirs, mail("h", *(f"{n}-0" for n in range(5)), *map(str, range(9)))]) == {
        "h"
    }
    assert withheld([*theirs, mail("h", *(f"{n}.a" for n in range(5)))]) == {"h"}


@pytest.mark.parametrize("seed", range(20))
def test_no_message_of_a_conversation_is_withheld(seed: int) -> None:
    """However it branches, in whatever order it comes, and where programs name parents alone."""
    coins = random.Random(seed)
    paths: list[tuple[str, ...]] = [()]
    messages = [mail("0", subject="Plans")]
    for n in range(1, 150):
        place = coins.randrange(len(messages))
        paths.append((*paths[place], messages[place].message_id))
        named = paths[n] if seed % 2 or coins.random() < 0.3 else paths[n][-1:]
        messages.append(mail(str(n), *named, subject="Re: Plans" if n % 3 else ""))
    coins.shuffle(messages)
    assert withheld(messages) == set()
    assert len(set(thread_ids(messages))) == 1


def test_what_two_people_write_under_one_subject_counts_once() -> None:
    """A weekly report is answered at last; who answers thirty people under theirs ties them."""
    reports = [mail(str(n), subject="Report", people="ann bob") for n in range(9)]
    answer = mail("answer", "8", subject="Re: Report", people="bob ann")
    assert withheld([answer, *reports]) == set()
    people = [f"p{n}" for n in range(30)]
    theirs = [mail(one, subject="Salary", people=f"ann {one}") for one in people]
    forged = mail("forged", subject="Re: Salary", people=" ".join(["ann", *people]))
    assert withheld([forged, *theirs]) == {"forged"}


def test_very_many_references_are_cut() -> None:
    ids = [str(number) for number in range(60_000)]
    long = mail("own", *ids)
    assert len(thread_keys(long)) == 101
    messages = [long, mail("0"), mail("49"), mail("30000"), mail("59950"), mail("59999")]
    found = thread_ids(messages)
    assert [thread == found[0] for thread in found] == [True, True, True, False, True, True]


def test_very_many_recipients_are_cut() -> None:
    people = " ".join(["ann", *(f"p{number}" for number in range(5_000))])
    assert len(thread_keys(mail("own", subject="Re: x", people=people))) == 61


def test_keys_are_short_and_bytes_tell_them_apart() -> None:
    for one, other in (("x" * 900, "x" * 901), ("m\udc81@b", "m\udc8d@b"), ("é", "\udcc3")):
        keys = [thread_keys(mail(name))[0] for name in (one, other)]
        assert keys[0] != keys[1]
        assert len(set(thread_ids([mail(one), mail(other)]))) == 2
        assert all(key.isascii() and len(key) < 250 for key in keys)


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
        st.none() | st.integers(0, 6).map(lambda when: when * PERIOD / 2),
        st.sampled_from(["", "ann", "bob", "x"]),
        st.lists(st.sampled_from(["ann", "bob", "x"]), max_size=2).map(tuple),
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


@settings(max_examples=300, derandomize=True, deadline=None)
@given(messages, st.randoms(use_true_random=False))
def test_the_others_are_as_if_the_withheld_were_not_there(
    found: list[ThreadKeys], random: object
) -> None:
    gone = tying_many(found)
    kept = [one for place, one in enumerate(found) if place not in gone]
    assert tying_many(kept) == set()
    order = list(range(len(found)))
    random.shuffle(order)  # type: ignore[attr-defined]
    told = Counter(found[place] for place in gone)
    assert Counter(found[order[at]] for at in tying_many([found[o] for o in order])) == told


@pytest.mark.heavy
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
        ("EXTERNAL: Plans", "plans"),
        ("[EXTERNAL] Re: Plans", "plans"),
        ("[EXT]: AW: [dev] EXTERNAL: Plans", "plans"),
        ("*EXTERNAL* **Extern** Plans", "plans"),
        ("External audit plans", "external audit plans"),
        ("Automatic reply: Plans", "plans"),
        ("Automatische Antwort: AW: Plans", "plans"),
        ("Réponse automatique : Plans", "plans"),
        ("Re\u0301ponse automatique\u00a0: Plans", "plans"),
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
    for subject in ("EXTERNAL: AW: x", "[EXT] Re: Fwd: x", "[dev] Automatic reply: x", "AW[2]: x"):
        assert is_reply(subject)
        assert is_marked(subject)
    assert is_forward("EXTERNAL: WG: x")
    assert is_marked("x (fwd)")
    for subject in ("x", "EXTERNAL: x", "[dev] x", "External: audit of x", "(external) x"):
        assert not is_marked(subject)
