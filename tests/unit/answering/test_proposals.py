"""What public knowledge proposes, and who may confirm it."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
import torch

from dpicl_rag import Document, Ledger, PrivateContextLLM, PromptTemplate
from dpicl_rag.answering import proposals
from dpicl_rag.answering.prompt_rows import read
from dpicl_rag.answering.proposals import Proposal, as_before, named_before, proposal_for, propose
from dpicl_rag.answering.question import Question
from dpicl_rag.answering.sentence_votes import naming_of
from dpicl_rag.answering.support import Support, SupportCount, Witness
from dpicl_rag.auditing import SyntheticModel
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.knowledge import AnswerMemory, Entry
from dpicl_rag.language_models.sentence_end import Continuation
from dpicl_rag.mechanisms.discrete_noise import DiscreteGaussian
from dpicl_rag.mechanisms.privacy_filters import FixedFilter, IndividualFilter
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.retrieval.base import NoisyCount
from tests.support.scripted_model import ScriptedModel
from tests.support.tiny_model import build_tiny_model

SIZE, END = 16, 15
COUNT = 0.04  # rho of one support count at epsilon 8
SHORT = PrivacyConfig(max_tokens=60, unit_tokens=8)
AGREEING = [Document("d\ntoken 3", f"unit-{n}") for n in range(40)]  # it states what it says


def speech(text: str, history: tuple[int, ...]) -> list[float]:
    """A token and the end, by texts that name one; ``loop`` never ends."""
    name, _, number = text.rpartition("\n")[2].partition(" ")
    if name == "token":
        sure = int(number) if not history else END
        return [0.0 if token == sure else -40.0 for token in range(SIZE)]
    return [0.0, 1.0] + [0.0] * (SIZE - 2) if name == "loop" else [0.0] * SIZE


class Knows:
    """Public knowledge that is one text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def recall(self, question: str) -> list[str]:
        return [self.text]


MODEL = SyntheticModel(SIZE, speech, frozenset({END}))
PROMPT = PromptTemplate().cut(MODEL.tokenizer, "q?")


def llm(knows: str = "token 3", **settings) -> PrivateContextLLM:
    given = {"max_tokens": 4, "corpus": "mail", "knowledge": Knows(knows), "agreement": "off"}
    return PrivateContextLLM(MODEL, **{**given, **settings})


def proposed(tokens: tuple[int, ...], suffix: tuple[int, ...]) -> Proposal:
    """A proposal of which the bare model has no opinion."""
    return Proposal(tokens, (-math.log(SIZE),) * len(tokens), suffix)


def asking(tokens, spend, found=None, suffix=PROMPT.suffix) -> Support:
    """The support of a proposal, its count at the price that is set aside."""
    count, proposal = SupportCount.within(COUNT, 1), proposed(tokens, suffix)
    return Support(count, spend, Randomness(), proposal=proposal, found=found)


@pytest.mark.parametrize(
    ("knows", "most", "stop", "wanted"),
    [
        ("token 3", 4, (), (3, END)),
        ("token 3", 4, ("d",), (3,)),
        ("token 15", 4, (), ()),  # says nothing
        ("token 3", 1, (), ()),  # does not end
        ("loop", 4, (), ()),
        ("loop", 4, ("bb",), (1, 1)),
    ],
)
def test_what_is_proposed_is_a_whole_answer_or_nothing(knows, most, stop, wanted):
    config = PrivacyConfig(max_tokens=most, stop=stop)
    proposal = propose(Question("q?", PromptTemplate(), MODEL, config), MODEL, knows)
    assert (proposal.tokens if proposal else ()) == wanted
    if proposal:
        assert proposal.bare == pytest.approx([-math.log(SIZE)] * len(wanted))


