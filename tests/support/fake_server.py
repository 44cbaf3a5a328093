"""A small server with vLLM's interface over a local model, and every fault a server may have.

Prompts are computed one at a time, so what it says of one follows from that one alone.
"""

from __future__ import annotations

import contextlib
import copy
import json
import math
import random
import socket
import threading
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import torch

from dpicl_rag.language_models.key_value_cache import passed_to
from dpicl_rag.language_models.transformers import TransformersModel

SECRET = "zanzibar-4471"
"""Stands in everything that the server says in words."""

FAULTS = (
    "refused: a prompt is too long",
    "busy",
    "limited",
    "reset",
    "silent",
    "dripping",
    "cut",
    "no json",
    "one short",
    "no numbers",
    "redirected",
)

_COMPUTING = threading.Lock()

Fault = Callable[[int], str | None]
"""From the number of a request for completions to what goes wrong with it."""


class FakeServer:
    """One model at an address of this machine; a context manager.

    Args:
        model: The model.
        fault: What goes wrong with a request for completions, by its number; a name of ``FAULTS``.
        most: Log-probabilities that it shows at most.
        hostile: What goes wrong with a request that has such a prompt.
        kind: ``vllm``, ``llama``, or ``hosted``, which names tokens by text and refuses fields
            that it does not know.
        moves: How far its log-probabilities move with the number of prompts of a request.
        tokenizes: Whether it tells how it reads a text.
    """

    name = "tiny"

    def __init__(
        self,
        model: TransformersModel,
        *,
        fault: Fault = lambda number: None,
        hostile: Callable[[Any], str | None] = lambda prompt: None,
        most: int = 1000,
        kind: str = "vllm",
        moves: float = 0.0,
        tokenizes: bool = True,
    ) -> None:
        self.model, self.fault, self.most, self.kind = model, fault, most, kind
        self.moves, self.tokenizes, self.hostile = moves, tokenizes, hostile
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.faults: list[str] = []
        self.order: Callable[[list[Any]], list[Any]] = list
        self.context = model.context_length
        self.row = partial(_row, model)
        self._lock = threading.Lock()
        self._port = 0
        self._stopping = threading.Event()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.kill()

    def address(self, **options: object) -> str:
        """Of this server; options are those of an address."""
        words = "&".join(f"{name}={value}" for name, value in options.items())
        return f"openai+http://127.0.0.1:{self._port}/v1{'?' * bool(words)}{words}#{self.name}"

    def start(self) -> None:
        """Listen, at the same port as before."""
        handler = type("Handler", (_Handler,), {"fake": self})
        self._open: set[socket.socket] = set()
        self._stopping = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", self._port), handler)
        self._server.daemon_threads = True
        self._port = self._server.server_address[1]
        run = self._server.serve_forever
        self._thread = threading.Thread(target=run, args=(0.01,), daemon=True)
        self._thread.start()

    @property
    def stopped(self) -> bool:
        """Whether it was killed and has not come back."""
        return self._stopping.is_set()

    def kill(self) -> None:
        """Stop listening and cut every connection, whatever is on its way."""
        if self.stopped:
            return
        self._stopping.set()
        self._server.shutdown()
        for connection in list(self._open):
            _cut(connection)
        self._server.server_close()
        self._thread.join()

    def choices(self, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """What is shown of each prompt."""
        named = body.get("logprob_token_ids") if self.kind == "vllm" else None
        crowd = random.Random(len(body["prompt"]))
        for index, prompt in enumerate(body["prompt"]):
            moved = crowd.uniform(-1, 1) * self.moves if len(body["prompt"]) > 1 else 0.0
            read, places, finished = tuple(prompt), [], "length"
            while len(places) < body["max_tokens"] and finished == "length":
                row = [(token, value + moved) for token, value in self.row(read)]
                shown = row[: min(body["logprobs"], self.most)]
                if named:
                    shown = [row[0], *(one for one in row[1:] if one[0] in named)]
                places.append(shown)
                read = (*read, row[0][0])
                if row[0][0] in self.model.tokenizer.stop_tokens:
                    finished = "stop"
            yield {
                "index": index,
                "text": SECRET,
                "finish_reason": finished,
                "logprobs": self._logprobs(places),
            }

    def _logprobs(self, places: list[list[tuple[int, float]]]) -> dict[str, Any]:
        found = [
            [(id, None if math.isnan(value) else value) for id, value in shown] for shown in places
        ]
        if self.kind == "llama":
            tops = [
                [{"id": id, "token": SECRET, "logprob": value} for id, value in values]
                for values in found
            ]
            return {"content": [{**top[0], "top_logprobs": top} for top in tops]}
        token = "token_id:{}" if self.kind == "vllm" else "word {}"
        return {
            "top_logprobs": [{token.format(id): value for id, value in values} for values in found]
        }


@lru_cache(maxsize=10_000)
def _row(model: TransformersModel, prompt: tuple[int, ...]) -> list[tuple[int, float]]:
    """Tokens and their log-probabilities, the likeliest first."""
    with _COMPUTING, torch.inference_mode():
        logits = model._model(torch.tensor([prompt]), use_cache=False).logits[0, -1]
    found = torch.log_softmax(logits.float(), dim=-1)
    order = found.argsort(descending=True, stable=True)
    return list(zip(order.tolist(), found[order].tolist(), strict=True))


class KeptRows:
    """Rows of a larger model: each prompt goes on from where one without its last token was read.

    Args:
        model: The model.
        shown: Log-probabilities of a row at most.
    """

    def __init__(self, model: TransformersModel, shown: int = 1000) -> None:
        self._model, self._shown = model, shown
        self._kept: dict[tuple[int, ...], Any] = {}

    def __call__(self, prompt: tuple[int, ...]) -> list[tuple[int, float]]:
        """Tokens and their log-probabilities, the likeliest first."""
        with _COMPUTING, torch.inference_mode():
            kept = copy.deepcopy(self._kept.pop(prompt[:-1], None))
            ids = torch.tensor([prompt if kept is None else prompt[-1:]])
            found = self._model._model(ids, use_cache=True, **passed_to(self._model._model, kept))
            self._kept[prompt] = found.past_key_values
            row = torch.log_softmax(found.logits[0, -1].float(), dim=-1).topk(self._shown)
        return list(zip(row.indices.tolist(), row.values.tolist(), strict=True))


class _Handler(BaseHTTPRequestHandler):
    fake: FakeServer
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    # Without this every answer waits for the client's acknowledgement.
    disable_nagle_algorithm = True

    def setup(self) -> None:
        super().setup()
        self.fake._open.add(self.connection)

    def finish(self) -> None:
        self.fake._open.discard(self.connection)
        with contextlib.suppress(OSError):
            super().finish()

    def handle(self) -> None:
        with contextlib.suppress(OSError):
            super().handle()

    def log_message(self, *words: object) -> None:
        pass

    def do_GET(self) -> None:
        one = {"id": self.fake.name, "root": SECRET, "owned_by": SECRET}
        self._say(200, {"data": [{**one, "max_model_len": self.fake.context}]})

    def do_POST(self) -> None:
        size = int(self.headers["Content-Length"])
        content = self.rfile.read(size)
        if len(content) < size:  # the connection was cut
            return
        body = json.loads(content)
        if self.path == "/tokenize":
            text = body["content" if self.fake.kind == "llama" else "prompt"]
            tokens = self.fake.model.tokenizer.encode_template(text)
            self._say(200 if self.fake.tokenizes else 404, {"tokens": tokens})
        else:
            self._complete(body)

    def _complete(self, body: dict[str, Any]) -> None:
        with self.fake._lock:
            self.fake.bodies.append(body)
            self.fake.headers.append(dict(self.headers))
            number = len(self.fake.bodies)
        each = [self.fake.fault(number), *map(self.fake.hostile, body["prompt"])]
        fault = next((one for one in each if one is not None), None)
        longest = max(map(len, body["prompt"]))
        if fault is not None:
            self.fake.faults.append(fault)
            self._fail(fault, body)
        elif (
            (body["logprobs"] > self.fake.most and self.fake.kind == "vllm")
            or ("cache_salt" in body and self.fake.kind == "hosted")
            or longest + body["max_tokens"] > self.fake.context
        ):
            self._say(400, {"error": {"message": f"{SECRET}: {longest} tokens"}})
        else:
            self._say(200, {"choices": self.fake.order(list(self.fake.choices(body)))})

    def _fail(self, fault: str, body: dict[str, Any]) -> None:
        words = {"error": {"message": f"{SECRET}: {max(map(len, body['prompt']))} tokens"}}
        whole = json.dumps({"choices": list(self.fake.choices(body))}).encode()
        match fault:
            case "refused: a prompt is too long":
                self._say(400, words)
            case "busy":
                self._say(503, words)
            case "limited":
                self._say(429, words)
            case "redirected":
                self._say(307, words, Location=f"http://127.0.0.1:9/{SECRET}")
            case "reset":
                _cut(self.connection)
            case "silent":
                self.fake._stopping.wait()
            case "dripping":
                self.wfile.write(b"HTTP/1.1 200 OK\r\n")
                while not self.fake._stopping.wait(0.01):
                    self.wfile.write(f"X-{SECRET}: a\r\n".encode())
                    self.wfile.flush()
            case "cut":
                head = f"HTTP/1.1 200 {SECRET}\r\nContent-Length: {len(whole)}\r\n\r\n"
                self.wfile.write(head.encode() + whole[: len(whole) // 2])
                self.wfile.flush()
                _cut(self.connection)
            case "no json":
                self._say(200, SECRET)
            case "one short":
                self._say(200, {"choices": list(self.fake.choices(body))[1:]})
            case "no numbers":
                self._say(200, {"choices": [{"index": 0, "text": SECRET, "logprobs": None}]})

    def _say(self, status: int, found: object, **headers: str) -> None:
        content = (found if isinstance(found, str) else json.dumps(found)).encode()
        self.send_response(status, f"{SECRET} {len(content)}")
        for name, value in {"Content-Length": str(len(content)), SECRET: SECRET, **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)
        self.wfile.flush()


def _cut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
