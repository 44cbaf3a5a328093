"""Over HTTP neighbouring corpora differ in nothing but the answer, and no secret leaves.

A whole day at a server is recorded: every status, header and body in their order, refusals, the
end of a budget, metrics, the log, and all that the process logs, warns of and prints.
"""

from __future__ import annotations

import logging
import re
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from dpicl_rag import Document, Ledger
from dpicl_rag.auditing.channels import Channels, differences, neighbours_by_channel
from dpicl_rag.corpora import Corpus
from dpicl_rag.retrieval import ThresholdRetriever
from dpicl_rag.server import delivery, served_request
from dpicl_rag.server.admission import ServerLimits
from dpicl_rag.server.api_keys import KeyFile
from dpicl_rag.server.app import create_app
from dpicl_rag.server.request_log import RequestLog
from dpicl_rag.server.service import ServedCorpus, Service
from tests.integrations.leak_probe import SECRET, LeakProbe, SpyModel
from tests.integrations.test_neighbours import SameAnswer
from tests.support.bucket_embedder import BucketEmbedder
from tests.support.failing_engine import FailingEngine
from tests.unit.server.conftest import running

DOCUMENTS = [Document(f"The patient has zingpocket {n}.", f"unit {n}") for n in range(3)]
QUESTION = "What is the disease?"

# What differs from request to request: identifiers, moments, ports.
_CHANCE = re.compile(
    r"(?:chatcmpl|resp|msg)[-_][0-9a-f]{24}|(?<=\"created\":)\s?\d{10}"
    r"|(?<=\"created_at\":)\s?\d{10}|127\.0\.0\.1:\d+|(?<='127.0.0.1', )\d+"
    r"|\bfd=\d+|\bdpk-[\w-]{43}"
)


KINDS = [
    pytest.param(documents, id=kind, marks=[pytest.mark.heavy] if number else [])
    for number, (kind, documents) in enumerate(neighbours_by_channel(DOCUMENTS))
]
"""Corpora beside ``DOCUMENTS``. One is enough to see a fault."""


@pytest.fixture(scope="module", autouse=True)
def no_word_on_reading():
    """How far reading is follows from time, which no two runs have in common."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(served_request, "TELLING", 600.0)
        yield


class Comparison(Channels):
    """Channels of a server; what the test's own client logs is left out."""

    def see(self, place, value):
        if place.startswith("log http"):
            return
        super().see(place, _CHANCE.sub("*", value if isinstance(value, str) else repr(value)))


