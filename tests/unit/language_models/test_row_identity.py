"""A fixed sample of the fuzzer over model configurations: ``tests/stress/test_fuzz_rows.py``."""

import random

import pytest
import torch

from dpicl_rag.language_models.transformers import TransformersModel
from dpicl_rag.mechanisms.step import DenseStep
from tests.support.random_models import build_random_model, moved_by_company
from tests.support.row_identity import largest_difference, verdict
from tests.support.tiny_model import build_tiny_model, build_tiny_tokenizer

MUST_WORK = [
    "Llama",
    "Mistral, sliding",
    "Gemma 2, soft caps",
    "Qwen3-MoE",
    "gpt-oss, sinks",
    "Llama 4, chunked",
    "GPT-2",
    "Bloom, ALiBi",
    "Falcon",
]
MAY_BE_REFUSED = ["Phi-3, longrope", "DeepSeek V3", "RoFormer", "Mamba", "RWKV", "BERT", "GPT"]
IN_16_BITS = ["Llama", "Gemma 2, soft caps", "Qwen3-MoE", "GPT-2"]


@pytest.mark.one_in(12)
@pytest.mark.parametrize("name", MUST_WORK)
def test_a_row_is_the_same_to_the_last_bit_in_any_company(name):
    tokenizer = build_tiny_tokenizer(chat=False)
    assert verdict(name, tokenizer, torch.float32, rounds=1, seed=0) == "identical"


@pytest.mark.one_in(3)
@pytest.mark.heavy  # on a processor that has no instructions of 16 bits
@pytest.mark.guard
@pytest.mark.parametrize(
    ("name", "dtype"),
    [(name, torch.float32) for name in MAY_BE_REFUSED]
    + [(name, torch.bfloat16) for name in IN_16_BITS],
)
def test_a_row_is_so_or_the_model_is_refused(name, dtype):
    found = verdict(name, build_tiny_tokenizer(chat=False), dtype, rounds=1, seed=0)
    assert found == "identical" or found.startswith("refused")


@pytest.mark.one_in(3)
@pytest.mark.parametrize("threads", [1, 2, 4])
def test_a_row_alone_in_its_width_is_not_moved_by_one_that_joins(threads):
    """A product of one matrix, or of fewer than threads, has another order of additions."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        draw = random.Random(4)
        _, model = build_random_model(draw, torch.float32)
        assert moved_by_company(model, draw) == 0.0
    finally:
        torch.set_num_threads(before)


@pytest.mark.heavy
@pytest.mark.parametrize("fault", ["number of rows", "longest row", "place", "cache"])
def test_a_planted_dependence_on_the_company_is_found(fault, monkeypatch):
    """What moves a row by its last bits only."""
    model = build_tiny_model()
    original = TransformersModel.read

    def read(self, prefix, inputs, **options):
        rows = original(self, prefix, inputs, **options)
        places = torch.arange(1, len(inputs))[:, None]
        moved = {
            "number of rows": len(inputs),
            "longest row": max(map(len, inputs)),
            "place": places,
            "cache": self.cache is not None,
        }[fault] * 1e-7
        extend = rows.extend

        def shifted(token_ids):
            step = extend(token_ids)
            return DenseStep(step.public, step.experts.double() + moved)

        rows.extend = shifted
        return rows

    monkeypatch.setattr(TransformersModel, "read", read)
    assert largest_difference(model, rounds=1, seed=0) > 0