@pytest.mark.parametrize("accounting", ["individual", "fixed"])
def test_an_answer_that_documents_confirm_costs_one_count(accounting):
    answer = llm(accounting=accounting).answer("q?", AGREEING)
    assert (answer.text, answer.tokens, answer.stopped_by) == ("d", 2, "end")
    assert (answer.supported, answer.from_memory) == (True, False)
    assert answer.rho == pytest.approx(COUNT, rel=1e-6)


def test_of_units_only_those_that_agree_pay(tmp_path):
    with Ledger(tmp_path / "ledger") as ledger:
        ledger.set_budget(corpus="mail", rho=9.0, unit_rho=1.0)
        others = [Document("nothing", f"other-{n}") for n in range(3)]
        llm(ledger=ledger).answer("q?", [*AGREEING, *others])
        names = ["unit-0", "other-0"]
        with ledger.reserve(corpus="mail", rho=1.0, units=names) as held:
            assert held.limits == pytest.approx([1 - COUNT, 1.0], rel=1e-6)


@pytest.mark.parametrize("accounting", ["individual", "fixed"])
def test_one_that_they_do_not_confirm_is_paid_for_and_tokens_are_drawn(accounting):
    answer = llm("token 5", accounting=accounting, strength=2.0).answer("q?", AGREEING)
    assert (answer.text, answer.supported) == ("d", True)
    assert answer.rho == pytest.approx(2 * COUNT + answer.tokens * 2.0**2 / 8, rel=1e-6)


@pytest.mark.parametrize("asked", [{"fresh": True}, {"unsupported": "ignore"}])
def test_nothing_is_proposed_where_that_is_not_wanted(asked):
    settings = {"strength": 2.0, **{k: v for k, v in asked.items() if k == "unsupported"}}
    answer = llm(**settings).answer("q?", AGREEING, fresh="fresh" in asked)
    counts = 0 if "unsupported" in asked else 1
    assert answer.text == "d"
    assert answer.rho == pytest.approx(counts * COUNT + answer.tokens * 2.0**2 / 8, rel=1e-6)


def test_a_stream_closed_early_is_not_said_to_be_supported():
    with llm().stream("q?", AGREEING) as stream:
        assert next(stream) == "d"
    assert (stream.answer.supported, stream.answer.stopped_by) == (None, "length")
    assert stream.answer.rho == pytest.approx(COUNT, rel=1e-6)


@pytest.mark.parametrize(
    ("found", "agreeing", "confirmed"),
    [
        (NoisyCount(60.0, 2.0), 30, True),  # more than half of the 58 that are there at least
        (NoisyCount(60.0, 2.0), 29, False),
        (NoisyCount(4.0, 2.0), 4, False),  # no more than noise
        (None, 24, True),  # of unknown many: twice what noise hardly passes
        (None, 20, False),
    ],
)
def test_most_of_those_that_were_found_must_confirm(monkeypatch, found, agreeing, confirmed):
    monkeypatch.setattr(DiscreteGaussian, "draw", lambda self, randomness: 0)
    inputs = [*["token 3"] * agreeing, *["nothing"] * 3]
    spend = FixedFilter(1.0, 0.1, aside=COUNT)
    support = asking((3, END), spend, found)
    rows = read(MODEL, PROMPT, inputs, room=4, informed="token 3")
    assert support.confirms(rows) is confirmed
    # The higher the line, the more noise it bears, and the less a count costs.
    few = found is None or found.low < 10
    assert spend.rho == pytest.approx(COUNT if few else 9 / 2 / 29**2)
    assert repr(support) == "Support(<private>)"


def test_documents_that_say_another_value_do_not_confirm(monkeypatch):
    """They find all else of the answer likely, so that the mean alone would not tell."""
    monkeypatch.setattr(DiscreteGaussian, "draw", lambda self, randomness: 0)
    tokens = (*range(1, 8), END)

    def speech(text: str, history: tuple[int, ...]) -> list[float]:
        if "doc" not in text:
            return [0.0] * SIZE
        at = len(history)
        said = 9 if at == 4 and "other" in text else tokens[at]
        return [6.0 if token == said else 0.0 for token in range(SIZE)]

    model = SyntheticModel(SIZE, speech, frozenset({END}))
    for text, confirmed in (("doc", True), ("doc other", False)):
        rows = read(model, PROMPT, [text] * 40, room=9)
        support = asking(tokens, FixedFilter(1.0, 0.1, aside=COUNT))
        assert support.confirms(rows) is confirmed


