import pytest
import torch

from dpicl_rag import PrivateContextLLM, PromptTemplate
from dpicl_rag.answering.prompt_rows import greedy_answer
from dpicl_research.baselines import expert_alone

TEMPLATE = PromptTemplate(system="Be short.", examples=(), answer_prefix="It is")
PASSAGES = ["the code is 4471", "lunch is at noon"]
QUESTION = "which code?"


def private(model, **settings):
    return PrivateContextLLM(model, template=TEMPLATE, max_tokens=6, **settings)


def test_an_expert_alone_says_its_likeliest_tokens(tiny_model):
    prompt = TEMPLATE.cut(tiny_model.tokenizer, QUESTION)
    own = tiny_model.digest(PASSAGES, 256)
    model, ids, said = tiny_model._model, [*prompt.prefix, *own, *prompt.suffix], []
    for _ in range(6):
        with torch.inference_mode():
            said.append(int(model(torch.tensor([ids])).logits[0, -1].argmax()))
        ids.append(said[-1])
    assert not tiny_model.tokenizer.stop_tokens & set(said)
    expected = ("It is" + tiny_model.tokenizer.decode(said)).strip()
    assert expert_alone(private(tiny_model, copy_bias=0), QUESTION, PASSAGES) == expected
    # Ordinary RAG over the same passages is the same, since it is one expert with all of them.
    assert greedy_answer(tiny_model, TEMPLATE, QUESTION, PASSAGES, max_tokens=6) == expected


def test_it_reads_as_an_answer_s_experts_do(tiny_model):
    said = expert_alone(private(tiny_model, copy_bias=10.0), QUESTION, PASSAGES)
    words = set("".join(PASSAGES))
    assert set(said.removeprefix("It is")) <= words
    assert not set(expert_alone(private(tiny_model, copy_bias=0), QUESTION, PASSAGES)) <= words


@pytest.mark.parametrize("copy_bias", [0.0, 2.0])
def test_it_stops_where_an_answer_would(tiny_model, copy_bias):
    whole = expert_alone(private(tiny_model, copy_bias=copy_bias), QUESTION, PASSAGES)
    stop = whole[len("It is") + 2]
    cut = whole.index(stop, len("It is"))
    llm = private(tiny_model, copy_bias=copy_bias, stop=(stop,))
    assert expert_alone(llm, QUESTION, PASSAGES) == whole[:cut].strip()
