"""Whatever comes in, the answer is a 4xx in OpenAI's form, and nothing is spent or told."""

from __future__ import annotations

import json
import logging
import socket
import time
from contextlib import suppress

import httpx
import pytest

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.server import app as request_guard
from dpicl_rag.server import run
from dpicl_rag.server.service import Service
from tests.support.paced_model import PacedModel
from tests.unit.server.test_server_ends import until

MESSAGES = [{"role": "user", "content": "Where is the office?"}]
GOOD = {"model": "notes", "messages": MESSAGES}


@pytest.fixture
def running(serve, caplog, capfd):
    """A server that tells nothing and spends nothing while a test sends what it likes."""
    caplog.set_level(logging.INFO)
    found = serve(model=PacedModel(open=True))
    yield found
    (status,) = found.service.ledger.status()
    assert status.spent == status.reserved == 0
    assert found.ask(model="public").status_code == 200
    printed = "".join(capfd.readouterr())
    assert "Traceback" not in caplog.text + printed
    assert "swordfish" not in caplog.text + printed


def refused(answer):
    """The error of an answer, in OpenAI's form."""
    assert 400 <= answer.status_code < 500, answer.text
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"]
    assert "swordfish" not in answer.text
    return error


DEEP = "[" * 30_000 + "]" * 30_000
BODIES = {
    "no JSON": b"swordfish",
    "nothing": b"",
    "a list": b"[]",
    "null": b"null",
    "half an object": b'{"model": "notes", "messages": [',
    "no UTF-8": b'{"model": "\xff\xfeswordfish"}',
    "UTF-16": '{"model": "notes"}'.encode("utf-16"),
    "deep": DEEP.encode(),
    "deep in a field": f'{{"model": "notes", "messages": [], "metadata": {DEEP}}}'.encode(),
    "deep objects": b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
    "many digits": b'{"model": "notes", "messages": [], "max_tokens": ' + b"9" * 5_000 + b"}",
    "NUL": b"\0" * 100,
}


def test_bodies_that_are_no_questions(running):
    headers = {"Content-Type": "application/json"}
    for name, body in BODIES.items():
        answer = running.client.post("/v1/chat/completions", content=body, headers=headers)
        assert refused(answer), name


WRONG = {
    "model": [None, 3, "", "x" * 1000, "swordfish", "notes\0", "\ud800", "../notes", {}],
    "messages": [
        None,
        [],
        "swordfish",
        [3],
        [{}],
        [{"role": "user"}],
        [{"role": "swordfish", "content": "a"}],
        [{"role": "user", "content": 3}],
        [{"role": "user", "content": ""}],
        [{"role": "user", "content": " \0\x01\x02 "}],
        [{"role": "user", "content": "\ud800"}],
        [{"role": "user", "content": [{"type": "image_url", "image_url": "swordfish"}]}],
        [{"role": "assistant", "content": "a"}],
        MESSAGES * 300,
    ],
    "max_tokens": [0, -1, 1.5, "5", True, float("nan"), []],
    "max_completion_tokens": [0, "swordfish"],
    "stop": ["", "x" * 257, [""], ["a"] * 5, [3], {}],
    "stream": ["swordfish", 1, []],
    "stream_options": ["swordfish", 3],
    "n": [2, 0, "swordfish"],
    "logprobs": [True, 5],
    "response_format": [{"type": "json_object"}],
    "swordfish\ud800": [1],
    "\0": [1],
    "x" * 10_000: [1],
}


def test_fields_that_are_wrong(running):
    for name, values in WRONG.items():
        for value in values:
            body = json.dumps({**GOOD, name: value}).encode()
            headers = {"Content-Type": "application/json"}
            answer = running.client.post("/v1/chat/completions", content=body, headers=headers)
            assert 400 <= answer.status_code < 500, (name, str(value)[:40], answer.text)
            error = answer.json()["error"]
            # A field's own name is told back, cut; a value never is.
            assert "swordfish" not in error["message"] or name.startswith("swordfish")
            assert len(answer.content) < 1000


