"""One call for each prompt: all reply, or none, and nothing of a prompt comes anywhere else."""

from __future__ import annotations

import asyncio
import errno
import logging
import random
import threading
import urllib.error
from collections import Counter
from contextlib import nullcontext
from contextvars import ContextVar

import aiohttp
import httpx
import openai
import pytest
import requests
from opentelemetry import context, trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from dpicl_rag.auditing.channels import Channels, chain_of
from dpicl_rag.errors import ConfigurationError, EngineUnavailableError, ModelError
from dpicl_rag.language_models.readers import concurrent_reader, quiet_calls
from dpicl_rag.language_models.readers.base import CallFailure, Reader
from dpicl_rag.language_models.readers.concurrent_reader import PUBLIC_PROMPT, ConcurrentReader
from dpicl_rag.language_models.readers.reply_cache import CHARACTERS

SECRET = "quillon-vexatrix"
PROMPTS = [f"{SECRET} {number}" for number in range(23)]
REQUEST = httpx.Request("POST", f"http://host/{SECRET}")


def reader(call, **options):
    return ConcurrentReader(call, "made up", **{"backoff": 0.001, **options})


def answering(error_of, reply=str.upper):
    """A call that replies, or raises what ``error_of`` gives for a private prompt."""

    def call(prompt):
        error = None if prompt == PUBLIC_PROMPT else error_of(prompt)
        if error is not None:
            raise error
        return reply(prompt)

    return call


def workers():
    return [thread for thread in threading.enumerate() if thread.name == "dpicl-rag reader"]


def join_all():
    for thread in workers():
        thread.join(30)


def status_error(status, kind=openai.APIStatusError):
    response = httpx.Response(status, request=REQUEST, text=SECRET)
    if kind is openai.APIStatusError:
        return openai.APIStatusError(SECRET, response=response, body={"message": SECRET})
    if kind is httpx.HTTPStatusError:
        return httpx.HTTPStatusError(SECRET, request=REQUEST, response=response)
    if kind is requests.HTTPError:
        found = requests.Response()
        found.status_code = status
        return requests.HTTPError(SECRET, response=found)
    if kind is urllib.error.HTTPError:
        return urllib.error.HTTPError(SECRET, status, SECRET, None, None)  # type: ignore[arg-type]
    raise AssertionError(kind)


STATUS_ERRORS = [
    openai.APIStatusError,
    httpx.HTTPStatusError,
    requests.HTTPError,
    urllib.error.HTTPError,
]


def wrapped(error):
    """An error of a library that says something of its own about one of its client."""
    try:
        try:
            raise error
        except type(error) as caught:
            raise ValueError(SECRET) from caught
    except ValueError as found:
        return found


PASSING = {
    "time-out": lambda: TimeoutError(SECRET),
    "reset": lambda: ConnectionResetError(SECRET),
    "httpx": lambda: httpx.ReadTimeout(SECRET, request=REQUEST),
    "openai, no connection": lambda: openai.APIConnectionError(message=SECRET, request=REQUEST),
    "openai, time-out": lambda: openai.APITimeoutError(request=REQUEST),
    "requests": lambda: requests.ConnectionError(SECRET),
    "requests, time-out": lambda: requests.Timeout(SECRET),
    "aiohttp": lambda: aiohttp.ServerDisconnectedError(SECRET),
    "no route": lambda: OSError(errno.EHOSTUNREACH, SECRET),
    "cancelled": lambda: asyncio.CancelledError(SECRET),
    "no memory": lambda: MemoryError(SECRET),
    "a client of its own": lambda: type("RateLimitError", (Exception,), {})(SECRET),
    "wrapped": lambda: wrapped(ConnectionResetError(SECRET)),
    **{
        f"{status}": lambda status=status: status_error(status)
        for status in (408, 409, 425, 429, 500, 503, 529)
    },
    **{
        f"{kind.__module__} 503": lambda kind=kind: status_error(503, kind)
        for kind in STATUS_ERRORS
    },
}
OWN = {
    "value": lambda: ValueError(SECRET),
    "file name": lambda: OSError(errno.ENAMETOOLONG, SECRET),
    "exit": lambda: SystemExit(404),
    "interrupt": lambda: KeyboardInterrupt(),
    "recursion": lambda: RecursionError(SECRET),
    "content filter": lambda: openai.ContentFilterFinishReasonError(),
    "wrapped": lambda: wrapped(status_error(400)),
    **{f"{status}": lambda status=status: status_error(status) for status in (400, 413, 422)},
    **{
        f"{kind.__module__} 400": lambda kind=kind: status_error(400, kind)
        for kind in STATUS_ERRORS
    },
}


