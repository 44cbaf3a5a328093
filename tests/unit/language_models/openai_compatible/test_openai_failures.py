"""A server that fails: asked again, then the answer ends. What it says in words comes nowhere."""

from __future__ import annotations

import itertools
import logging
import math
import os
import random
import signal
import threading
import time
import traceback
import warnings
from collections import Counter

import pytest

from dpicl_rag import Document, EngineUnavailableError, Ledger, PrivateContextLLM
from dpicl_rag.language_models.openai_compatible import http_client
from dpicl_rag.language_models.sentence_end import Continuation
from dpicl_rag.mechanisms.randomness import NotPrivateWarning
from dpicl_rag.mechanisms.utilities import Surplus
from tests.support.fake_server import FAULTS, SECRET
from tests.support.swift_clock import SwiftClock

# What another try cannot change.
FOR_GOOD = {"refused: a prompt is too long", "redirected"}
PASSING = [fault for fault in FAULTS if fault not in FOR_GOOD]
STUCK = {"silent", "dripping"}

DOCUMENTS = [Document(f"The code is 4471, says {name}.", name) for name in ("Ida", "Jon", "Kim")]
QUESTION = "What is the code?"
# One token costs (strength * clip)^2 / 8 of rho.
FIXED = {"accounting": "fixed", "utility": "log_prob", "clip": 4.0, "strength": 1 / 16}
TOKEN = 1 / 128


@pytest.fixture
def ledger(tmp_path):
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        ledger.set_budget(corpus="default", rho=math.inf)
        yield ledger


@pytest.fixture
def endless(monkeypatch, tiny_model):
    """No token ends an answer."""
    monkeypatch.setattr(tiny_model.tokenizer, "stop_tokens", frozenset())


def private(model, ledger=None, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivateWarning)
        return PrivateContextLLM(
            model, ledger=ledger, seed=1, max_tokens=4, unsupported="ignore", **settings
        )


def status(ledger):
    (found,) = (s for s in ledger.status() if s.kind == "corpus")
    return found


def rows(model):
    return model.read((9, 9), [(1, 2), (3,), (4, 5)], room=9)


@pytest.mark.parametrize("fault", [fault for fault in PASSING if fault not in STUCK])
def test_what_passes_is_asked_again_and_leaves_no_trace(serve, fault):
    fake, model = serve()
    expected = rows(model).extend((7,))
    start = len(fake.bodies)
    fake.fault = lambda number: fault if number - start in (1, 2, 4) else None
    found = rows(model).extend((7,))
    assert found.rows.equal(expected.rows)
    assert fake.faults == [fault] * 3


@pytest.mark.parametrize("fault", sorted(FOR_GOOD))
def test_what_is_refused_is_not_asked_again(serve, fault):
    fake, model = serve(fault=lambda number: fault)
    with pytest.raises(EngineUnavailableError):
        rows(model).extend((7,))
    assert len(fake.bodies) == 1  # of the public row


@pytest.mark.one_in(3)
@pytest.mark.parametrize("fault", PASSING)
def test_what_does_not_pass_ends_at_the_deadline(serve, fault):
    _, model = serve(fault=lambda number: fault)
    with pytest.raises(EngineUnavailableError) as caught:
        rows(model).extend((7,))
    assert_silent(caught.value)


HOSTILE = 77


@pytest.mark.one_in(3)
@pytest.mark.parametrize("fault", FAULTS)
def test_what_befalls_one_row_alone_is_its_own_silence(serve, monkeypatch, fault):
    """A document may make a server fail over its prompt, and for ever."""
    monkeypatch.setattr(http_client, "time", SwiftClock())
    fake, model = serve()
    type(model._completions.server).patience = 2.0 if fault in STUCK else 60.0
    others = [(3,), (4, 5)]
    without = model.read((9, 9), [(1, 2), *others], room=9)
    fake.hostile = lambda prompt: fault if HOSTILE in prompt else None
    among = model.read((9, 9), [(1, 2), others[0], (HOSTILE, 8), others[1]], room=9)
    for ask in (lambda rows: rows.extend((7,)), lambda rows: rows.score([(5,), (6, 7)])):
        found, expected = ask(among), ask(without)
        assert found.rows[[0, 1, 3]].equal(expected.rows)  # the public row is the first
        assert found.ranges(Surplus(), 1.0).tolist()[1] == 0.0
    asked = len(fake.faults)
    found = among.continue_each((6,), 3, [True] * 3)
    assert found[::2] == without.continue_each((6,), 3, [True] * 2)
    assert found[1] == Continuation((), ())
    assert len(fake.faults) == asked  # once for the whole answer


