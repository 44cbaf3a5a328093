"""A small installation for one case: a corpus, its budget, small models, fixed coins."""

from __future__ import annotations

import json
import os
import random
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any
from unittest import mock

from fastapi.testclient import TestClient
from httpx import Response

from dpicl_rag import Corpus, Document, Ledger, PrivateContextLLM
from dpicl_rag.cli import data_folder, settings_file
from dpicl_rag.language_models import defaults
from dpicl_rag.mechanisms import randomness
from dpicl_rag.server.admission import ServerLimits
from dpicl_rag.server.api_keys import KeyFile
from dpicl_rag.server.app import create_app
from dpicl_rag.server.service import Service
from dpicl_rag.server.settings import CorpusSettings
from dpicl_rag.surveys import tallies
from tests.support.bucket_embedder import BucketEmbedder
from tests.support.command_line import run_command
from tests.support.readings import LABELLING, SEEING
from tests.support.scripted_model import ScriptedModel

QUESTION = "When does the depot open?"
UNKNOWN = "Who is the mayor of the town?"
LABELS = ["seven", "noon"]
SAID = {
    "seven": "The depot opens at seven.",
    "noon": "The depot opens at noon.",
    "": "I cannot know that.",
}
BUDGET = 20.0


class Opinionated(ScriptedModel):
    """Reads labels too: a unit says the one that its text has, or yes where it says seven."""

    def read(self, prefix: Any, inputs: Any, **options: Any) -> Any:
        rows = super().read(prefix, inputs, **options)
        texts = [str(text) for text in inputs]
        rows.score = lambda continuations: _opinions(texts, len(continuations))
        return rows


def _opinions(texts: list[str], labels: int) -> Any:
    import torch

    from dpicl_rag.mechanisms.step import DenseStep

    sure = [0 if "seven" in text else 1 for text in texts[1:]]
    rows = torch.full((len(texts), labels), -6.0, dtype=torch.float64)
    rows[0] = 0.0
    for row, label in enumerate(sure, start=1):
        rows[row, label] = 0.0
    rows = torch.log_softmax(rows, dim=-1)
    return DenseStep(rows[0], rows[1:])


DOCUMENTS = [
    Document(f"The depot opens at {'noon' if n % 4 == 3 else 'seven'}, note {n}.", f"unit {n}")
    for n in range(40)
]


@dataclass(frozen=True)
class Installation:
    """What a case may use.

    Attributes:
        folder: The user's data folder.
        corpus: ``notes``, of 40 units.
        ledger: The user's, with a budget of ``notes``.
        model: The default model.
    """

    folder: Path
    corpus: Corpus
    ledger: Ledger
    model: Any

    def llm(self, **settings: Any) -> PrivateContextLLM:
        """Answers, and pays from the ledger."""
        return PrivateContextLLM(self.model, ledger=self.ledger, corpus="notes", **settings)

    def service(self, table: dict[str, Any] | None = None) -> Service:
        """As a server offers the corpus by a table of settings."""
        return Service(
            self.model,
            {"notes": CorpusSettings.create(**(table or {})).served(self.corpus)},
            Ledger(data_folder.default_ledger()),
            memory=self.folder / "memory.sqlite",
            embedder=BucketEmbedder(),
        )

    @contextmanager
    def client(
        self,
        table: dict[str, Any] | None = None,
        keys: KeyFile | None = None,
        limits: ServerLimits | None = None,
    ) -> Iterator[TestClient]:
        """A client of a server without a port, with the owner's key where there are no others."""
        app = create_app(self.service(table), keys, limits)
        run_key = app.state.parts.run_key
        headers = {} if run_key is None else {"Authorization": f"Bearer {run_key.text}"}
        with TestClient(app, headers=headers, raise_server_exceptions=False) as client:
            yield client

    def command(self, *words: str) -> dict[str, Any]:
        """What a command prints: JSON where it is JSON, lines elsewhere."""
        done = run_command(*words, env={"COLUMNS": "100", "NO_COLOR": "1"})
        printed: Any = done.stdout.splitlines()
        if "--json" in words and done.exit_code == 0:
            printed = json.loads(done.stdout)
        return {"exit": done.exit_code, "stdout": printed, "stderr": done.stderr.splitlines()}

    def spent(self, name: str = "notes", kind: str = "corpus") -> float:
        """Rho of zCDP that a scope was charged."""
        found = {(one.kind, one.name): one.spent for one in self.ledger.status()}
        return found.get((kind, name), 0.0)


