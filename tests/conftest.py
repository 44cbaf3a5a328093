"""Fixtures that several rooms share."""

from __future__ import annotations

import gc
import os
import random
import signal
import ssl
import sys
import time
import typing
import zlib
from collections import Counter
from functools import cache
from pathlib import Path
from shutil import disk_usage
from types import SimpleNamespace

import certifi
import pytest
from hypothesis import settings

from dpicl_rag.mechanisms import randomness
from tests.faults.record import faults
from tests.support.dovecot import dovecot, dovecot_program  # noqa: F401
from tests.support.garbage import Collections
from tests.support.postgres import postgres  # noqa: F401

if sys.version_info < (3, 12):  # later ones keep what makes a protocol; exact tests ask a lot
    typing._get_protocol_attrs = cache(typing._get_protocol_attrs)

# A machine that does other work beside is slow, and no fault.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")

DATA = Path(os.environ.get("DPICL_RAG_DATA", Path(__file__).parents[2] / "shared" / "data"))


SECONDS = 2.0
"""What a test without a mark may take of a processor; see `_slowness`."""

IMPORTS = 50
"""So many modules at once are a library."""

MEMORY, ROOM = Path("/dev/shm"), 4 * 2**30
"""Where Linux keeps files in memory, and the bytes that must be free there."""

DEAR = frozenset({"heavy", "stress", "engine"})
"""Marks of tests for which no change waits, but for those that are a `guard` too."""

STARTED_ONCE = frozenset({"chromium", "cluster", "default_model", "place", "port", "postgres"})
"""Fixtures that start something dear: tests that share one run in the same process."""


def pytest_addoption(parser):
    parser.addoption("--shard", default="1/1", help="run a part of the tests: 2/4 is the second")
    parser.addoption(
        "--with-waited-for", action="store_true", help="and all that every change waits for"
    )


def pytest_configure(config):
    """Files of tests are kept in memory where there is room: a disk makes each commit wait."""
    gc.disable()  # hardly anything that the collection of tests makes is garbage
    if MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and disk_usage(MEMORY).free > ROOM:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


def _leave_cases(items):
    """Make cases heavy beyond one in so many, but for those of recorded faults."""
    named = {fault.test for fault in faults()}
    cases = Counter()
    for item in items:
        mark = item.get_closest_marker("one_in")
        if mark is not None:
            function = item.nodeid.partition("[")[0]
            if cases[function] % mark.args[0] and item.nodeid not in named:
                item.own_markers = [mark for mark in item.own_markers if mark.name != "guard"]
                item.add_marker("heavy")
            cases[function] += 1


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(config, items):
    """Leave out the tests of other shards; a function's cases stay together."""
    _leave_cases(items)
    shard, shards = map(int, config.getoption("--shard").split("/"))
    waited_for = config.getoption("--with-waited-for")
    kept, left = [], []
    for item in items:
        for name in STARTED_ONCE.intersection(item.fixturenames):
            item.add_marker(pytest.mark.xdist_group(name))
        function = item.nodeid.partition("[")[0]
        chosen = zlib.crc32(function.encode()) % shards == shard - 1
        marks = {mark.name for mark in item.iter_markers()}
        always = waited_for and ("guard" in marks or marks.isdisjoint(DEAR))
        (kept if chosen or always else left).append(item)
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = kept


def pytest_collection_finish():
    """What imports and the collection of tests made stays: no garbage collection walks it again."""
    gc.collect()
    gc.freeze()
    gc.enable()


_collections = Collections()
gc.callbacks.append(_collections)


@pytest.fixture(autouse=True)
def garbage_sets_no_variables():
    """What a test leaves ends wherever the collector happens to run; also in another test."""
    before = _collections.disturbing
    yield
    if _collections.disturbing > before:
        pytest.fail("garbage set context variables as it was collected", pytrace=False)


@pytest.fixture(scope="module")
def frozen():
    """Tests that ask for collections do not walk each time what others have left."""
    gc.collect()
    gc.freeze()


def _slowness() -> float:
    """How many times longer this machine takes now for what the one of `SECONDS` does in 0.1 s."""
    before = time.process_time()
    sum(number * number for number in range(2_000_000))
    return max(1.0, (time.process_time() - before) / 0.1)