def test_what_chat_clients_send_beside_questions(running):
    def said(content, **fields):
        body = {**GOOD, "messages": [{"role": "user", "content": content}], **fields}
        answer = running.client.post("/v1/chat/completions", json=body)
        assert answer.status_code == 400, answer.text
        return answer.json()["error"]

    picture = [{"type": "text", "text": "Who?"}, {"type": "image_url", "image_url": {"url": "x"}}]
    assert "leave out images, audio, files" in said(picture)["message"]
    task = "### Task:\nGenerate a title.\n<chat_history>\nUser: Where?\n</chat_history>"
    assert said(task, keep_alive="5m")["code"] == "client_task"


def test_half_a_character_is_left_out_of_a_question(serve):
    running = serve(model=PacedModel(open=True))
    for field in ({}, {"stop": "\ud800"}, {"user": "\ud800"}):
        body = {**GOOD, "messages": [{"role": "user", "content": "Where\ud800?"}], **field}
        headers = {"Content-Type": "application/json"}
        content = json.dumps(body).encode()
        answer = running.client.post("/v1/chat/completions", content=content, headers=headers)
        assert answer.status_code == 200, answer.text


def test_a_body_of_ten_megabytes_is_refused_unread(running):
    headers = {"Content-Type": "application/json"}
    large = b'{"model": "' + b"x" * 10_000_000
    answer = running.client.post("/v1/chat/completions", content=large, headers=headers)
    assert answer.status_code == 413
    pieces = (b"x" * 100_000 for _ in range(100))  # chunked, of no declared length
    answer = running.client.post("/v1/chat/completions", content=pieces, headers=headers)
    assert answer.status_code == 413
    assert refused(answer)


@pytest.mark.parametrize("kind", [None, "text/plain", "application/x-www-form-urlencoded", "\xff"])
def test_a_page_elsewhere_cannot_send_json_as_something_simple(running, kind):
    headers = {} if kind is None else {"Content-Type": kind.encode("latin-1")}
    body = json.dumps(GOOD).encode()
    assert refused(running.client.post("/v1/chat/completions", content=body, headers=headers))


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "path",
    [
        "/v1/models/",
        "/v1//models",
        "/v1/models/..%2f..%2fetc",
        "/../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/v1/chat/completions%00",
        "/\\..\\secrets",
        "/.git/config",
        "/%ff%fe",
        "/docs",
        "/redoc",
    ],
)
def test_paths_lead_nowhere_else(running, path):
    answer = raw(running, f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 404")
    assert b"etc" not in answer
    assert b"location" not in answer.lower()


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "DELETE", "PUT", "PATCH", "TRACE", "BREW"])
def test_other_methods_are_refused_and_the_right_one_is_named(running, method):
    answer = running.client.request(method, "/v1/chat/completions")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "POST"
    if method != "HEAD":
        assert refused(answer)


def raw(running, text):
    """What a server says to bytes, until it closes."""
    with running.connect() as sent:
        parts = []
        # A server that hangs up on what is too long may take its own words back.
        with suppress(ConnectionError):
            sent.sendall(text if isinstance(text, bytes) else text.encode("latin-1"))
            while part := sent.recv(65536):
                parts.append(part)
        return b"".join(parts)


@pytest.mark.parametrize(
    "text",
    [
        b"swordfish\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/1.1\r\n\r\n",  # no Host
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: swordfish\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nA: " + b"x" * 200_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b"A: b\r\n" * 50_000 + b"\r\n",
        b"GET /" + b"x" * 200_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nA: b\0c\r\n\r\n",
    ],
    ids=range(9),
)
def test_what_is_no_http_is_refused_in_the_same_form(running, text):
    answer = raw(running, text)
    if not answer and len(text) > 65536:
        return
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400")
    assert set(json.loads(body)["error"]) == {"message", "type", "param", "code"}


def test_two_framings_of_one_body_are_refused_or_read_as_one(running):
    text = (
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 4\r\n"
        b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n\r\n"
        b"GET /metrics HTTP/1.1\r\n\r\n"
    )
    assert raw(running, text).count(b"HTTP/1.1") == 1