Case = Callable[[Installation], Any]
"""Asks something; what it gives back is recorded."""


@contextmanager
def fixed_coins(seed: int) -> Iterator[None]:
    """The operating system's generator gives the same coins each time."""
    coins = random.Random(seed)
    fixed = SimpleNamespace(randbits=coins.getrandbits, randbelow=coins.randrange)
    with mock.patch.object(randomness, "secrets", fixed):
        yield


@contextmanager
def an_installation(budget: float = BUDGET, model: Any = None) -> Iterator[Installation]:
    """A fresh one."""
    made = Opinionated(SAID) if model is None else model
    variables = (settings_file.ENVIRONMENT, *settings_file.variables().values())
    with ExitStack() as stack:
        enter = stack.enter_context
        folder = Path(enter(TemporaryDirectory()))
        own = {f"XDG_{name}_HOME": str(folder) for name in ("DATA", "CONFIG", "CACHE")}
        enter(mock.patch.dict(os.environ, own))
        for name in variables:
            os.environ.pop(name, None)
        small = BucketEmbedder()
        enter(mock.patch.object(data_folder, "load_embedder", return_value=small))
        enter(mock.patch.object(defaults, "default_model", return_value=made))
        enter(mock.patch.object(tallies, "yes_or_no_of", return_value=SEEING))
        enter(mock.patch.object(tallies, "labelling_of", return_value=LABELLING))
        enter(fixed_coins(7))
        corpus = enter(closing(Corpus.create("notes", embedder=small)))
        corpus.add(DOCUMENTS)
        file = data_folder.default_ledger()
        file.parent.mkdir(parents=True, exist_ok=True)
        ledger = enter(Ledger(file))
        ledger.set_budget(corpus="notes", rho=budget, thresholds=0.5)
        enter(warnings.catch_warnings())
        warnings.simplefilter("ignore")  # few units; commands show what they show all the same
        yield Installation(folder, corpus, ledger, made)


def reply(response: Response) -> dict[str, Any]:
    """A response as it is kept: its body, or the data of its events, in order."""
    told = {
        name: response.headers[name]
        for name in ("content-type", "x-dpicl-ignored", "x-should-retry", "retry-after")
        if name in response.headers
    }
    kind = told.pop("content-type", "")
    if kind.startswith("text/event-stream"):
        data = [one for one in response.text.splitlines() if one and not one.startswith(":")]
        body: Any = [_parsed(line) for line in data]
    else:
        body = response.json() if kind == "application/json" else f"{kind}: {response.text}"
    return {"status": response.status_code, **told, "body": body}


def _parsed(line: str) -> Any:
    data = line.removeprefix("data: ")
    return json.loads(data) if data != line and data != "[DONE]" else line


_WITHOUT_MEANING: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    (r'(chatcmpl-|resp_|msg_)[0-9a-f]+"', r'\1ID"'),
    (r'("(?:created|created_at)": )\d+', r"\g<1>0"),
    (r'("time": )"[^"]+"', r'\1"TIME"'),
    (r'("retry-after": )"\d+"', r'\1"SECONDS"'),
)


def kept(found: Any, folder: Path) -> Any:
    """What is recorded of a response: no times, no ids, no paths, and six digits of a number."""
    text = json.dumps(_rounded(found), ensure_ascii=False, default=str)
    text = text.replace(str(folder), "FOLDER")
    for pattern, given in _WITHOUT_MEANING:
        text = re.sub(pattern, given, text)
    return json.loads(text)


def _rounded(found: Any) -> Any:
    if isinstance(found, float):
        return float(f"{found:.6g}")
    if isinstance(found, dict):
        return {str(name): _rounded(value) for name, value in found.items()}
    if isinstance(found, list | tuple):
        return [_rounded(value) for value in found]
    return found