@pytest.fixture(scope="session")
def cache_folder(tmp_path_factory):
    """Where this process keeps vectors of collections and rehearsals."""
    return tmp_path_factory.getbasetemp() / "cache"


def _rehearsals(folder: Path) -> int:
    return sum(1 for _ in folder.glob("rehearsals/*"))


@pytest.fixture(autouse=True)
def processor_seconds(request, cache_folder):
    """A test that takes more of a processor than `SECONDS` says so by its mark.

    Its children count, shared fixtures do not. Nor does a test that imports a library or rehearses
    a model: the first that does pays for all. On a machine with much else to do a second is no
    measure.
    """
    marked = DEAR.intersection(mark.name for mark in request.node.iter_markers())
    before, modules = sum(os.times()[:4]), len(sys.modules)
    rehearsals = _rehearsals(cache_folder)
    yield
    taken = sum(os.times()[:4]) - before
    excused = (
        marked
        or sys.gettrace()
        or len(sys.modules) > modules + IMPORTS
        or _rehearsals(cache_folder) > rehearsals
    )
    if taken <= SECONDS or excused or os.getloadavg()[0] > 2 * (os.cpu_count() or 1):
        return
    allowed = 1.5 * SECONDS * _slowness()  # the same test takes as much longer now and then
    if taken > allowed:
        pytest.fail(
            f"took {taken:.1f} s of a processor, more than {allowed:.1f}: make it smaller, "
            "or mark it `heavy`",
            pytrace=False,
        )


@pytest.fixture(autouse=True)
def fixed_coins(request, monkeypatch):
    """Every test draws the same coins each time; noise alone would fail one now and then."""
    coins = random.Random(request.node.nodeid)
    fixed = SimpleNamespace(randbits=coins.getrandbits, randbelow=coins.randrange)
    monkeypatch.setattr(randomness, "secrets", fixed)


@pytest.fixture(autouse=True)
def own_cache(cache_folder, monkeypatch):
    """No vectors of collections and no rehearsals are kept where the user's are."""
    for place in (
        "stores.cached_vectors.user_cache_dir",
        "rehearsal.kept_rehearsals.user_cache_path",
    ):
        monkeypatch.setattr(f"dpicl_rag.{place}", lambda *_, **__: cache_folder)


@pytest.fixture(autouse=True)
def no_open_chroma():
    """Databases of Chroma that a test leaves open end with it: each has threads and a dozen files.

    A shared fixture's own are open before.
    """

    def shared(kept):
        module = sys.modules.get("chromadb.api.shared_system_client")
        return getattr(module.SharedSystemClient, kept) if module else {}

    before = set(shared("_identifier_to_system"))
    yield
    for place in set(shared("_identifier_to_system")) - before:
        shared("_identifier_to_system").pop(place).stop()
        shared("_identifier_to_refcount").pop(place, None)


@pytest.fixture(scope="session", autouse=True)
def certificates_read_once():
    """Every client of HTTP would read those of all authorities anew, also for plain HTTP."""
    read = ssl.create_default_context
    once = cache(read)
    usual = [{}, *({"cafile": file} for file in (certifi.where(), os.getenv("SSL_CERT_FILE")))]

    def context(*arguments, **options):
        found = once if not arguments and options in usual else read
        return found(*arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl, "create_default_context", context)
        yield


@pytest.fixture(autouse=True)
def seeing(monkeypatch):
    """Made-up models pass for such as can count: no test waits until they are rehearsed."""
    # Not by the process that only starts the others.
    from tests.support.readings import LABELLING, SEEING

    monkeypatch.setattr("dpicl_rag.surveys.tallies.yes_or_no_of", lambda _: SEEING)
    monkeypatch.setattr("dpicl_rag.surveys.tallies.labelling_of", lambda _: LABELLING)


@pytest.fixture(scope="session")
def tiny_model():
    """A two-layer random-weight model with a byte tokenizer."""
    from tests.support.tiny_model import build_tiny_model

    return build_tiny_model()


@pytest.fixture(scope="session")
def default_model():
    """The packaged default model."""
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
