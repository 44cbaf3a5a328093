"""The Ray engine over a stand-in for Ray, where every call can fail in every way."""

from __future__ import annotations

import random
import sys
import traceback
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from dpicl_rag.auditing import SyntheticModel
from dpicl_rag.errors import (
    ConfigurationError,
    EngineUnavailableError,
    MissingDependencyError,
    ModelError,
)
from dpicl_rag.language_models.hardware import NotEnoughMemoryError
from dpicl_rag.language_models.ray import RayModel, ray_rows, worker_messages, worker_pool
from dpicl_rag.language_models.ray.ray_model import shares
from dpicl_rag.language_models.ray.worker import ModelShare, UnknownRowsError
from dpicl_rag.language_models.ray.worker_messages import (
    Append,
    AskContinuations,
    AskLogProbs,
    History,
    Reading,
    Rewind,
    StepPlace,
    WorkerRequest,
    message_of,
    number_of_parts,
    parts_of,
)
from dpicl_rag.mechanisms.utilities import LogProb, Surplus
from tests.support.answering import DOCUMENTS, answered
from tests.support.fake_ray import TRIES, install
from tests.support.tiny_model import build_tiny_model

SECRET = "quillon-vexatrix"
SHORT = {"max_tokens": 4, "block_tokens": 0}
KINDS = ("dies before", "dies after", "unsure before", "unsure after")


@pytest.fixture
def ray(monkeypatch):
    return install(monkeypatch)


@pytest.fixture
def spread(ray, tiny_model):
    """A model over so many workers of this process."""

    def spread(workers=2, **options):
        return RayModel(lambda: tiny_model, workers, **options)

    return spread


@pytest.fixture
def made_up():
    """A model without arithmetic; each document has its own opinion of every token."""

    def speech(text, history):
        coins = random.Random(f"{text[:20]}{history}")
        return [coins.uniform(-6, 0) for _ in range(8)]

    return SyntheticModel(8, speech)


WAYS = {
    "individual": {},
    "few left": {"strength": 3.0},
    "fixed": {"accounting": "fixed", "utility": "log_prob"},
    "blocks": {"block_tokens": 3},
    "groups": {"accounting": "fixed", "groups": 3},
    "copying": {"copy_bias": 1.0},
    "refuses": {"unsupported": "refuse"},
    "agreement": {"agreement": "auto"},
    "only agreement": {"agreement": "only", "accounting": "fixed"},
    "informed": {"knowledge": SimpleNamespace(recall=lambda question: ["The code was 441."])},
    "labels": {"labels": (" red", " blue"), "max_tokens": 32},
    "votes": {"labels": (" red", " blue"), "method": "votes", "max_tokens": 32},
    "priors": {"labels": (" red", " blue"), "method": "poe-prior", "max_tokens": 32},
}


@pytest.mark.one_in(18)
@pytest.mark.parametrize("way", WAYS)
def test_an_answer_and_its_charges_are_those_of_one_process(spread, tiny_model, tmp_path, way):
    settings = {"max_tokens": 8, **WAYS[way]}
    expected = answered(tiny_model, tmp_path, **settings)
    assert answered(spread(3), tmp_path, **settings) == expected


@pytest.mark.one_in(3)
@pytest.mark.parametrize("workers", [1, 2, 5])
def test_experts_go_on_as_in_one_process(spread, tiny_model, workers):
    own, asked = [(9, 8), (40, 41, 42), (90,), (7,) * 70], (True, True, False, True)
    rows, here = (
        model.read((1, 2, 3), [(4, 5), *own], room=8) for model in (spread(workers), tiny_model)
    )
    assert rows.continue_each((6, 7), 5, asked) == here.continue_each((6, 7), 5, asked)
    # They stand where they stood.
    assert torch.equal(rows.extend((6, 7)).public, here.extend((6, 7)).public)
    assert rows.continue_each((3,), 5, asked) == here.continue_each((3,), 5, asked)


def test_no_documents_and_fewer_than_workers(spread, tiny_model, tmp_path):
    for documents in ([], DOCUMENTS[:1]):
        expected = answered(tiny_model, tmp_path, documents=documents, **SHORT)
        assert answered(spread(4), tmp_path, documents=documents, **SHORT) == expected


