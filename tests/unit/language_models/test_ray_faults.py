"""The Ray engine over a stand-in for Ray, where every call can fail in every way."""

from __future__ import annotations

import random
import sys
import traceback
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
from dpicl_rag.language_models.out_of_memory import NotEnoughMemoryError
from dpicl_rag.language_models.ray import RayModel, worker, worker_pool
from dpicl_rag.language_models.ray.commands import Append, Begin, Do, Reading, Rewind
from dpicl_rag.language_models.ray.ray_model import shares
from dpicl_rag.language_models.ray.shard import Shard
from dpicl_rag.language_models.ray.step_requests import Summed
from dpicl_rag.mechanisms.step import DenseStep
from dpicl_rag.mechanisms.utilities import LogProb, Surplus
from tests.support.answering import DOCUMENTS, answered
from tests.support.fake_ray import install
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


@pytest.mark.parametrize("way", WAYS)
def test_an_answer_and_its_charges_are_those_of_one_process(spread, tiny_model, tmp_path, way):
    settings = {"max_tokens": 8, **WAYS[way]}
    expected = answered(tiny_model, tmp_path, **settings)
    assert answered(spread(3), tmp_path, **settings) == expected


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


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "settings",
    [
        {"max_tokens": 5},
        {"max_tokens": 6, "block_tokens": 3},
        {"labels": ("a", "b", "c")},
        {"max_tokens": 4, "agreement": "auto"},
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
    """Numbers keep a repeated message from being done again: without them answers change."""

    def careless(shard, act):
        shard._made[act.rows] = act.number
        done(shard, act)

    done, settings = Shard._do, {"max_tokens": 6}
    expected = answered(made_up, tmp_path, **settings)
    model = RayModel(lambda: made_up, 2)
    # The reply is not kept, and the message comes again.
    run = worker.Worker.run
    monkeypatch.setattr(
        worker.Worker, "run", lambda one, last: one._replies.clear() or run(one, last)
    )

    def found():
        for at in range(10):
            first = len(ray.calls)
            ray.fault = lambda number, method, at=first + at: "unsure after" if number == at else ""
            yield answered(model, tmp_path, **settings)

    assert all(one == expected for one in found())
    monkeypatch.setattr(Shard, "_do", careless)
    assert not all(one == expected for one in found())


def test_a_worker_that_is_left_out_would_be_seen(monkeypatch, spread, tiny_model, tmp_path):
    take = Summed.take
    monkeypatch.setattr(Summed, "take", lambda one, found: take(one, [found[0], None]))
    settings = {"max_tokens": 8}
    found = answered(spread(), tmp_path, **settings)
    assert found != answered(tiny_model, tmp_path, **settings)


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

    monkeypatch.setattr(Shard, "_read", failing)
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
    assert worker.PART + 12 < 100_000
    monkeypatch.setattr(worker, "PART", 1000)
    own = [tuple(random.Random(at).choices(range(256), k=20)) for at in range(300)]
    model = spread()
    rows, plain = (one.read((1,), [(2, 3), *own], room=20) for one in (model, tiny_model))
    for tokens in ((4, 5, 6), (7,)):
        step, expected = rows.extend(tokens), plain.extend(tokens)
        assert torch.equal(step.ranges(LogProb(), 1.0), expected.ranges(LogProb(), 1.0))
    assert any(method == "part" for method in ray.calls)
    assert max(map(len, ray.messages)) <= worker.PART + 12


@pytest.mark.parametrize("method", ["part", "more"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_part_that_is_lost_is_sent_again(monkeypatch, ray, spread, tiny_model, method, kind):
    monkeypatch.setattr(worker, "PART", 200)
    model, seen = spread(), []

    def fault(number, called):
        seen.extend([called] if called == method else [])
        return kind if called == method and len(seen) == 2 else ""

    ray.fault = fault
    inputs = [(2, 3), *((at, at, at) for at in range(30))]
    step = model.read((1,), inputs, room=20).extend((4, 5))
    expected = tiny_model.read((1,), inputs, room=20).extend((4, 5))
    way = LogProb(), 1.0
    assert torch.equal(step.weighted_sum(*way), expected.weighted_sum(*way))
    assert len(seen) > 2 or kind == "unsure after"


def test_what_an_expert_says_is_the_same_in_any_company(spread):
    """Documents come and go, and with them who reads which: no other one's bits move."""
    draw = random.Random(3)
    own = [tuple(draw.choices(range(256), k=draw.randint(1, 90))) for _ in range(12)]
    assert _moved(spread(3), own) == []


def test_a_worker_that_computes_otherwise_would_be_seen(monkeypatch, ray, tiny_model):
    models = [tiny_model, build_tiny_model(seed=1), tiny_model]
    monkeypatch.setattr(worker_pool.WorkerPool, "check", lambda *arguments: None)
    draw = random.Random(3)
    own = [tuple(draw.choices(range(256), k=draw.randint(1, 90))) for _ in range(12)]

    class Mixed(RayModel):
        pass

    model = Mixed(lambda: models.pop(0), 2)
    for actor in model._pool._actors:
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


def test_a_shard_makes_each_move_once_and_forgets(tiny_model):
    shard = Shard(tiny_model)
    reading = Reading((1,), ((2, 3), (4, 5)), 30, 0.0, False)
    begun = (Begin(7, reading), Do(7, 0, Append((8, 9), 1)))
    for _ in range(2):
        shard.act(begun)
        shard.act((*begun, Do(7, 1, Append((1, 2, 3), 3)), Do(7, 2, Rewind(2))))
    assert shard._made == {7: 3}
    assert len(shard._steps) == 4
    assert repr(shard) == "Shard(<private>)"
    rows = tiny_model.read((1,), reading.inputs, room=30)
    rows.extend((8, 9))
    rows.extend_each((1, 2, 3), 3)
    rows.rewind(2)
    expected = rows.extend((6,))
    shard.act((Do(7, 3, Append((6,), 1)),))
    (last,) = (step for place, step in shard._steps.items() if place.move == 3)
    assert isinstance(expected, DenseStep)
    assert torch.equal(last.rows, expected.rows)


def test_progress_is_told_in_tenths(spread):
    told: list[tuple[float, float | None]] = []
    spread(3).read((1,), [(2,), (3, 4), (5, 6)], room=4, on_progress=lambda *at: told.append(at))
    assert told == [(at / 10, 1.0) for at in range(1, 11)]


def test_rows_that_are_gone_are_forgotten_by_workers(ray, spread):
    model = spread(1)
    (actor,) = model._pool._actors
    rows = model.read((1,), [(2,), (3, 4)], room=9)
    steps = [rows.extend((5,)), rows.extend((6,))]
    shard = actor._worker._shard
    assert len(shard._steps) == 2
    del steps[0]
    rows.extend((7,))
    assert len(shard._steps) == 2
    del rows, steps
    model.read((1,), [(2,), (3, 4)], room=9)
    assert len(shard._rows) == 1
    assert not shard._steps