def test_pipelined_requests_are_answered_one_after_the_other(running):
    one = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    answer = raw(running, one + b"\r\n" + one + b"\r\n" + one + b"Connection: close\r\n\r\n")
    assert answer.count(b"HTTP/1.1 200") == 3


def test_an_upgrade_is_not_made(running):
    answer = raw(
        running,
        "GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: upgrade, close\r\n"
        "Upgrade: websocket\r\nSec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n\r\n",
    )
    assert answer.startswith(b"HTTP/1.1 200")


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "swordfish.example"},
        {"Host": "127.0.0.1.swordfish.example:8321"},
        {"Host": ""},
        {"Host": "[::1"},
        {"Origin": "http://swordfish.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"},
        {"X-Forwarded-For": "203.0.113.7"},
        {"Forwarded": "for=203.0.113.7"},
        {"Via": "1.1 proxy"},
    ],
)
def test_without_keys_no_page_of_another_name_may_ask(running, headers):
    # A name that leads to this machine (DNS rebinding), or a form of another page: the browser that
    # sends it has no key for it.
    client = httpx.Client(base_url=running.url, headers=headers)
    with client:
        for path in ("/v1/models", "/v1/budget", "/v1/memory", "/v1/owner", "/metrics"):
            assert refused(client.get(path))["code"] == "invalid_api_key"
        assert client.post("/v1/chat/completions", json=GOOD).status_code == 401


@pytest.mark.parametrize("version", ["1.0", "1.1"])
@pytest.mark.parametrize("path", ["/v1/models", "/v1/memory", "/v1/owner", "/metrics"])
def test_without_keys_a_proxy_is_not_the_owner(running, path, version):
    # nginx's proxy_pass: it comes from this machine, under its name, and no header says for whom.
    host = f"Host: {running.url.rpartition('/')[2]}\r\nConnection: close\r\n\r\n"
    answer = raw(running, f"GET {path} HTTP/{version}\r\n{host}")
    assert answer.startswith(b"HTTP/1.1 401")
    assert b"notes" not in answer


@pytest.mark.parametrize("key", ["dpk-", "dpk-" + "x" * 43, "\xff"])
def test_another_key_than_that_of_the_run_is_refused(running, key):
    headers = {"Authorization": f"Bearer {key}".encode("latin-1")}
    assert running.client.get("/v1/owner", headers=headers).status_code == 401


def test_a_link_to_the_page_may_stand_anywhere(running):
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    answer = running.client.get("/", headers=headers)
    assert answer.status_code == 200
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer wrong",
        "Bearer dpk-" + "x" * 43,
        "Bearer " + "x" * 50_000,
        "Basic YTpi",
        "bearer  \xff\xfe",
        "Bearer ' OR 1=1 --",
    ],
)
def test_without_a_key_that_is_known_nothing_is_told(serve, keys, header):
    keys.add("ann")
    running = serve(keys, model=PacedModel(open=True))
    headers = {} if header is None else {"Authorization": header.encode("latin-1")}
    for path in ("/v1/models", "/v1/budget", "/metrics"):
        answer = running.client.get(path, headers=headers)
        assert answer.status_code == 401
        assert refused(answer)["code"] == "invalid_api_key"
    for model in ("notes", "payroll"):  # which corpora there are is not told
        answer = running.client.post(
            "/v1/chat/completions", json={**GOOD, "model": model}, headers=headers
        )
        assert answer.status_code == 401


def test_a_corpus_of_others_is_as_unknown_as_one_that_is_not_there(serve, keys):
    key = keys.add("ann", corpora=["mail"])
    running = serve(keys, model=PacedModel(open=True))
    headers = {"Authorization": f"Bearer {key}"}
    answers = [
        running.client.post("/v1/chat/completions", json={**GOOD, "model": name}, headers=headers)
        for name in ("notes", "payroll")
    ]
    assert answers[0].status_code == answers[1].status_code == 404
    assert answers[0].content == answers[1].content
    assert running.client.get("/metrics", headers=headers).status_code == 403