@pytest.mark.one_in(15)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "settings",
    [
        {"max_tokens": 3},
        pytest.param({"max_tokens": 6, "block_tokens": 3}, marks=pytest.mark.heavy),
        {"labels": ("a", "b", "c")},
        {"max_tokens": 2, "agreement": "auto"},
    ],
    ids=["tokens", "blocks", "priors", "agreement"],
)
def test_a_fault_at_every_call_changes_nothing(ray, made_up, tmp_path, kind, settings):
    if "labels" in settings:
        settings = {**settings, "method": "poe-prior"}
    expected = answered(made_up, tmp_path, **settings)
    model = RayModel(lambda: made_up, 2)
    before = len(ray.calls)
    assert answered(model, tmp_path, **settings) == expected
    for at in range(len(ray.calls) - before):
        first = len(ray.calls)
        ray.fault = lambda number, method, at=first + at: kind if number == at else ""
        assert answered(model, tmp_path, **settings) == expected, at


@pytest.mark.heavy
def test_many_faults_change_nothing(ray, spread, tiny_model, tmp_path):
    settings = {"max_tokens": 6}
    expected, model = answered(tiny_model, tmp_path, **settings), spread()
    for seed in range(6):
        coins = random.Random(seed)
        ray.fault = lambda number, method, coins=coins: coins.choice([*([""] * 12), *KINDS])
        assert answered(model, tmp_path, **settings) == expected, seed


def test_a_worker_that_cannot_start_is_told(ray, spread):
    ray.fault = lambda number, method: "dies before"
    with pytest.raises(ModelError, match="cannot start"):
        spread()
    ray.fault = lambda number, method: "hangs"
    with pytest.raises(EngineUnavailableError):
        spread()


def test_a_move_that_is_made_twice_would_be_seen(monkeypatch, ray, made_up, tmp_path):
    """A worker notes which moves are made: without that a repeated request changes answers."""

    def careless(share, history):
        follow(share, history)
        share._rows[history.rows].moves = history.moves[:-1]

    follow, settings = ModelShare._follow, {"max_tokens": 6}
    expected = answered(made_up, tmp_path, **settings)
    model = RayModel(lambda: made_up, 2)

    def found():
        for at in range(10):
            first = len(ray.calls)
            ray.fault = lambda number, method, at=first + at: "unsure after" if number == at else ""
            yield answered(model, tmp_path, **settings)

    assert all(one == expected for one in found())
    monkeypatch.setattr(ModelShare, "_follow", careless)
    assert not all(one == expected for one in found())


def test_a_worker_that_is_left_out_would_be_seen(monkeypatch, spread, tiny_model, tmp_path):
    add_to = ray_rows.Sum.add_to
    monkeypatch.setattr(
        ray_rows.Sum, "add_to", lambda one, total: None if total.any() else add_to(one, total)
    )
    settings = {"max_tokens": 8}
    found = answered(spread(), tmp_path, **settings)
    assert found != answered(tiny_model, tmp_path, **settings)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("documents", [DOCUMENTS, DOCUMENTS[:1], []])
@pytest.mark.parametrize("fault", ["hangs", "dies before"])
def test_workers_that_do_not_come_back_end_the_answer(ray, spread, tmp_path, fault, documents):
    """With any number of documents, none too: it must not tell whether some were found."""
    whole, charged = answered(spread(), tmp_path, documents=documents, max_tokens=6)
    model, first = spread(patience=0.2), len(ray.calls)
    ray.fault = lambda number, method: fault if number >= first + 8 else ""
    ended, paid = answered(model, tmp_path, documents=documents, max_tokens=6)
    assert ended.stopped_by == "unavailable"
    assert ended.tokens < whole.tokens
    assert whole.text.startswith(ended.text.rstrip("\ufffd"))
    assert ended.rho <= whole.rho
    assert all(a <= b for a, b in zip(paid[-1], charged[-1], strict=True))