def test_a_row_that_a_server_fails_over_says_nothing_by_itself_either(serve, monkeypatch):
    monkeypatch.setattr(http_client, "time", SwiftClock())
    fake, model = serve()
    fake.hostile = lambda prompt: "busy" if HOSTILE in prompt else None
    rows = model.read((9, 9), [(1, 2), (3,), (HOSTILE, 8)], room=9)
    said = rows.continue_each((6,), 3, [True] * 2)
    assert said[0].tokens
    assert said[1] == Continuation((), ())


def assert_silent(error):
    """One fixed message, and no error of the client beside it."""
    assert str(error) == str(EngineUnavailableError())
    assert error.__cause__ is error.__context__ is None
    assert SECRET not in "".join(traceback.format_exception(error))


def test_a_failed_step_leaves_the_rows_where_they_were(serve):
    fake, model = serve()
    whole = rows(model)
    whole.extend((7,))
    fake.fault = lambda number: "refused: a prompt is too long"
    with pytest.raises(EngineUnavailableError):
        whole.extend((8,))
    fake.fault = lambda number: None
    again = rows(model)
    again.extend((7,))
    assert whole.extend((8,)).rows.equal(again.extend((8,)).rows)


@pytest.mark.one_in(3)
@pytest.mark.usefixtures("endless")
@pytest.mark.parametrize("fault", FAULTS)
def test_an_answer_ends_with_what_it_had(serve, ledger, fault):
    fake, model = serve()
    llm = private(model, ledger, **FIXED)
    for good in (0, 3):  # requests; the public row and the experts make two for each token
        start = len(fake.bodies)
        before = status(ledger).spent
        fake.fault = lambda n, last=start + good: fault if n > last else None
        answer = llm.answer(QUESTION, DOCUMENTS)
        assert answer.stopped_by == "unavailable"
        assert answer.tokens == good // 2
        assert status(ledger).spent - before == pytest.approx(answer.tokens * TOKEN, abs=1e-12)
        assert status(ledger).reserved == 0


def test_a_label_is_refused_with_the_one_message(serve, ledger):
    _, model = serve(fault=lambda number: "busy")
    with pytest.raises(EngineUnavailableError) as caught:
        private(model, ledger).classify(QUESTION, DOCUMENTS, ["yes", "no"])
    assert_silent(caught.value)
    assert status(ledger).spent == status(ledger).reserved == 0


@pytest.mark.usefixtures("endless")
def test_a_server_that_comes_back_goes_on_as_if_it_had_stayed(serve):
    fake, model = serve()
    expected = private(model).answer(QUESTION, DOCUMENTS)
    stream, pieces = private(model).stream(QUESTION, DOCUMENTS), []
    pieces.append(next(stream))
    fake.kill()
    back = threading.Timer(0.2, fake.start)
    back.start()
    pieces += stream
    back.join()
    assert stream.answer == expected
    assert expected.stopped_by == "length"


@pytest.mark.usefixtures("endless")
def test_no_word_of_the_server_and_no_prompt_is_logged_or_told(serve, caplog, capfd):
    caplog.set_level(logging.NOTSET)
    for name in ("httpx", "httpcore", "httpcore.http11", "httpcore.connection", "asyncio"):
        logging.getLogger(name).setLevel(logging.DEBUG)
    told = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fake, model = serve()
        for fault in FAULTS:
            start = len(fake.bodies)
            fake.fault = lambda n, a=start + 3, fault=fault: fault if n > a else None
            answer = private(model).answer(QUESTION, DOCUMENTS)
            told.append(repr(answer))
            told += [repr(model), repr(rows(model)), repr(vars(model._completions.server))]
            try:
                private(model).classify(QUESTION, DOCUMENTS, ["yes", "no"])
            except EngineUnavailableError as error:
                told += traceback.format_exception(error)
    told += [str(warning.message) for warning in caught]
    told += [record.getMessage() for record in caplog.records]
    told += [str(record.args) for record in caplog.records]
    told += [str(record.exc_info) for record in caplog.records]
    told += capfd.readouterr()
    everything = "\n".join(told)
    assert SECRET not in everything
    assert "4471" not in everything
    assert "HTTP" not in "\n".join(record.getMessage() for record in caplog.records)


