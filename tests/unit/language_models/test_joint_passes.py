"""Answers that share passes keep every bit, and go on in the order of asking."""

import random

import pytest
import torch

from dpicl_rag.language_models import joint_passes, tiles
from dpicl_rag.language_models.attention import Joint
from dpicl_rag.language_models.hardware import NotEnoughMemoryError
from dpicl_rag.language_models.joint_passes import JointPasses
from dpicl_rag.language_models.packed_rows import forward_each
from dpicl_rag.language_models.transformers import TransformersModel
from tests.support.architectures import build_architecture
from tests.support.tiny_model import build_tiny_model, build_tiny_tokenizer

TOKENS = 3


@pytest.fixture(params=[1, 2])
def threads(request):
    """How many threads torch computes with."""
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def build(dtype=torch.float32, **overrides):
    sizes = {"hidden_size": 192, "intermediate_size": 576, "num_attention_heads": 6}
    model = build_tiny_model(**{**sizes, "num_key_value_heads": 2, **overrides})
    found = TransformersModel(model._model.to(dtype), build_tiny_tokenizer())
    assert found.shares_passes()
    return found


def questions(seed, number):
    """Answers to come, each with a prefix, documents, a suffix and tokens of its own."""
    coins = random.Random(seed)

    def tokens(count):
        return tuple(coins.randrange(200) for _ in range(count))

    common = tokens(9)
    return [
        (
            coins.choice([(), common, tokens(coins.randint(1, 30))]),
            [tokens(coins.choice([1, 5, 30, 70, 150])) for _ in range(coins.choice([1, 3, 20]))],
            tokens(coins.randint(1, 40)),
            [tokens(1) for _ in range(TOKENS)],
        )
        for _ in range(number)
    ]


def answer(model, question, into):
    """Rows [places, rows, candidates] of an answer, one by one."""
    prefix, inputs, suffix, tokens = question
    rows = model.read(prefix, inputs, room=len(suffix) + TOKENS)
    into.append(rows.extend(suffix).rows)
    for token in tokens:
        into.append(rows.extend(token).rows)


def alone(model, asked):
    found = [[] for _ in asked]
    for question, into in zip(asked, found, strict=True):
        answer(model, question, into)
    return found


def in_company(model, asked):
    found, meeting = [[] for _ in asked], JointPasses()
    for question, into in zip(asked, found, strict=True):
        meeting.start(lambda question=question, into=into: answer(model, question, into))
        if len(into) > 2:
            meeting.run_pass()  # some are ahead of others
    while meeting.waiting:
        meeting.run_pass()
    return found


def differing(one, other):
    """How many places of answers differ in some bit."""
    pairs = [pair for both in zip(one, other, strict=True) for pair in zip(*both, strict=True)]
    return sum(not torch.equal(*pair) for pair in pairs)


@pytest.mark.one_in(6)
@pytest.mark.heavy  # on a processor that has no instructions of 16 bits
@pytest.mark.guard
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_answers_in_company_keep_every_bit(threads, dtype):
    model = build(dtype)
    for seed in range(2):
        asked = questions(seed, 5)
        assert differing(alone(model, asked), in_company(model, asked)) == 0


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "name",
    ["Mistral, sliding", "Gemma 2, soft caps", "Qwen3-MoE", "gpt-oss, sinks", "GPT-2"],
)
def test_answers_in_company_keep_every_bit_whatever_the_model(name):
    tokenizer = build_tiny_tokenizer(chat=False)
    model = TransformersModel(build_architecture(name, tokenizer), tokenizer)
    assert model.shares_passes()
    asked = questions(1, 4)
    assert differing(alone(model, asked), in_company(model, asked)) == 0


@pytest.mark.heavy
def test_copies_of_a_model_share_passes_and_others_do_not():
    models = build(), build()
    both = [models[0], models[0].copying(2.0), models[1], models[1]]
    asked = questions(7, len(both))
    wanted = [alone(model, [question])[0] for model, question in zip(both, asked, strict=True)]
    found, meeting = [[] for _ in asked], JointPasses()
    for model, question, into in zip(both, asked, found, strict=True):
        meeting.start(lambda m=model, q=question, into=into: answer(m, q, into))
    while meeting.waiting:
        meeting.run_pass()
    assert differing(wanted, found) == 0