def test_it_is_a_reader():
    found = reader(str.upper)
    assert isinstance(found, Reader)
    assert found.fingerprint == "made up"
    assert repr(found) == "ConcurrentReader(made up)"


@pytest.mark.parametrize("concurrency", [1, 3, 8, 100])
@pytest.mark.parametrize("count", [0, 1, 2, 23])
def test_replies_come_in_the_order_of_the_prompts(concurrency, count):
    coins = random.Random(count)
    waits = {prompt: coins.random() / 500 for prompt in PROMPTS}
    pause = threading.Event()

    def call(prompt):
        pause.wait(waits.get(prompt, 0))
        return prompt.upper()

    prompts = PROMPTS[:count]
    assert reader(call, concurrency=concurrency).replies(prompts) == [p.upper() for p in prompts]


def test_as_many_calls_at_once_as_are_allowed_and_no_more():
    running, most, lock = 0, 0, threading.Lock()
    together = threading.Barrier(4)

    def call(prompt):
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        if prompt != PUBLIC_PROMPT:
            together.wait(10)
        with lock:
            running -= 1
        return prompt

    assert reader(call, concurrency=4).replies(PROMPTS[:20]) == PROMPTS[:20]
    assert most == 4


@pytest.mark.parametrize("name", PASSING)
def test_what_passes_is_asked_again(name):
    seen = Counter()
    lock = threading.Lock()

    def passing(prompt):
        with lock:
            seen[prompt] += 1
            return PASSING[name]() if seen[prompt] < 3 and prompt in PROMPTS[2:5] else None

    assert reader(answering(passing)).replies(PROMPTS) == [p.upper() for p in PROMPTS]
    assert seen == {prompt: 3 if prompt in PROMPTS[2:5] else 1 for prompt in PROMPTS}


@pytest.mark.usefixtures("swift")
@pytest.mark.parametrize("name", PASSING)
def test_what_befalls_one_prompt_alone_is_no_reply_and_changes_no_other(name):
    """A hostile document may make a provider fail in any way, and for ever."""
    alone = answering(lambda prompt: PASSING[name]() if prompt == PROMPTS[7] else None)
    expected = [prompt.upper() for prompt in PROMPTS]
    assert reader(alone).replies([*PROMPTS[:7], *PROMPTS[8:]]) == [*expected[:7], *expected[8:]]
    expected[7] = ""
    assert reader(alone).replies(PROMPTS) == expected


@pytest.mark.usefixtures("swift")
@pytest.mark.parametrize("name", PASSING)
def test_what_befalls_the_public_prompt_too_ends_all_of_them(name):
    down = threading.Event()

    def call(prompt):
        if down.is_set() and prompt in (PROMPTS[7], PUBLIC_PROMPT):
            raise PASSING[name]()
        return prompt

    found = reader(call)
    found.replies([])
    down.set()
    with pytest.raises(EngineUnavailableError) as caught:
        found.replies(PROMPTS)
    assert_nothing_told(caught.value)