def test_a_long_proposal_is_read_in_parts(tiny_model, monkeypatch):
    prompt = PromptTemplate().cut(tiny_model.tokenizer, "q?")
    inputs = [tiny_model.digest([text], 99) for text in ("abc", "a longer document", "x")]
    found, heard = [], []
    passes = lambda self, agreeing, *_, line: found.append(agreeing)  # noqa: E731
    monkeypatch.setattr(SupportCount, "passes", passes)
    record = Witness.record
    monkeypatch.setattr(
        Witness,
        "record",
        lambda self, step, token: (heard.append(step.rows.clone()), record(self, step, token))[1],
    )
    for places in (100, 3, 1):
        monkeypatch.setattr("dpicl_rag.answering.support._PLACES", places)
        rows = read(tiny_model, prompt, inputs, room=9)
        spend = FixedFilter(1.0, 0.1, aside=COUNT)
        support = asking((65, 66, 67, 68, 69, 70, 71), spend, suffix=prompt.suffix)
        support.confirms(rows)
        fresh = read(tiny_model, prompt, inputs, room=9)
        assert torch.equal(rows.extend(prompt.suffix).rows, fresh.extend(prompt.suffix).rows)
    whole, *others = (heard[at : at + 7] for at in (0, 7, 14))
    for part in others:  # the size of parts is public, and moves last bits on some processors
        assert all(torch.allclose(a, b, atol=1e-4) for a, b in zip(whole, part, strict=True))
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


def test_after_a_refusal_rows_stand_where_they_stood(tiny_model):
    """To the last bit: what is drawn then has the distribution of an answer without a proposal."""
    prompt = PromptTemplate().cut(tiny_model.tokenizer, "q?")
    inputs = [tiny_model.digest([text], 99) for text in ("abc", "a longer document")]
    asked, fresh = (read(tiny_model, prompt, inputs, room=6) for _ in range(2))
    found = NoisyCount(1e6, 0.0)  # more than could ever agree
    spend = FixedFilter(1.0, 0.1, aside=COUNT)
    support = asking((65, 66, 67), spend, found, prompt.suffix)
    assert not support.confirms(asked)
    for ids in (prompt.suffix, (70,), (71,)):
        assert torch.equal(asked.extend(ids).rows, fresh.extend(ids).rows)


def test_support_is_what_documents_add_to_a_model_that_knows_nothing():
    """A proposal that the bare model makes by itself is nobody's news."""
    model = SyntheticModel(2, lambda text, history: [9.0, 0.0] if not history else [0.0, 9.0])
    model.tokenizer.stop_tokens = frozenset({1})
    answer = PrivateContextLLM(model, knowledge=Knows("anything"), corpus="mail").answer(
        "q?", AGREEING
    )
    assert (answer.text, answer.supported) == ("a", False)
    assert math.isfinite(answer.rho)


@pytest.mark.parametrize("agreement", ["off", "auto", "only"])
def test_a_confirmed_proposal_is_released_whatever_else_is(agreement):
    found = llm(agreement=agreement).answer("q?", AGREEING)
    assert (found.text, found.supported, found.by) == ("d", True, "memory")


EARLIER = "Ada: What does a refund take?"


def briefly(model, text, **settings):
    """A question with short answers."""
    return Question(text, PromptTemplate(), model, SHORT.model_copy(update=settings))