@pytest.mark.heavy
def test_many_answers_take_several_passes(monkeypatch):
    model, asked = build(), questions(3, 6)
    wanted, passes = alone(model, asked), []
    honest = Joint.__init__

    def counted(self, answers):
        passes.append(len(answers))
        honest(self, answers)

    monkeypatch.setattr(Joint, "__init__", counted)
    monkeypatch.setattr("dpicl_rag.language_models.packed_rows._PASS_TOKENS", 50)
    assert differing(wanted, in_company(model, asked)) == 0
    assert max(passes) > 1


def test_work_goes_on_in_the_order_of_asking_and_one_alone_runs_its_own_pass(monkeypatch):
    model, said, sizes = build(), [], []
    joint = forward_each
    monkeypatch.setattr(
        joint_passes,
        "forward_each",
        lambda batches, *rest, **more: sizes.append(len(batches)) or joint(batches, *rest, **more),
    )

    def work(name, tokens):
        rows = model.read((), [(1, 2)], room=9)
        for token in range(tokens):
            rows.extend((token,))
            said.append(name)
        assert not torch.is_inference_mode_enabled()

    meeting = JointPasses()
    for name, tokens in (("a", 3), ("b", 1), ("c", 2)):
        meeting.start(lambda name=name, tokens=tokens: work(name, tokens))
    assert (said, meeting.waiting) == ([], 3)
    while meeting.waiting:
        meeting.run_pass()
    assert said == ["a", "b", "c", "a", "c", "a"]
    assert sizes == [3, 2]


def test_a_row_that_is_read_alone_waits_for_nobody():
    """As the public row's, when it proposes an answer or writes a question out."""
    model, said = build(), []

    def work(read, name):
        rows = read.read((), [(1, 2)], room=3)
        said.extend((name, rows.extend((token,)).rows) for token in range(3))

    meeting = JointPasses()
    meeting.start(lambda: work(model, "with others"))
    meeting.start(lambda: work(model.single_row(), "alone"))
    assert [name for name, _ in said] == ["alone"] * 3
    while meeting.waiting:
        meeting.run_pass()
    wanted = model.single_row().read((), [(1, 2)], room=3)
    for token, (_, found) in enumerate(said[:3]):
        assert torch.equal(wanted.extend((token,)).rows, found)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("error", [NotEnoughMemoryError(), MemoryError(), IndexError("oh")])
def test_what_ends_a_pass_for_all_is_met_by_each_alone(monkeypatch, error):
    model, asked = build(), questions(4, 3)
    wanted = alone(model, asked)

    def fail(*_, **__):
        raise error

    monkeypatch.setattr(joint_passes, "forward_each", fail)
    assert differing(wanted, in_company(model, asked)) == 0


# ---- planted faults: each must be seen here ----


def one_history(monkeypatch):
    """Every answer attends as if it had as many tokens behind it as the first."""
    honest = Joint.__init__

    def shared(self, answers):
        for _, one in answers:
            one._used = min(one._used, answers[0][1]._used)
        honest(self, answers)

    monkeypatch.setattr(Joint, "__init__", shared)


def one_prefix(monkeypatch):
    """Every answer attends to the prefix of the first."""
    honest = Joint.__init__

    def shared(self, answers):
        for _, one in answers:
            one._shared = answers[0][1]._shared
        honest(self, answers)

    monkeypatch.setattr(Joint, "__init__", shared)


def whole_products(monkeypatch):
    """Products over all rows of a pass, without tiles."""
    monkeypatch.setattr(tiles, "cover", lambda rows, sizes: [rows])


@pytest.mark.heavy
@pytest.mark.parametrize("fault", [one_history, one_prefix, whole_products])
def test_a_planted_fault_is_seen(monkeypatch, fault):
    model, asked = build(), questions(0, 5)
    fault(monkeypatch)
    wanted = alone(model, asked)
    assert differing(wanted, in_company(model, asked)) > 0