def test_a_thousand_connections_that_say_nothing_leave_the_server_answering(running):
    idle = []
    try:
        for number in range(1000):
            sent = running.connect()
            idle.append(sent)
            if number % 2:
                sent.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127")
        assert running.client.get("/health").status_code == 200
        assert running.ask(model="public").status_code == 200
    finally:
        for sent in idle:
            sent.close()


def test_one_connection_too_many_is_told_so_in_the_same_form(running, monkeypatch):
    assert running.client.get("/health").status_code == 200
    monkeypatch.setattr(run, "MOST_CONNECTIONS", 0)
    answer = running.client.get("/health")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert answer.json()["error"]["code"] == "busy"
    monkeypatch.undo()
    assert running.client.get("/health").status_code == 200


@pytest.mark.parametrize("wanted", ["bytes=a-b", "bytes=9999999-", "bytes=0-1,3-4", "lines=1"])
def test_a_part_of_a_file_is_the_whole(running, wanted):
    answer = running.client.get("/page/app.js", headers={"Range": wanted})
    assert answer.status_code == 200
    assert answer.content == running.client.get("/page/app.js").content


def test_who_says_nothing_for_long_is_hung_up_on(serve, monkeypatch):
    monkeypatch.setattr(run, "REQUEST_SECONDS", 0.3)
    running = serve(model=PacedModel(open=True))

    def dripped(first):
        with running.connect() as sent:
            sent.sendall(first)
            for _ in range(100):
                sent.settimeout(0.05)
                try:
                    return sent.recv(100)
                except TimeoutError:
                    try:
                        sent.sendall(b"x")  # what comes bit by bit buys no time
                    except OSError:
                        return b""
                except OSError:
                    return b""
        return None

    assert dripped(b"GET / HTTP/1.1\r\nA: ") == b""
    assert dripped(b"") == b""


def test_a_body_that_does_not_come_is_not_waited_for(serve, monkeypatch):
    monkeypatch.setattr(request_guard, "PATIENCE", 0.3)
    running = serve(model=PacedModel(open=True))
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    more = b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
    answer = raw(running, head + more)
    assert answer.startswith(b"HTTP/1.1 408")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["message"]


@pytest.fixture
def narrow(serve, monkeypatch):
    """A server with little time, and a connection that hardly anything fits into."""
    monkeypatch.setattr(run, "REQUEST_SECONDS", 0.2)
    made = run.Connection.connection_made

    def tight(self, transport):
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        made(self, transport)

    monkeypatch.setattr(run.Connection, "connection_made", tight)
    running = serve(model=PacedModel(open=True))
    with socket.socket() as sent:
        sent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sent.connect(running.server.servers[0].sockets[0].getsockname())
        yield running, sent


DOCUMENT = "GET /openapi.json HTTP/1.1\r\nHost: h\r\nConnection: {}\r\n\r\n"


@pytest.mark.parametrize(("times", "then"), [(1, "keep-alive"), (1, "close"), (9, "keep-alive")])
def test_who_does_not_read_is_hung_up_on(narrow, monkeypatch, times, then):
    monkeypatch.setattr(run, "BYTES_A_SECOND", 10**6)
    running, sent = narrow
    state = running.server.server_state
    sent.sendall(DOCUMENT.format(then).encode() * times)
    until(lambda: state.total_requests)
    until(lambda: not (state.connections or state.tasks))


def test_who_reads_slowly_has_longer_for_what_is_large(narrow, monkeypatch):
    monkeypatch.setattr(run, "BYTES_A_SECOND", 2_000)
    running, sent = narrow
    sent.sendall(DOCUMENT.format("keep-alive").encode())
    whole, found = running.client.get("/openapi.json").content, b""
    time.sleep(0.5)
    while part := sent.recv(4096):
        found += part
        if found.endswith(whole):
            break
    assert found.endswith(whole)


def test_no_corpus_takes_the_name_of_the_model_without_documents(serve):
    service = serve(model=PacedModel(open=True)).service
    with pytest.raises(ConfigurationError, match="--corpus"):
        Service(PacedModel(), {"public": service.corpora["notes"]}, service.ledger)