@pytest.mark.usefixtures("swift")
def test_no_time_passes_for_a_prompt_while_the_provider_is_down():
    """All that were on their way when it went have their reply when it is back."""
    tries = Counter()
    lock = threading.Lock()

    def call(prompt):
        with lock:
            tries[prompt] += 1
            fails = tries[prompt] < 60 if prompt != PUBLIC_PROMPT else tries[prompt] % 5
        if fails and ready:
            raise ConnectionResetError
        return prompt

    ready = False
    found = reader(call)
    found.replies([])
    ready = True
    assert found.replies(PROMPTS[:1]) == PROMPTS[:1]


@pytest.mark.parametrize("name", OWN)
def test_what_is_one_prompts_own_is_no_reply_and_changes_no_other(name):
    alone = answering(lambda prompt: OWN[name]() if prompt == PROMPTS[7] else None)
    expected = [prompt.upper() for prompt in PROMPTS]
    expected[7] = ""
    assert reader(alone).replies(PROMPTS) == expected


@pytest.mark.parametrize("found", [None, 7, b"bytes", ["text"], "", object()])
def test_what_is_no_text_is_no_reply(found):
    call = answering(lambda prompt: None, lambda p: found if p == PROMPTS[1] else p)
    assert reader(call).replies(PROMPTS[:3]) == [PROMPTS[0], "", PROMPTS[2]]


def test_text_that_cannot_be_encoded_is_mended():
    assert reader(lambda prompt: "a\ud800b").replies(["a"]) == ["a?b"]


def test_a_text_of_another_class_is_plain_text():
    class Text(str):
        __slots__ = ()

        def __str__(self):
            raise ValueError

    (found,) = reader(Text).replies(["a"])
    assert type(found) is str
    assert found == "a"


@pytest.mark.parametrize("status", [301, 401, 402, 403, 404, 405])
@pytest.mark.parametrize("kind", STATUS_ERRORS)
def test_whoever_is_refused_hears_what_to_check(status, kind):
    refused = threading.Event()

    def call(prompt):
        if refused.is_set():
            raise status_error(status, kind)
        return prompt

    found = reader(call)
    assert found.replies(PROMPTS) == PROMPTS
    refused.set()
    with pytest.raises(ModelError, match="check the key, the model's name") as caught:
        found.replies(PROMPTS)
    assert not isinstance(caught.value, EngineUnavailableError)
    assert_nothing_told(caught.value)
    with pytest.raises(ModelError, match="check the key"):  # before any private prompt, too
        reader(call).replies(PROMPTS)


@pytest.mark.parametrize("status", [301, 401, 402, 403, 404, 405])
def test_a_refusal_of_one_prompt_alone_is_its_own(status):
    """Some providers refuse with 403 what their moderation does not like."""
    alone = answering(lambda prompt: status_error(status) if prompt == PROMPTS[7] else None)
    expected = [prompt.upper() for prompt in PROMPTS]
    expected[7] = ""
    assert reader(alone).replies(PROMPTS) == expected


@pytest.mark.one_in(4)
@pytest.mark.parametrize("seed", range(20))
def test_all_or_none_under_random_faults(seed):
    """Of a provider: they befall the public prompt as any other."""
    coins, lock = random.Random(seed), threading.Lock()
    likely = coins.choice([0.1, 0.4, 1.0])
    released, ready = threading.Event(), threading.Event()

    def call(prompt):
        with lock:
            kind = coins.choice(["429", "500", "reset", "time-out"])
            fails = ready.is_set() and coins.random() < likely
            hangs = fails and coins.random() < 0.02
        if hangs:
            released.wait(30)
        if fails:
            raise PASSING[kind]()
        return prompt.upper()

    found = reader(call, deadline=0.5)
    found.replies([])
    ready.set()
    try:
        replies = found.replies(PROMPTS)
    except EngineUnavailableError as error:
        replies = None
        assert_nothing_told(error)
    finally:
        released.set()
    assert replies == (None if likely == 1 else [prompt.upper() for prompt in PROMPTS])


