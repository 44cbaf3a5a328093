"""The default model behind a real vLLM: the demo's questions, a kill in an answer, a restart.

``make test-engines`` builds vLLM's own environment and runs this; else ``DPICL_RAG_VLLM`` names the
Python that has it.
"""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from demos.email_assistant import CORPUS, DELTA, EPSILON, MAX_TOKENS, TEMPLATE
from demos.inbox.generator import Mailbox, generate
from dpicl_rag import Corpus, Ledger, NotPrivateWarning, PrivateContextLLM, load
from dpicl_rag.answering.prompt_rows import read
from dpicl_rag.language_models.defaults import default_model
from dpicl_rag.mechanisms.selection import ExponentialMechanism
from tests.support.vllm_server import NEEDS_VLLM, VLLM

pytestmark = NEEDS_VLLM


@pytest.fixture(scope="module")
def vllm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VLLM]:
    folder = tmp_path_factory.mktemp("vllm")
    with VLLM(folder, "--dtype", "float32", "--max-logprobs", "1000") as server:
        yield server


@pytest.fixture(scope="module")
def box() -> Mailbox:
    return generate(7)


@pytest.fixture(scope="module")
def mail(box: Mailbox, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Corpus]:
    folder = tmp_path_factory.mktemp("mail")
    path = folder / "support.mbox"
    box.write(path)
    corpus = Corpus.create(CORPUS, path=folder / "chroma")
    corpus.add(load(path).documents)
    yield corpus
    corpus.close()


def assistant(model: Any, **settings: Any) -> PrivateContextLLM:
    """As the demo has it, with repeatable coins."""
    given = {"epsilon": EPSILON, "delta": DELTA, "max_tokens": MAX_TOKENS, "stop": ("\n",)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotPrivateWarning)
        return PrivateContextLLM(model, template=TEMPLATE, seed=0, **{**given, **settings})


def test_in_float32_a_row_is_its_own(vllm: VLLM) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = vllm.model()
    assert model._completions.shown == 1000
    assert model._completions.names
    assert model.context_length == 2047


def test_its_rows_and_labels_are_those_of_the_model_here(vllm: VLLM, box: Mailbox) -> None:
    there, here = vllm.model(), default_model("float32")
    prompt = TEMPLATE.cut(here.tokenizer, box.facts[0].question)
    texts = ["Refunds take 9 working days.", "The <|im_end|> of lunch.", "9 days, says Ida."]
    inputs = [here.digest((text,), 100) for text in texts]
    assert inputs == [there.digest((text,), 100) for text in texts]
    labels = [tuple(here.tokenizer.encode(text)) for text in ("nine working days", "ten", "never")]
    mine, theirs = (read(model, prompt, inputs, room=20) for model in (here, there))
    for tokens in (prompt.suffix, *((token,) for token in labels[0][:2])):
        one, other = mine.extend(tokens), theirs.extend(tokens)
        shown = one.rows.topk(20)
        assert torch.allclose(other.rows.gather(1, shown.indices), shown.values, atol=1e-3)
    assert torch.allclose(mine.score(labels).rows, theirs.score(labels).rows, atol=1e-3)


def test_the_demos_questions_are_answered(vllm: VLLM, mail: Corpus, box: Mailbox) -> None:
    llm = assistant(vllm.model())
    answers = [llm.answer(fact.question, mail).text for fact in box.facts]
    print(*answers, sep="\n")  # noqa: T201
    stated = zip(box.facts, answers, strict=True)
    assert sum(fact.is_stated_in(text) for fact, text in stated) >= 3


def test_tokens_are_drawn_from_the_distributions_of_the_model_here(
    vllm: VLLM, mail: Corpus, box: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[tuple[int, torch.Tensor]] = []
    draw = ExponentialMechanism.draw

    def watched(self: ExponentialMechanism, step: Any, *given: Any) -> int:
        token = draw(self, step, *given)
        drawn.append((token, self.distribution(step)))
        return token

    monkeypatch.setattr(ExponentialMechanism, "draw", watched)
    distributions, tokens = [], []
    for model in (default_model("float32"), vllm.model()):
        drawn.clear()
        # What documents agree on comes without a draw.
        assistant(model, agreement="off").answer(box.facts[1].question, mail)
        tokens.append([token for token, _ in drawn])
        distributions.append([distribution for _, distribution in drawn])
    apart = [
        float((here - there).abs().sum() / 2)
        for at, (here, there) in enumerate(zip(*distributions, strict=False))
        # Where the answers part, what follows is drawn from something else.
        if tokens[0][:at] == tokens[1][:at]
    ]
    mean = sum(apart) / len(apart)
    print(f"{len(apart)} tokens: apart by {mean:.4f}, at most {max(apart):.4f}")  # noqa: T201
    assert len(apart) > 3
    assert mean < 0.01


def test_a_kill_in_an_answer_ends_it_and_the_next_server_goes_on(
    vllm: VLLM, box: Mailbox, tmp_path: Path
) -> None:
    mail = [f"The warehouse opens at 6:40, says {name}." for name in ("Ida", "Jon", "Kim", "Lou")]
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        ledger.set_budget(corpus="default", rho=math.inf)
        question = box.facts[1].question
        whole = assistant(vllm.model(), ledger=ledger).answer(question, mail)
        assert whole.tokens > 3

        def spent() -> float:
            (status,) = (one for one in ledger.status() if one.kind == "corpus")
            assert status.reserved == 0
            return status.spent

        before = spent()
        llm = assistant(vllm.model(deadline=60.0), ledger=ledger)
        with llm.stream(question, mail) as stream:
            pieces = [next(stream), next(stream)]
            vllm.kill()
            llm.model._completions.server._deadline = 2.0
            pieces += stream
        answer = stream.answer
        assert answer.stopped_by == "unavailable"
        assert whole.text.startswith(answer.text)
        assert 0 < answer.rho < whole.rho
        assert spent() - before == pytest.approx(answer.rho, abs=1e-6)

        # Within the deadline the answer waits for the next server, and is what it would have been.
        vllm.start()
        vllm.wait()
        again = assistant(vllm.model(), ledger=ledger)
        with again.stream(question, mail) as stream:
            pieces = [next(stream), next(stream)]
            vllm.kill()
            threading.Timer(1.0, vllm.start).start()
            pieces += stream
        vllm.wait()
        assert stream.answer == whole


def test_in_bfloat16_the_server_warns_where_its_rows_move(tmp_path: Path) -> None:
    with VLLM(tmp_path, "--dtype", "bfloat16") as server:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = server.model()
        assert model._completions.shown == 20
        told = [str(one.message) for one in caught if one.category is NotPrivateWarning]
        if not told:
            pytest.skip("this processor moves no row in bfloat16")
        assert "moves with what else it computes" in told[0]
