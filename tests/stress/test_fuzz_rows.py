"""Every architecture that transformers can be asked for: its rows are identical, or refused.

It takes about half an hour. ``DPICL_RAG_FUZZ_ROUNDS`` sets how many companies each model's rows are
read in, 1 by default.
"""

import os
import sys

import pytest
import torch

from tests.support.architectures import ARCHITECTURES, NotBuiltError
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