def day(server, key, others, channels, brief=False):
    """Ask a server all kinds of things, and record what it says in its order.

    A brief day ends after three answers, which is where a planted fault shows.
    """
    said = []

    def visit(method, path, who=key, **more):
        headers = {"Authorization": f"Bearer {who}"} if who else {}
        answer = server.client.request(method, path, headers=headers, **more)
        given = {name: text for name, text in answer.headers.items() if name != "date"}
        said.append(answer.status_code)
        channels.see(f"{path} {len(said)}", f"{answer.status_code} {given} {answer.text}")
        return answer

    def ask(question=QUESTION, who=key, **more):
        messages = [{"role": "user", "content": question}]
        body = {"model": "notes", "messages": messages, **more}
        return visit("POST", "/v1/chat/completions", who, json=body)

    def look():
        for path in ("/v1/models", "/v1/budget", "/v1/memory", "/v1/caller", "/ready", "/metrics"):
            visit("GET", path)
        visit("GET", "/v1/owner")

    look()
    ask()
    ask(stream=True, stream_options={"include_usage": True})
    ask(dpicl={"fresh": True})
    if brief:
        look()
        channels.see("order", said)
        return said
    for stream in (False, True):
        turns = [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": "None."}]
        turns.append({"role": "user", "content": f"And who has it? {stream}"})
        visit("POST", "/v1/responses", json={"model": "notes", "input": turns, "stream": stream})
        ask(messages=turns, stream=stream)
    ask("Who has zingpocket 1?", temperature=1, max_tokens=2)
    ask(model="public")
    ask(model="payroll")
    visit("GET", "/v1/models/notes")
    visit("GET", "/v1/models/payroll")
    ask(n=2)
    ask("long " * 4000)
    visit("POST", "/v1/chat/completions", content=b"{")
    visit("GET", "/v1/models", None)
    for number in range(3):  # the second key's budget ends, then its questions of the minute
        ask(f"Who has zingpocket {number + 2}?", others[0], stream=number == 1)
    look()
    server.service._model.left = 3  # the engine stops answering
    ask("Is it mended?")
    ask("Is it mended?", stream=True)
    look()
    channels.see("order", said)
    return said


@contextmanager
def opened(folder: Path, documents, model):
    """A server over a stored corpus, with two keys."""
    folder.mkdir(mode=0o700)
    ledger = Ledger(folder / "ledger.sqlite")
    ledger.set_budget(corpus="notes", rho=100.0)
    ledger.set_budget(caller="bob", rho=1.0)
    corpus = Corpus.create("notes", folder / "store", embedder=BucketEmbedder())
    corpus.add(documents)
    keys = KeyFile(folder / "keys.sqlite")
    mine, others = keys.add("ann", role="owner"), [keys.add("bob")]
    [token] = model.tokenizer.encode("e")
    service = Service(
        FailingEngine(model, 10**9),
        {"notes": ServedCorpus(ThresholdRetriever(corpus, -1.0), {"max_tokens": 4})},
        ledger,
        memory=folder / "memory.sqlite",
        embedder=BucketEmbedder(),
        randomness=SameAnswer(token),
    )
    service.texts = [document.text for document in documents]  # for planted faults
    log = RequestLog(sys.stderr, questions=True)
    app = create_app(service, keys, ServerLimits(a_minute=60), log)
    service.count = app.state.parts.metrics.request
    try:
        with running(app, service) as server:
            yield server, mine, others
    finally:
        corpus.close()


def told(folder: Path, documents, model, brief=False) -> Comparison:
    channels = Comparison(folder)
    with channels.listening(), opened(folder, documents, model) as (server, key, others):
        day(server, key, others, channels, brief)
    return channels


@pytest.fixture(scope="module")
def base(no_word_on_reading, tiny_model, tmp_path_factory):
    """What is told of the corpus beside which the others are."""
    return told(tmp_path_factory.mktemp("base") / "day", DOCUMENTS, tiny_model)


@pytest.mark.heavy
def test_the_day_has_all_kinds_of_answers(base):
    assert {"order", "stderr"} <= base.told.keys()
    [said] = base.told["order"]
    assert {"200", "400", "401", "404", "429"} <= set(re.findall(r"\d+", said)), said


@pytest.mark.parametrize("documents", KINDS)
def test_neighbours_differ_in_nothing_but_the_answer(documents, base, tiny_model, tmp_path):
    other = told(tmp_path / "other", documents, tiny_model)
    if differences(base, other):  # the first day also has what a process tells only once
        base = told(tmp_path / "base", DOCUMENTS, tiny_model)
    assert not {place: show(base, other, place) for place in differences(base, other)}


def show(one, other, place):
    return [
        [text[:600] for text in (a.told[place] - b.told[place])]
        for a, b in ((one, other), (other, one))
    ]


def a_header_with_a_count(monkeypatch):
    spent, begin, counts = delivery.spent, Service.stream, []

    def stream(self, *asked):
        counts.append(len(self.texts))
        return begin(self, *asked)

    monkeypatch.setattr(Service, "stream", stream)
    monkeypatch.setattr(delivery, "spent", lambda answer: {**spent(answer), "X-Units": str(counts)})


def a_log_line_with_the_documents(monkeypatch):
    begin = Service.stream

    def stream(self, *asked):
        logging.getLogger("some.library").debug("found %s", self.texts)
        return begin(self, *asked)

    monkeypatch.setattr(Service, "stream", stream)


def a_status_that_follows_the_documents(monkeypatch):
    begin = Service.stream

    def stream(self, *asked):
        if len(self.texts) > 3:
            raise RuntimeError
        return begin(self, *asked)

    monkeypatch.setattr(Service, "stream", stream)


def a_metric_of_the_search(monkeypatch):
    begin = Service.stream

    def stream(self, *asked):
        self.count("notes", len(self.texts))
        return begin(self, *asked)

    monkeypatch.setattr(Service, "stream", stream)


@pytest.mark.parametrize(
    ("fault", "place"),
    [
        (a_header_with_a_count, "/v1/chat/completions 8"),
        pytest.param(a_log_line_with_the_documents, "log some.library", marks=pytest.mark.heavy),
        pytest.param(a_status_that_follows_the_documents, "order", marks=pytest.mark.heavy),
        pytest.param(a_metric_of_the_search, "/metrics 16", marks=pytest.mark.heavy),
    ],
)
def test_the_comparison_sees_planted_faults(tiny_model, tmp_path, monkeypatch, fault, place):
    fault(monkeypatch)
    base = told(tmp_path / "base", DOCUMENTS, tiny_model, brief=True)
    more = [*DOCUMENTS, Document("The patient has zingpocket 4.", "one more")]
    assert place in differences(base, told(tmp_path / "more", more, tiny_model, brief=True))


def probed(folder: Path, model):
    probe = LeakProbe()
    documents = [Document(f"The patient {SECRET} has zingpocket {n}.", f"{n}") for n in range(3)]
    spy = SpyModel(model)
    with probe.listening(), opened(folder, documents, spy) as (server, key, others):
        assert 200 in day(server, key, others, probe)
    assert any(SECRET in prompt for prompt in spy.prompts)
    return probe


def test_a_secret_reaches_the_model_and_nothing_else(tiny_model, tmp_path):
    assert probed(tmp_path / "day", tiny_model).findings == []


@pytest.mark.heavy
def test_the_probe_sees_a_log_line_with_the_documents(tiny_model, tmp_path, monkeypatch):
    a_log_line_with_the_documents(monkeypatch)
    assert "log some.library" in probed(tmp_path / "day", tiny_model).findings