@pytest.mark.one_in(3)
@pytest.mark.parametrize("concurrency", [1, 3, 8])
def test_calls_that_hang_are_no_replies_and_hold_nobody(concurrency):
    """More of them than calls at once: the others are read all the same."""
    released, lock, asked = threading.Event(), threading.Lock(), Counter()

    def call(prompt):
        with lock:
            asked[prompt] += 1
        if prompt in PROMPTS[:5]:
            released.wait(30)
        return prompt

    found = reader(call, deadline=0.2, concurrency=concurrency)
    assert found.replies(PROMPTS) == [""] * 5 + PROMPTS[5:]
    assert all(asked[prompt] > 1 for prompt in PROMPTS[:5])  # once may be an accident
    assert all(thread.daemon for thread in workers())
    released.set()
    join_all()


def test_nothing_more_is_asked_of_what_was_given_up():
    asked, down = [], threading.Event()

    def call(prompt):
        asked.append(prompt)
        if prompt == PROMPTS[3]:
            down.set()
        if down.is_set():
            raise ConnectionResetError
        return prompt

    found = reader(call, deadline=0.1, concurrency=1)
    with pytest.raises(EngineUnavailableError):
        found.replies(PROMPTS)
    join_all()
    assert PROMPTS[4] not in asked


def test_a_long_reply_is_cut_to_a_public_length():
    assert reader(lambda prompt: "ab" * 10**6).replies(["a"]) == ["ab" * (CHARACTERS // 2)]


def test_the_public_prompt_is_asked_first_and_once():
    asked, lock = [], threading.Lock()

    def call(prompt):
        with lock:
            asked.append(prompt)
        return prompt

    found = reader(call).with_cache(None)
    threads = [threading.Thread(target=found.replies, args=(PROMPTS,)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert asked[0] == PUBLIC_PROMPT
    assert asked.count(PUBLIC_PROMPT) == 1
    assert Counter(asked) == Counter([PUBLIC_PROMPT, *PROMPTS * 6])


class BrokenError(Exception):
    """Of a client that does not work."""


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (BrokenError(SECRET), "BrokenError"),
        (TypeError(SECRET), "TypeError"),
        (status_error(400), "HTTP 400"),
        (None, "NoneType"),
    ],
)
def test_what_is_broken_is_seen_before_any_document_is_read(broken, words):
    asked = []

    def call(prompt):
        asked.append(prompt)
        if broken is not None:
            raise broken

    found = reader(call)
    for _ in range(2):  # until it works
        with pytest.raises(ModelError, match=f"public prompt \\({words}\\)") as caught:
            found.replies(PROMPTS)
        assert not isinstance(caught.value, EngineUnavailableError)
        assert_nothing_told(caught.value)
    assert asked == [PUBLIC_PROMPT] * 2


def test_a_provider_that_is_down_is_told_whether_or_not_there_is_a_prompt():
    down = threading.Event()

    def call(prompt):
        if down.is_set():
            raise ConnectionResetError
        return prompt

    found = reader(call)
    assert found.replies([]) == []
    down.set()
    found._deadline = 0.05
    for prompts in ([], PROMPTS[:1], PROMPTS):
        with pytest.raises(EngineUnavailableError):
            found.replies(prompts)
        with pytest.raises(EngineUnavailableError):
            reader(call, deadline=0.05).replies(prompts)


@pytest.mark.parametrize("count", [0, 1, 3, 10, 23])
def test_progress_comes_in_tenths_and_in_the_callers_thread(count):
    steps = []

    def on_progress(done, whole):
        assert threading.current_thread() is threading.main_thread()
        steps.append((done, whole))

    reader(str.upper).replies(PROMPTS[:count], on_progress)
    assert steps == [(tenth / 10, 1.0) for tenth in range(1, 11)]


def test_an_interrupt_out_of_progress_ends_the_work():
    class StopError(Exception):
        pass

    asked, stopped = [], threading.Event()

    def call(prompt):
        asked.append(prompt)
        if prompt == PROMPTS[15]:
            stopped.wait(30)
        return prompt

    def stop(done, whole):
        raise StopError

    with pytest.raises(StopError):
        reader(call, concurrency=1).replies(PROMPTS, stop)
    stopped.set()
    join_all()
    assert PROMPTS[16] not in asked


@pytest.mark.parametrize(
    "options", [{"concurrency": 0}, {"deadline": 0}, {"deadline": -1.0}, {"backoff": 0}]
)
def test_settings_out_of_range_are_one_line(options):
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        reader(str.upper, **options)


asker: ContextVar[str] = ContextVar("asker", default="nobody")


def test_calls_see_the_askers_context_and_not_each_others():
    def call(prompt):
        found = asker.get()
        asker.set(prompt)
        return found

    token = asker.set("Ida")
    try:
        assert set(reader(call).replies(PROMPTS)) == {"Ida"}
        assert asker.get() == "Ida"
    finally:
        asker.reset(token)


# What is told to others.


def assert_nothing_told(error):
    """Neither the error nor what hangs on it has a word of a prompt or of the provider."""
    assert error.__cause__ is error.__context__ is None
    for one in chain_of(error):
        assert SECRET not in repr(one) + str(one.args) + str(vars(one))
        assert not set("0123456789") & set(str(one).replace("HTTP 400", ""))


def talkative(prompt):
    for name in ("", "openai._base_client", "httpx", "made.in." + str(len(prompt))):
        logging.getLogger(name).error("asked %s", prompt)
    with trace.get_tracer("chat").start_as_current_span("call", attributes={"prompt": prompt}):
        return prompt


class Late:
    """A call whose loggers are made with the first private prompt."""

    def __init__(self):
        self.names = iter(range(1000))

    def __call__(self, prompt):
        logging.getLogger(f"late.{next(self.names)}").error("asked %s", prompt)
        return prompt


@pytest.fixture
def spans(monkeypatch):
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    return exporter


def test_neither_logs_nor_traces_see_a_call(spans):
    channels = Channels()
    with channels.listening():
        for call in (talkative, Late()):
            found = reader(call)
            assert found.replies(PROMPTS) == PROMPTS
            channels.see("reader", [repr(found), str(found), found.fingerprint])
        logging.getLogger("openai._base_client").error("mine")
    told = {place: list(words) for place, words in channels.told.items() if place != "reader"}
    assert told == {"log openai._base_client": ["ERROR mine"]}
    assert SECRET not in str(channels.told)
    assert spans.get_finished_spans() == ()
    talkative("public")  # whoever is outside is seen as ever
    assert [span.name for span in spans.get_finished_spans()] == ["call"]


@pytest.mark.parametrize(
    ("fault", "silent"),
    [("_QuietCalls.filter", lambda *_: True), ("unobserved", nullcontext)],
)
def test_a_call_that_is_observed_is_found(spans, monkeypatch, fault, silent):
    monkeypatch.setattr(f"{quiet_calls.__name__}.{fault}", silent)
    channels = Channels()
    with channels.listening():
        reader(talkative).replies(PROMPTS)
    shown = [dict(span.attributes) for span in spans.get_finished_spans()]
    assert SECRET in str(channels.told) + str(shown)


def test_instrumentations_that_ask_are_told_to_keep_off():
    keys = ("suppress_instrumentation", context._SUPPRESS_INSTRUMENTATION_KEY)

    def call(prompt):
        return str([context.get_value(key) for key in keys])

    assert reader(call).replies(PROMPTS) == ["[True, True]"] * len(PROMPTS)
    assert call("") == "[None, None]"


def test_a_reply_that_is_left_out_is_found(monkeypatch):
    monkeypatch.setattr(concurrent_reader, "failure_of", lambda error: CallFailure.OWN)
    call = answering(lambda prompt: status_error(429) if prompt == PROMPTS[7] else None)
    assert reader(call).replies(PROMPTS)[7] == ""


def test_progress_is_logged_as_ever(caplog):
    reader(str.upper).replies(PROMPTS, lambda done, whole: logging.getLogger("bar").error("step"))
    assert caplog.text.count("step") == 10