@pytest.mark.heavy
@pytest.mark.usefixtures("endless")
@pytest.mark.parametrize("accounting", ["fixed", "individual"])
def test_faults_at_random_lose_no_charge_and_hang_no_answer(serve, ledger, accounting):
    settings = FIXED if accounting == "fixed" else {"accounting": "individual", "agreement": "off"}
    run_faults(serve, ledger, settings, answers=10, seed=1)


@pytest.mark.heavy
@pytest.mark.stress
@pytest.mark.usefixtures("endless")
@pytest.mark.parametrize("accounting", ["fixed", "individual"])
def test_many_faults_and_kills(serve, ledger, accounting):
    settings = FIXED if accounting == "fixed" else {"accounting": "individual", "agreement": "off"}
    run_faults(serve, ledger, settings, answers=50, seed=2)


def die(fake, after):
    """Kill a server, if there is a time after which, and let it come back."""
    if after:
        time.sleep(after)
        fake.kill()
        time.sleep(0.05)
        fake.start()


def run_faults(serve, ledger, settings, answers, seed):
    """Answers while the server fails, is killed and comes back; what is spent is what was drawn."""
    coins = random.Random(seed)
    fake, model = serve()
    type(model._completions.server).patience = 3.0
    llm = private(model, ledger, **settings)
    whole = llm.answer(QUESTION, DOCUMENTS)
    spent, ends = whole.rho, Counter()
    assert whole.tokens == 4
    for _ in range(answers):
        first, kind = len(fake.bodies) + coins.randrange(1, 9), coins.choice(FAULTS)
        last = first + coins.choice([0, 0, math.inf])
        fake.fault = lambda n, a=first, b=last, kind=kind: kind if a <= n <= b else None
        kill = coins.random() < 0.3
        killer = threading.Thread(target=die, args=(fake, coins.uniform(0, 0.1) * kill))
        killer.start()
        # Another corpus each time, with a unit more or less.
        with llm.stream(QUESTION, coins.sample(DOCUMENTS, coins.randint(1, 3))) as stream:
            list(stream)
        killer.join()
        answer = stream.answer
        assert (answer.tokens == 4) == (answer.stopped_by == "length")
        spent += answer.rho
        if settings == FIXED:
            assert answer.rho == pytest.approx(answer.tokens * TOKEN)
        assert status(ledger).spent == pytest.approx(spent, abs=1e-6)
        assert status(ledger).reserved == 0
        ends[answer.stopped_by] += 1
    assert ends.keys() == {"unavailable", "length"}


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_while_a_server_is_silent_ends_the_wait(serve, monkeypatch):
    _, model = serve(fault=lambda number: "silent")
    monkeypatch.setattr(type(model._completions.server), "_deadline", 60.0)
    threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        rows(model).extend((7,))


def test_many_threads_ask_at_once(serve):
    _, model = serve()
    expected = rows(model).extend((7,)).rows
    found = []

    def ask():
        found.append(rows(model).extend((7,)).rows)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert all(one.equal(expected) for one in found)


def test_a_forked_child_asks_by_itself(serve):
    _, model = serve()
    prompts = [(1, 2, 3)]
    expected = model._completions.public(prompts)
    child = os.fork()
    if child == 0:
        signal.alarm(30)  # rather than hang
        os._exit(0 if model._completions.public(prompts) == expected else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert model._completions.public(prompts) == expected


@pytest.mark.heavy
def test_no_more_than_a_public_number_of_requests_is_in_flight(serve):
    fake, model = serve()
    here, most, lock = itertools.count(1), [0], threading.Lock()
    choices, busy = fake.choices, [0]

    def counted(body):
        with lock:
            busy[0] += 1
            most[0] = max(most[0], busy[0])
            next(here)
        yield from choices(body)
        with lock:
            busy[0] -= 1

    fake.choices = counted
    model.read((9,), [(1,), *((2, at % 250) for at in range(600))], room=2).extend((5,))
    assert 1 <= most[0] <= 4