def test_a_request_that_ends_its_worker_ends_one_answer(ray, made_up, tmp_path):
    """Ray would repeat it for ever: then one unit's text would end the answers of all others."""
    expected = answered(made_up, tmp_path, **SHORT)
    model = RayModel(lambda: made_up, 2, patience=0.2)
    ray.fault = lambda number, method: (
        "dies before" if method == "run" and SECRET.encode() in ray.messages[-1] else ""
    )
    documents = [*DOCUMENTS, *(f"{SECRET} {at}" for at in range(8))]
    ended, _ = answered(model, tmp_path, documents=documents, **SHORT)
    assert ended.stopped_by == "unavailable"
    assert ray.started == 2 + 2 * TRIES + 1  # both had some of them, and one was killed
    assert answered(model, tmp_path, **SHORT) == expected


def test_an_engine_that_is_gone_says_one_sentence(ray, spread):
    model = spread(patience=0.1)
    ray.fault = lambda number, method: "dies before"
    with pytest.raises(EngineUnavailableError) as caught:
        model.read((1,), [(2,), (3, 4)], room=4)
    assert caught.value.args == EngineUnavailableError().args
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


@pytest.mark.parametrize(
    ("error", "told"),
    [(RuntimeError(SECRET), ModelError), (MemoryError(SECRET), NotEnoughMemoryError)],
)
def test_no_word_of_an_error_leaves_a_worker(monkeypatch, ray, spread, error, told):
    model = spread()

    def failing(*arguments):
        raise error

    monkeypatch.setattr(ModelShare, "_read", failing)
    with pytest.raises(told) as caught:
        model.read((1,), [(2,), (3, 4)], room=4)
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert not any(SECRET.encode() in message for message in ray.messages)


def test_a_model_that_cannot_be_loaded_is_told_at_once(ray, tiny_model):
    loaded = []

    def source():
        if len(loaded) in (0, 1):  # two workers come first here
            loaded.append(1)
            raise RuntimeError(SECRET)
        return tiny_model

    with pytest.raises(ModelError, match="must work on every node") as caught:
        RayModel(source, 2)
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_a_worker_with_other_bits_is_refused(ray, tiny_model):
    models = [tiny_model, build_tiny_model(seed=1), tiny_model]
    with pytest.raises(ModelError, match="other bits"):
        RayModel(lambda: models.pop(0), 2)


def test_a_worker_that_comes_later_with_other_bits_is_refused(ray, spread, tiny_model):
    models = [tiny_model, tiny_model, tiny_model, build_tiny_model(seed=1)]
    model = RayModel(lambda: models.pop(0), 2)
    ray.fault = lambda number, method: "dies before" if number == len(calls) else ""
    calls = list(ray.calls)
    with pytest.raises(ModelError, match="other bits"):
        model.read((1,), [(2,), (3, 4), (5, 6)], room=4)


def test_a_loaded_model_is_not_sent(ray, tiny_model):
    with pytest.raises(ConfigurationError, match="loads the model by itself"):
        RayModel(tiny_model, 1)


def test_without_a_token_nothing_is_sent(ray, monkeypatch, spread):
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    with pytest.raises(ConfigurationError, match="token"):
        spread()


def test_a_missing_package_names_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingDependencyError, match=r"dpicl-rag\[ray\]"):
        RayModel(build_tiny_model)


def test_a_server_needs_no_workers(ray):
    with pytest.raises(ConfigurationError, match="needs no workers"):
        RayModel("openai+http://127.0.0.1:1/v1#model")


def test_a_cluster_that_is_too_small_is_told(ray, spread):
    with pytest.raises(ConfigurationError, match="fewer CPUs"):
        spread(9)
    with pytest.raises(ConfigurationError, match="fewer CPUs or GPUs"):
        spread(1, gpus=1)


def test_messages_are_cut_below_what_ray_stores(monkeypatch, ray, spread, tiny_model):
    assert worker_messages.PART < 100_000
    monkeypatch.setattr(worker_messages, "PART", 1000)
    own = [tuple(random.Random(at).choices(range(256), k=20)) for at in range(300)]
    model = spread()
    rows, plain = (one.read((1,), [(2, 3), *own], room=20) for one in (model, tiny_model))
    for tokens in ((4, 5, 6), (7,)):
        step, expected = rows.extend(tokens), plain.extend(tokens)
        assert torch.equal(step.ranges(LogProb(), 1.0), expected.ranges(LogProb(), 1.0))
    assert {"hold", "more"} <= set(ray.calls)
    assert max(map(len, ray.messages)) <= worker_messages.PART


