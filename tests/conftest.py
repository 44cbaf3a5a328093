"""Fixtures that several rooms share."""

from __future__ import annotations

import gc
import os
import random
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import settings

from dpicl_rag.mechanisms import randomness
from tests.support.dovecot import dovecot, dovecot_program  # noqa: F401
from tests.support.postgres import postgres  # noqa: F401
from tests.support.tiny_model import build_tiny_model

# A machine that does other work beside is slow, and no fault.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")

DATA = Path(os.environ.get("DPICL_RAG_DATA", Path(__file__).parents[2] / "shared" / "data"))


def pytest_collection_finish():
    """What imports and the collection of tests made stays: no garbage collection walks it again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def fixed_coins(request, monkeypatch):
    """Every test draws the same coins each time; noise alone would fail one now and then."""
    coins = random.Random(request.node.nodeid)
    fixed = SimpleNamespace(randbits=coins.getrandbits, randbelow=coins.randrange)
    monkeypatch.setattr(randomness, "secrets", fixed)


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    """No vectors of collections are kept where the user's are."""
    folder = tmp_path_factory.getbasetemp() / "cache"
    monkeypatch.setattr("dpicl_rag.stores.cached_vectors.user_cache_dir", lambda *_, **__: folder)


@pytest.fixture(scope="session")
def tiny_model():
    """A two-layer random-weight model with a byte tokenizer."""
    return build_tiny_model()


@pytest.fixture(scope="session")
def default_model():
    """The packaged default model; tests that use it are marked ``model``."""
    from dpicl_rag.language_models.defaults import default_model

    return default_model()


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """Folder of the benchmark data; skips where it is absent."""
    if not DATA.is_dir():
        pytest.skip("no benchmark data here: set DPICL_RAG_DATA to its folder")
    return DATA


@pytest.fixture
def interruptible():
    """Ctrl-C works, here and in processes that are started; a shell in whose background the tests
    run would have it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
