"""The demo's questions over a server of the default model, within what 20 tokens lose."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from demos.email_assistant import DELTA, MAX_TOKENS, TEMPLATE
from demos.inbox.generator import generate
from dpicl_rag import NotPrivateWarning, PrivateContextLLM, load
from dpicl_rag.language_models.defaults import default_model
from dpicl_rag.language_models.openai_compatible.openai_model import OpenAICompatibleModel
from dpicl_rag.mechanisms.selection import ExponentialMechanism
from tests.support.fake_server import FakeServer, KeptRows

EXPERTS = 3


@pytest.mark.heavy
def test_the_demos_questions_are_answered_as_by_the_model_here(tmp_path, monkeypatch):
    here, drawn = default_model("float32"), []
    draw = ExponentialMechanism.draw

    def watched(self: ExponentialMechanism, step: Any, *given: Any) -> int:
        token = draw(self, step, *given)
        drawn.append((token, self.distribution(step)))
        return token

    monkeypatch.setattr(ExponentialMechanism, "draw", watched)
    monkeypatch.setattr(
        "dpicl_rag.language_models.openai_compatible.openai_model.rows_are_their_own",
        lambda *_: True,
    )
    box, right, apart = generate(7), 0, []
    box.write(tmp_path / "support.mbox")
    documents = load(tmp_path / "support.mbox").documents
    with FakeServer(here) as server:
        server.row = KeptRows(here)
        there = OpenAICompatibleModel(server.address(tokenizer="default"))
        for fact in box.facts:
            stating = [one for one in documents if fact.is_stated_in(one.text)][:EXPERTS]
            runs = []
            for model in (here, there):
                drawn.clear()
                answer = assistant(model).answer(fact.question, stating)
                runs.append(list(drawn))
            right += fact.is_stated_in(answer.text)
            for at, ((_, one), (_, other)) in enumerate(zip(*runs, strict=False)):
                # Where the answers part, what follows is drawn from something else.
                if [t for t, _ in runs[0][:at]] == [t for t, _ in runs[1][:at]]:
                    apart.append(float((one - other).abs().sum() / 2))
    assert right >= 4
    assert sum(apart) / len(apart) < 0.005
    assert max(apart) < 0.05


def assistant(model: Any) -> PrivateContextLLM:
    """As the demo has it, with repeatable coins, and a budget for three threads."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivateWarning)
        return PrivateContextLLM(
            model,
            template=TEMPLATE,
            epsilon=60.0,
            delta=DELTA,
            max_tokens=MAX_TOKENS,
            stop=("\n",),
            unsupported="ignore",
            agreement="off",  # what is compared are draws of tokens
            seed=0,
        )