@pytest.mark.one_in(15)
@pytest.mark.parametrize("method", ["hold", "run", "more"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_part_that_is_lost_is_sent_again(monkeypatch, ray, spread, tiny_model, method, kind):
    def sums(model):
        rows = model.read((1,), [(2, 3), *((at, at, at) for at in range(30))], room=20)
        first = rows.extend((4, 5)).weighted_sum(LogProb(), 1.0)
        steps = rows.extend_each((6, 7, 8), 3)
        return [first, *(step.weighted_sum(LogProb(), 1.0) for step in steps)]

    model, expected, seen = spread(), sums(tiny_model), []
    monkeypatch.setattr(worker_messages, "PART", 200)

    def fault(number, called):
        seen.extend([called] if called == method else [])
        return kind if called == method and len(seen) % 5 == 2 and len(seen) < 30 else ""

    ray.fault = fault
    assert all(map(torch.equal, sums(model), expected))
    assert len(seen) > 5


def test_a_message_is_whole_or_nothing():
    for length in (0, 1, 20, 200_000):
        message = random.Random(length).randbytes(length)
        first, *later = parts = parts_of(message)
        assert all(len(part) <= worker_messages.PART for part in parts)
        assert number_of_parts(first) == len(parts)
        assert message_of(parts) == message
        for at in range(len(later)):
            assert message_of([first, *later[:at], *later[at + 1 :]]) is None
            assert message_of([first, *later[:at], b"", *later[at + 1 :]]) is None
    first, *_ = parts_of(b"a" * 100_000)
    _, *later = parts_of(b"b" * 100_000)
    assert message_of([first, *later]) is None


@pytest.mark.heavy  # nine megabytes are two seconds
@pytest.mark.guard
def test_a_huge_unit_is_read_as_any_other(ray, tmp_path):
    """Whatever the length of a message: who refused it would tell what one unit holds."""

    def speech(text, history):
        coins = random.Random(f"{text[:20]}{len(text)}{history}")
        return [coins.uniform(-6, 0) for _ in range(8)]

    made_up = SyntheticModel(8, speech)
    made_up.context_length = 1 << 25
    settings = {"max_tokens": 3, "unit_tokens": 1 << 24}
    for huge in ((), (f"{'o' * 99} " * 90_000,)):
        documents = [*DOCUMENTS, *huge]
        expected = answered(made_up, tmp_path, documents=documents, **settings)
        ray.messages.clear()
        model = RayModel(lambda: made_up, 2)
        assert answered(model, tmp_path, documents=documents, **settings) == expected
        assert (sum(map(len, ray.messages)) > 8 << 20) is bool(huge)


@pytest.mark.heavy
def test_what_an_expert_says_is_the_same_in_any_company(spread):
    """Documents come and go, and with them who reads which: no other one's bits move."""
    draw = random.Random(3)
    own = [tuple(draw.choices(range(256), k=draw.randint(1, 90))) for _ in range(12)]
    assert _moved(spread(3), own) == []


@pytest.mark.heavy
def test_a_worker_that_computes_otherwise_would_be_seen(monkeypatch, ray, tiny_model):
    models = [tiny_model, build_tiny_model(seed=1), tiny_model]
    monkeypatch.setattr(worker_pool.WorkerPool, "check", lambda *arguments: None)
    draw = random.Random(3)
    own = [tuple(draw.choices(range(256), k=draw.randint(1, 90))) for _ in range(12)]

    class Mixed(RayModel):
        pass

    model = Mixed(lambda: models.pop(0), 2)
    for actor in model._pool.actors:
        actor.hello.remote()
    assert _moved(model, own) != []


def _moved(model, own):
    """Whose ranges or log-probabilities change when one of the others goes."""

    def said(inputs):
        rows = model.read((1, 2), [(3, 4), *inputs], room=30)
        steps = [rows.extend(range(9)), rows.extend((5,)), *rows.extend_each((6, 7, 8), 3)]
        steps.append(rows.score([(1,), (2, 3)]))
        found = [torch.stack([s.ranges(Surplus(), 0.7), s.log_probs(1)]) for s in steps]
        return torch.stack(found)

    whole, moved = said(own), []
    for gone in range(len(own)):
        others = [at for at in range(len(own)) if at != gone]
        if not torch.equal(said([own[at] for at in others]), whole[..., others]):
            moved.append(gone)
    return moved


def test_shares_are_equal_and_mostly_stay():
    own = [(at, at + 1) for at in range(41)]
    before = shares(own, 4)
    assert sorted(at for share in before for at in share) == list(range(41))
    assert {len(share) for share in before} == {10, 11}
    assert shares([], 3) == [[], [], []]
    after = shares(own[1:], 4)
    homes = {at: worker for worker, share in enumerate(before) for at in share}
    stay = sum(homes[at + 1] == worker for worker, share in enumerate(after) for at in share)
    assert stay >= 36


def test_what_a_worker_answers_follows_from_the_request_alone(tiny_model):
    reading = Reading((1,), ((2, 3), (4, 5)), 30, 0.0, False)
    moves = (
        Append((8, 9), 1),
        Append((1, 2, 3), 3),
        Rewind(2),
        Append((6,), 1),
    )
    steps = [StepPlace(7, 0, 0), StepPlace(7, 1, 1), StepPlace(7, 3, 0)]

    def request(made, whole, asked, kept=frozenset()):
        history = History(7, moves[:made], frozenset({*kept, *asked}), reading if whole else None)
        asks = [AskLogProbs(step, 5) for step in asked]
        said = AskContinuations(7, (3,), 4, (True,))
        return WorkerRequest((*asks, said, None), (history,), frozenset({7}))

    requests = [request(1, True, steps[:1]), request(3, False, steps[:2]), request(4, True, steps)]

    def answers(share, request):
        *found, said, nothing = share.answer(request)
        assert nothing is None
        return [one.tobytes() for one in found], said

    expected = [
        answers(
            ModelShare(tiny_model),
            replace(one, histories=(replace(one.histories[0], reading=reading),)),
        )
        for one in requests
    ]
    share = ModelShare(tiny_model)
    assert repr(share) == "ModelShare(<private>)"
    with pytest.raises(UnknownRowsError):
        share.answer(requests[1])
    for order in ((0, 0, 1, 1, 2, 2), (2, 0, 2), (0, 2)):
        for at in order:
            assert answers(share, requests[at]) == expected[at]
    assert len(share._rows[7].steps) == 3
    # What was given up is computed again, where the request says what rows begin with.
    answers(share, request(4, False, steps[2:]))
    assert len(share._rows[7].steps) == 1
    with pytest.raises(UnknownRowsError):
        share.answer(request(4, False, steps))
    assert answers(share, requests[2]) == expected[2]
    rows = tiny_model.read((1,), reading.inputs, room=30)
    for move in moves:
        *_, last = move.on(rows) or [None]
    assert expected[2][0][2] == last.log_probs(5).numpy().tobytes()


def test_progress_is_told_in_tenths(spread):
    told: list[tuple[float, float | None]] = []
    spread(3).read((1,), [(2,), (3, 4), (5, 6)], room=4, on_progress=lambda *at: told.append(at))
    assert told == [(at / 10, 1.0) for at in range(1, 11)]


def test_rows_that_are_gone_are_forgotten_by_workers(ray, spread):
    model = spread(1)
    (actor,) = model._pool.actors
    rows = model.read((1,), [(2,), (3, 4)], room=9)
    steps = [rows.extend((5,)), rows.extend((6,))]
    share = actor.worker._share
    ((number, kept),) = share._rows.items()
    assert len(kept.steps) == 2
    del steps[0]
    rows.extend((7,))
    assert len(kept.steps) == 2
    del rows, steps
    model.read((1,), [(2,), (3, 4)], room=9)
    ((other, kept),) = share._rows.items()
    assert other != number
    assert not kept.steps