def entry(answer):
    moment = datetime(2026, 11, 24, tzinfo=UTC)
    given = {"id": 1, "corpus": "mail", "caller": None, "question": EARLIER, "answer": answer}
    return Entry(**given, epsilon=2.0, delta=1e-5, time=moment, whole=True, edited=False)


def memory_of(*entries):
    """A memory in which these are near to whatever is asked."""
    return SimpleNamespace(nearest=lambda question: list(entries))


@pytest.mark.parametrize(
    ("said", "released", "asked_before", "named"),
    [
        ("It arrives after nine days.", "A refund takes 9 days.", True, None),
        ("It arrives after ten days.", "A refund takes 9 days.", False, None),
        ("It arrives.", "A refund takes 9 days.", False, None),
        ("It arrives.", "A refund.", False, None),
        # Names and numbers alone are what experts are to name.
        ("It arrives after 9 days.", "9 days.", True, "9 days"),
        ("It arrives after Marrowby.", "Marrowby.", True, "Marrowby"),
        (
            "It arrives after nine days.",
            "A refund takes 9 days" + ", as they say it" * 99,
            False,
            None,
        ),
    ],
)
def test_what_was_released_before_is_put_to_the_documents_as_it_was(
    tiny_model, said, released, asked_before, named
):
    tokenizer, question = tiny_model.tokenizer, briefly(tiny_model, "What arrives?")
    first = Proposal(tuple(tokenizer.encode(f" {said}")), (), question.prompt.suffix)
    nearest = [entry("It is something else."), entry(released)]
    found = as_before(question, first, nearest, question)
    assert (found is not None) == asked_before
    if found is None:
        return
    assert found.counted
    assert found.suffix == question.worded(EARLIER).prompt.suffix
    assert (found.question, found.named) == (EARLIER, named)
    assert len(found.bare) == (0 if named else len(found.tokens))
    text = tokenizer.decode([t for t in found.tokens if t not in tokenizer.stop_tokens])
    assert text.strip() == released


@pytest.mark.parametrize(
    ("naming", "found", "confirmed"),
    [(20, 64, True), (12, 64, False), (20, None, True), (9, 20, True), (4, 20, False)],
)
def test_experts_that_name_the_same_confirm_it(monkeypatch, naming, found, confirmed):
    """Without noise three tenths of the units found must name it."""
    monkeypatch.setattr(DiscreteGaussian, "draw", lambda self, randomness: 0)
    number = None if found is None else NoisyCount(found, 0.1)
    paid = []

    class Book:
        def pay(self, most, unit_rho, places, *, delta, drawn):
            paid.append((unit_rho, delta))

    spend = IndividualFilter(
        torch.full((64,), 1e6, dtype=torch.float64),
        bound=1e6,
        worst=0.1,
        aside=100.0,
        account=Book(),
        places=range(64),
    )
    proposal = Proposal((1, END), (-1.0, -1.0), (2,), "q?", "9 days")
    count = SupportCount(DiscreteGaussian(0.3), 1)
    support = Support(count, spend, Randomness(), proposal=proposal, found=number)
    rows = MODEL.read((), ["", *["nothing"] * 64], room=4)
    agreeing = torch.arange(64) < naming
    assert support.confirms(rows, lambda _: agreeing) == confirmed
    # Of units only those that name it pay, and nothing that is private is released: no delta.
    [(charges, delta)] = paid
    assert [charge > 0 for charge in charges] == agreeing.tolist()
    assert delta == 0.0


@pytest.mark.parametrize("drawn", [False, True])
def test_what_was_drawn_was_not_counted(tiny_model, drawn):
    first = Proposal(tuple(tiny_model.tokenizer.encode(" 9 days.")), (), ())
    earlier = replace(entry("A refund takes 9 days."), drawn=drawn)
    asked = briefly(tiny_model, "What of a refund?")
    found = as_before(asked, first, [earlier], asked)
    assert found.counted == (not drawn)


