"""A chat server for benchmarks: the default model, always its likeliest token, in batches.

``python -m benchmarks.chat_server --port 8471`` serves ``/v1/chat/completions`` and ``/v1/models``
as far as a reader needs them. `dpicl-rag serve` has a model ``public``, too, but draws its words at
temperature 1, whatever a client asks for. Prompts that wait are read together; a row is a function
of its own prompt, so a reply is that of the prompt alone. A reply is one line.
"""

from __future__ import annotations

import argparse
import json
import queue
import threading
from collections.abc import Sequence, Set
from concurrent.futures import Future
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import takewhile
from typing import Any

from dpicl_rag.language_models.defaults import default_model
from dpicl_rag.language_models.sentence_end import Continuation, SentenceEnd
from dpicl_rag.language_models.transformers import TransformersModel

NAME = "smollm2-135m"
TOGETHER = 32
MOST = 32  # tokens of a reply
_WAIT = 0.5  # seconds, for others to come
_Waiting = tuple[str, Future[str]]


class LineEnd(SentenceEnd):
    """A reply ends with its line or turn; nowhere else, as a sentence of an expert would."""

    @cached_property
    def tokens(self) -> frozenset[int]:
        """Line breaks, and the end of a turn."""
        return super().tokens - self.marks | self._final

    def words(self, token_ids: Sequence[int]) -> frozenset[str]:
        """Whatever was said is news, so that any token but the first may be an end."""
        return frozenset(map(str, token_ids))

    def _ends(self, said: Continuation, at: int, known: Set[str]) -> bool:
        return said.tokens[at] in self.tokens


class Batches:
    """Replies to prompts from many threads, several in one pass.

    Args:
        model: Reads.
    """

    def __init__(self, model: TransformersModel) -> None:
        self._model = model
        own = model.tokenizer
        own.sentence_end = LineEnd(own.stop_tokens, own.vocabulary, own.decode)
        self._waiting: queue.SimpleQueue[_Waiting] = queue.SimpleQueue()
        threading.Thread(target=self._work, daemon=True).start()

    def reply(self, prompt: str) -> str:
        """The reply to a prompt, once it is there."""
        found: Future[str] = Future()
        self._waiting.put((prompt, found))
        return found.result()

    def replies(self, prompts: Sequence[str]) -> list[str]:
        """One reply for each prompt: its likeliest tokens."""
        tokenizer = self._model.tokenizer
        rows = [tuple(tokenizer.encode_template(_turn(tokenizer, prompt))) for prompt in prompts]
        head, end = head_of(rows), rows[0][-1:]
        # The public row is read as well; here it is as short as can be.
        inputs = [rows[0][len(head) : len(head) + 1], *(row[len(head) : -1] for row in rows)]
        read = self._model.read(head, inputs, room=1 + MOST)
        said = read.continue_each(end, MOST, [True] * len(rows))
        return [tokenizer.decode(own.tokens).strip() for own in said]

    def _work(self) -> None:
        while True:
            batch = [self._waiting.get()]
            try:
                while len(batch) < TOGETHER:
                    batch.append(self._waiting.get(timeout=_WAIT))
            except queue.Empty:
                pass
            try:
                told = self.replies([prompt for prompt, _ in batch])
            except Exception as error:  # whoever waits is told
                for _, found in batch:
                    found.set_exception(error)
                continue
            for (_, found), text in zip(batch, told, strict=True):
                found.set_result(text)


def head_of(rows: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """What all rows begin with, but for two tokens of each at least."""
    most = min(map(len, rows)) - 2
    places = zip(*(row[:most] for row in rows), strict=True)
    return tuple(own[0] for own in takewhile(lambda own: len(set(own)) == 1, places))


def _turn(tokenizer: Any, prompt: str) -> str:
    return tokenizer.chat([{"role": "user", "content": prompt}]) or f"{prompt}\n"


def handler(batches: Batches) -> type[BaseHTTPRequestHandler]:
    """What answers requests."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._send({"object": "list", "data": [{"id": NAME, "object": "model"}]})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            text = batches.reply(body["messages"][-1]["content"])
            message = {"role": "assistant", "content": text}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            self._send({"object": "chat.completion", "model": NAME, "choices": [choice]})

        def _send(self, found: object) -> None:
            content = json.dumps(found).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:  # a line for each request
            pass

    return Handler


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--port", type=int, default=8471, help="of 127.0.0.1")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], help="of the model")
    options = parser.parse_args()
    model = default_model(options.dtype).with_cache(None)
    with ThreadingHTTPServer(("127.0.0.1", options.port), handler(Batches(model))) as server:
        print(f"serving chat+http://127.0.0.1:{options.port}/v1#{NAME}", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
