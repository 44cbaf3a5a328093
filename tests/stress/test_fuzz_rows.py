"""Every architecture that transformers can be asked for: its rows are identical, or refused.

Then models of random shapes, of one and two key heads, whose rows are alone in their width or not.

It takes about half an hour. ``DPICL_RAG_FUZZ_ROUNDS`` sets how many companies each model's rows are
read in, 1 by default, and how many times ten random models are tried.
"""

import os
import random
import sys

import pytest
import torch

from tests.support.architectures import ARCHITECTURES, NotBuiltError
from tests.support.random_models import KINDS, build_random_model, moved_by_company
from tests.support.row_identity import verdict
from tests.support.tiny_model import build_tiny_tokenizer

pytestmark = pytest.mark.stress
ROUNDS = int(os.environ.get("DPICL_RAG_FUZZ_ROUNDS", "1"))
THREADS = [1, 2, 4]


@pytest.fixture
def threads(request):
    """How many threads torch computes with; they take turns."""
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize(
    ("name", "threads"),
    [(name, THREADS[place % len(THREADS)]) for place, name in enumerate(ARCHITECTURES)],
    indirect=["threads"],
)
def test_rows_are_identical_or_refused(name, dtype, threads, capsys):
    try:
        found = verdict(name, build_tiny_tokenizer(chat=False), dtype, ROUNDS, seed=threads)
    except NotBuiltError as error:
        pytest.skip(str(error))
    with capsys.disabled():
        sys.stdout.write(f"\n{name}, {dtype}, {threads} threads: {found}")
    assert found == "identical" or found.startswith("refused")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("threads", THREADS, indirect=True)
@pytest.mark.parametrize("kind", KINDS)
def test_a_row_alone_in_its_width_is_not_moved_by_one_that_joins(kind, dtype, threads):
    for seed in range(10 * ROUNDS):
        draw = random.Random(f"{kind} {threads} {seed}")
        shape, model = build_random_model(draw, dtype, kind=kind, widest=2048 if seed == 0 else 256)
        assert moved_by_company(model, draw) == 0.0, shape