@pytest.mark.parametrize("missing", [0, 1])
def test_an_earlier_question_is_put_where_the_longest_unit_leaves_room_for_it(missing):
    """It has a shorter prompt before the document, which experts do not read: an error told that
    somebody's document is long."""
    texts = "What of a refund?", "Wann kommt die Erstattung an?"

    def asking(model):
        return [Question(text, PromptTemplate(), model, SHORT, silent=True) for text in texts]

    now, then = (one.prompt for one in asking(build_tiny_model()))
    whole = len(now.prefix) + SHORT.unit_tokens + len(then.suffix) + SHORT.max_tokens
    model = build_tiny_model(max_position_embeddings=whole - missing)
    question, earlier = asking(model)
    assert earlier.allowance == question.allowance == SHORT.unit_tokens
    nearest = [replace(entry("9 days."), question=earlier.text)]
    first = Proposal(tuple(model.tokenizer.encode(" 9 days.")), (), now.suffix)
    assert (as_before(question, first, nearest, question) is None) == missing
    found = named_before(question, nearest)
    assert found.earlier == ("" if missing else earlier.text)
    room = SHORT.max_tokens + len(found.suffix) - len(now.suffix)
    read(model, now, [question.digest(["a long document"])], room=room)


@pytest.mark.parametrize(
    ("nearest", "agreement", "released", "words"),
    [
        (True, "auto", True, f"It is late. What of a refund? {EARLIER}"),
        (True, "off", False, "It is late. What of a refund?"),
        (False, "auto", False, "It is late. What of a refund?"),
    ],
)
def test_the_public_row_is_asked_again_in_brief(
    tiny_model, monkeypatch, nearest, agreement, released, words
):
    """What surrounds a question is what a small model answers."""
    asked = []

    def propose(question, *_):
        asked.append(question.text)
        said = " 9 days." if question.text == "What of a refund?" else " It is late."
        return Proposal(tuple(tiny_model.tokenizer.encode(said)), (), question.prompt.suffix)

    monkeypatch.setattr(proposals, "propose", propose)
    question = briefly(tiny_model, "It is late. What of a refund?", agreement=agreement)
    memory = memory_of(entry("A refund takes 9 days.")) if nearest else memory_of()
    found, sought = proposal_for(question, memory, tiny_model, (), ())
    assert found.counted == released
    assert sought == words
    assert asked == ["It is late. What of a refund?", *(["What of a refund?"] if released else [])]


def test_of_many_sentences_that_ask_the_last_is_asked_too(tiny_model, monkeypatch):
    asked = []
    monkeypatch.setattr(proposals, "propose", lambda question, *_: asked.append(question.text))
    question = briefly(tiny_model, "Hello. Is it late? What of a refund?")
    found = proposal_for(question, memory_of(entry("It is up to you.")), tiny_model, (), ())
    assert found == (None, question.text)
    assert asked == [question.text, "Is it late? What of a refund?", "What of a refund?"]


@pytest.mark.parametrize(
    ("answers", "question", "named"),
    [
        (["A refund takes 9 days."], "It is late. What of a refund?", "9 days"),
        (["It is up to you.", "9 days."], "It is late. What of a refund?", "9 days"),
        (["Marrowby.", "9 days."], "It is late. What of a refund?", "Marrowby"),
        # What is asked is no news, and who asks how asks for more than a name.
        (["A refund takes 9 days."], "What of a refund after 9 days?", None),
        (["A refund takes 9 days."], "How do I get a refund?", None),
        (["It is up to you."], "It is late. What of a refund?", None),
        (["Rosalind " * 60], "What of a refund?", None),  # longer than an answer
    ],
)
def test_what_a_near_answer_names_is_asked_for(tiny_model, answers, question, named):
    asked = briefly(tiny_model, question)
    found = named_before(asked, [entry(answer) for answer in answers])
    assert (found and found.named) == named
    if found:
        tokenizer = tiny_model.tokenizer
        assert tokenizer.decode(found.tokens[:-1]).strip() == f"{named}."
        assert found.tokens[-1] in tokenizer.stop_tokens
        # Rows have room for either question.
        suffixes = asked.prompt.suffix, asked.worded(EARLIER).prompt.suffix
        assert (found.question, found.earlier) == (question, EARLIER)
        assert found.suffix == max(suffixes, key=len)
        assert found.counted


def test_who_has_no_vote_hears_the_question_that_was_answered(tiny_model):
    """Who says something else does not: what it says counts against the answer."""
    asked = briefly(tiny_model, "It is late. What of a refund?")
    proposal = named_before(asked, [entry("A refund takes 9 days.")])
    said = {"now": ["A refund takes 9 days.", "A refund takes 8 days.", "", ""]}
    said["then"] = ["", "A refund takes 9 days.", "A refund takes 9 days.", ""]
    then = {one.suffix for one in asked.worded(EARLIER).phrasings}
    heard = []

    class Rows:
        def continue_each(self, token_ids, most, silent):
            when = "then" if tuple(token_ids) in then else "now"
            heard.append((when, list(silent)))
            encode = tiny_model.tokenizer.encode
            spoken = [tuple(encode(f" {text}")) for text in said[when]]
            return [Continuation(ids, (-0.01,) * len(ids)) for ids in spoken]

    texts = [f"A refund takes {days} days." for days in (9, 8, 9)]
    find = naming_of(asked, proposal, [[text] for text in (*texts, "Hello.")])
    assert find(Rows()).tolist() == [True, False, True, False]
    assert ("then", [False, False, True, False]) in heard
    assert [mask[:2] for when, mask in heard if when == "then"] == [[False, False]] * len(then)


def test_what_an_expert_says_to_a_longer_question_is_no_error(tiny_model):
    """An error in its place told that a unit says it: nothing else asks the bare model."""
    earlier = f"{'A lady writes to us about her skates. ' * 2}{EARLIER}"
    asked = briefly(tiny_model, "What of a refund?")
    proposal = named_before(asked, [replace(entry("A refund takes 9 days."), question=earlier)])
    longest = asked.worded(earlier).prompt.suffix
    assert proposal.suffix == longest
    assert len(longest) > len(asked.prompt.suffix) + SHORT.max_tokens
    tokens = tuple(tiny_model.tokenizer.encode(" A refund takes 9 days."))

    class Rows:
        def continue_each(self, token_ids, most, silent):
            said = tokens if tuple(token_ids) == longest else ()
            return [Continuation(said, (-0.01,) * len(said))]

    assert naming_of(asked, proposal, [["A refund takes 9 days."]])(Rows()).tolist() == [True]


@pytest.mark.parametrize(
    ("said", "known", "named"),
    [
        ("It is Marrowby.", ["The town of Marrowby"], None),
        ("It is Marrowby.", ["Nothing of the kind"], "9 days"),
        (None, [], "9 days"),
        # The memory's own words, put together otherwise.
        ("It takes days.", [entry("A refund takes 9 days.").text], "9 days"),
        # It says nothing that was not asked.
        ("What of a refund?", ["The town of Marrowby"], "9 days"),
    ],
)
def test_a_proposal_that_public_knowledge_has_comes_first(
    tiny_model, monkeypatch, said, known, named
):
    """What it has not is made up, and no use to the documents."""

    def propose(question, *_):
        tokens = () if said is None else tuple(tiny_model.tokenizer.encode(said))
        return Proposal(tokens, (), question.prompt.suffix) if tokens else None

    monkeypatch.setattr(proposals, "propose", propose)
    memory = memory_of(entry("A refund takes 9 days."))
    found, sought = proposal_for(
        briefly(tiny_model, "What of a refund?"), memory, tiny_model, (), known
    )
    assert found.named == named
    assert sought == f"What of a refund? {EARLIER}"


LIFT = "Is the lift working?"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("Until when is the lift out of order?", "No, the lift is out of order."),
        ("Until when is the lift out of order?", "The lift is out of order until 14 March."),
        ("Who repairs the lift?", "No, the lift is out of order."),
        ("Is the pool open?", "No, the lift is out of order."),
    ],
)
def test_an_answer_to_another_question_is_not_proposed(tiny_model, monkeypatch, asked, said):
    """The public row says again what it read; documents would say so too."""
    before = replace(entry("No, the lift is out of order."), question=LIFT)
    later = replace(entry("The lift is out of order until 14 March."), question=LIFT)

    def propose(question, *_):
        return Proposal(tuple(tiny_model.tokenizer.encode(said)), (), question.prompt.suffix)

    monkeypatch.setattr(proposals, "propose", propose)
    found = proposal_for(
        briefly(tiny_model, asked), memory_of(before, later), tiny_model, (), [before.text]
    )
    assert found == (None, asked)


@pytest.mark.parametrize(
    ("asked", "said", "proposed"),
    [
        ("When does it open?", "It opens at half past six.", True),
        ("When does it open?", "It opens.", False),
        ("Until when is it closed?", "It is closed.", False),
        ("How much is it?", "It is much.", False),
        ("Who has the key?", "The key is there.", False),
        ("Who has the key?", "Ada Holm has the key.", True),
        ("Is it open?", "It is a pool.", False),
        ("Is it open?", "Yes, it is.", True),
        ("Why is it closed?", "It is repaired.", True),
    ],
)
def test_what_is_of_another_kind_is_no_answer(tiny_model, monkeypatch, asked, said, proposed):
    def propose(question, *_):
        return Proposal(tuple(tiny_model.tokenizer.encode(said)), (), question.prompt.suffix)

    monkeypatch.setattr(proposals, "propose", propose)
    found, _ = proposal_for(briefly(tiny_model, asked), None, tiny_model, (), [said])
    assert (found is not None) == proposed


@pytest.mark.parametrize("about", ["lift", "garden"])
def test_what_was_not_asked_is_neither_proposed_nor_remembered(tmp_path, about):
    """A fake model that says what it read before, whatever is asked."""
    said = "No, the lift is out of order."
    model = ScriptedModel({"lift": said, "garden": "Nobody knows."})
    documents = [Document(f"The {about} of number {n}.", f"unit-{n}") for n in range(40)]
    with AnswerMemory(tmp_path / "memory", "mail", least=-1.0) as memory:
        memory.remember(LIFT, said, epsilon=2.0, delta=1e-5)
        settings = {"corpus": "mail", "knowledge": memory, "epsilon": 8.0, "max_tokens": 12}
        asking = PrivateContextLLM(model, **settings)
        answer = asking.answer("Until when is the lift out of order?", documents)
        assert answer.by != "memory"
        if about == "garden":  # which do not say it of themselves
            assert not answer.supported
            assert [entry.question for entry in memory.entries()] == [LIFT]
        again = asking.answer(f"A neighbour asks: {LIFT}", documents)
        assert (again.by == "memory") == (about == "lift")


def test_what_was_agreed_on_passes_at_two_sigmas(monkeypatch):
    monkeypatch.setattr(DiscreteGaussian, "draw", lambda self, randomness: 0)
    rows = MODEL.read((), ["", *["nothing"] * 64], room=4)
    for agreeing, counted, confirmed in ((25, False, False), (25, True, True), (19, True, False)):
        support = Support(
            SupportCount(DiscreteGaussian(10.0), 1),
            FixedFilter(1.0, 0.1, aside=1.0),
            Randomness(),
            proposal=Proposal((1, END), (-1.0, -1.0), (2,), "q?", "9 days", counted),
            found=NoisyCount(30, 0.1),
        )
        votes = torch.arange(64) < agreeing
        assert support.confirms(rows, lambda _, votes=votes: votes) == confirmed
