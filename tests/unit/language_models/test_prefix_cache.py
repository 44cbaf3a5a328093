import errno
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

from dpicl_rag.errors import ModelError
from dpicl_rag.language_models import prefix_cache as prefix_cache_module
from dpicl_rag.language_models.key_value_cache import KeyValueCache
from dpicl_rag.language_models.packed_rows import PackedRows
from dpicl_rag.language_models.prefix_cache import PrefixCache, ReadAnewWarning
from dpicl_rag.language_models.transformers import TransformersModel
from dpicl_rag.language_models.transformers_rows import CachedStates
from tests.support.tiny_model import build_tiny_model

CPU = torch.device("cpu")
PUBLIC = "the public row"
DOCUMENTS = ["abc", "a longer document than the others", "x", "one more"]


def entry(value, tokens=4):
    return [(torch.full((2, tokens, 8), float(value)), torch.full((2, tokens, 8), -float(value)))]


def file_of(folder, key):
    [file] = folder.glob(f"{key}.*")
    return file


def size(tokens=4):
    return 2 * 2 * tokens * 8 * 4


def read(model, documents, question="and the question?", head="a public prefix: "):
    inputs = [model.digest([text], 99) for text in (PUBLIC, *documents)]
    rows = model.read(model.tokenizer.encode(head), inputs, room=40)
    steps = [rows.extend(model.tokenizer.encode(question)), rows.extend([7])]
    return torch.stack([step.rows for step in steps])


@pytest.fixture
def passes(monkeypatch):
    """Documents that the model really read."""
    monkeypatch.setattr(TransformersModel, "shares_passes", lambda self: True)
    seen = []
    original = CachedStates.keep

    def counted(self, own, layers):
        seen.append(own)
        return original(self, own, layers)

    monkeypatch.setattr(CachedStates, "keep", counted)
    return seen


def test_a_second_question_reads_no_document_and_finds_the_same(passes):
    plain = build_tiny_model()
    cached = build_tiny_model().with_cache(PrefixCache())
    assert torch.allclose(read(cached, DOCUMENTS), read(plain, DOCUMENTS), atol=1e-5)
    passes.clear()
    for question in ("and the question?", "what else?"):
        for documents in (DOCUMENTS, DOCUMENTS[::-1], DOCUMENTS[1:3]):
            found = read(cached, documents, question)
            assert passes == []
            expected = read(plain, documents, question)
            passes.clear()
            assert torch.allclose(found, expected, atol=1e-5)


def test_eviction_in_the_middle_of_an_answer_changes_nothing(passes):
    plain = build_tiny_model()
    one = 2 * 2 * 2 * 8 * 4 * len(DOCUMENTS[1])  # room for one long document and little more
    cache = PrefixCache(memory=one + 600)
    cached = build_tiny_model().with_cache(cache)
    expected = read(plain, DOCUMENTS)
    for _ in range(3):
        assert torch.allclose(read(cached, DOCUMENTS), expected, atol=1e-5)
    rows = cached.read([1, 2], [(3, 4), (5, 6, 7)], room=8)
    cache.clear()
    fresh = plain.read([1, 2], [(3, 4), (5, 6, 7)], room=8)
    assert torch.allclose(rows.extend([8]).rows, fresh.extend([8]).rows, atol=1e-5)


def test_another_document_template_or_model_finds_nothing(passes):
    cache = PrefixCache()
    model = build_tiny_model().with_cache(cache)
    read(model, DOCUMENTS)
    for change in (
        lambda: read(model, [d + "." for d in DOCUMENTS]),
        lambda: read(model, DOCUMENTS, head="another prefix: "),
        lambda: read(build_tiny_model(seed=1).with_cache(cache), DOCUMENTS),
    ):
        passes.clear()
        found = change()
        # The public row is the same in a change of documents.
        assert len(passes) >= len(DOCUMENTS)
        assert torch.isfinite(found).all()


@pytest.mark.parametrize("first", ["apart", "beside documents", "as a document"])
def test_what_is_kept_of_the_public_row_depends_on_no_document(first):
    """To the last bit: candidates may be cut at an exact place of it."""
    head, public = [1, 2], (3, 4, 5)
    expected = build_tiny_model().read(head, [public], room=4).extend([9])
    model = build_tiny_model().with_cache(PrefixCache())
    before = {
        "apart": [public],
        "beside documents": [public, *((n,) * 40 for n in range(8))],
        "as a document": [(7,), public, *((n,) * 40 for n in range(8))],
    }
    model.read(head, before[first], room=4)
    found = model.read(head, [public], room=4).extend([9])
    assert torch.equal(found.public, expected.public)


def test_two_cuts_of_the_same_tokens_are_two_entries():
    assert PrefixCache.key("m", [1, 2], [3]) != PrefixCache.key("m", [1], [2, 3])
    assert PrefixCache.key("m", [1], []) != PrefixCache.key("m", [], [1])
    assert PrefixCache.key("m", [1], [2]) != PrefixCache.key("n", [1], [2])


def test_the_least_recently_used_goes_first_and_the_limit_holds():
    cache = PrefixCache(memory=2 * size())
    cache.put("a", entry(1))
    cache.put("b", entry(2))
    assert cache.get("a", CPU) is not None
    cache.put("c", entry(3))
    assert cache.get("b", CPU) is None
    assert cache.get("a", CPU) is not None
    assert cache.get("c", CPU) is not None
    cache.put("huge", entry(4, tokens=9))
    assert cache.get("huge", CPU) is None
    assert cache.get("a", CPU) is not None


def test_the_disk_outlives_the_process_and_keeps_to_its_limit(tmp_path):
    folder = tmp_path / "prefixes"
    first = PrefixCache(memory=0, folder=folder)
    first.put("a", entry(1))
    again = PrefixCache(folder=folder)
    (keys, values), *rest = again.get("a", CPU)
    assert rest == []
    assert torch.equal(keys, entry(1)[0][0])
    assert torch.equal(values, entry(1)[0][1])
    assert folder.stat().st_mode & 0o077 == 0
    assert [file.stat().st_mode & 0o777 for file in folder.iterdir()] == [0o600]
    one_file = next(folder.iterdir()).stat().st_size
    small = PrefixCache(memory=0, folder=folder, disk=4 * one_file)
    for at, key in enumerate("bcdefg"):
        small.put(key, entry(at))
        os.utime(file_of(folder, key), (at, at))
    assert sum(file.stat().st_size for file in folder.iterdir()) <= 4 * one_file
    assert small.get("g", CPU) is not None
    assert small.get("b", CPU) is None
    small.clear()
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("damage", [b"", b"nothing of sense", None])
def test_a_damaged_file_counts_as_absent(tmp_path, damage):
    cache = PrefixCache(memory=0, folder=tmp_path)
    cache.put("a", entry(1))
    file = file_of(tmp_path, "a")
    file.write_bytes(file.read_bytes()[:-5] if damage is None else damage)
    assert cache.get("a", CPU) is None
    assert list(tmp_path.iterdir()) == []
    cache.put("a", entry(2))
    assert float(cache.get("a", CPU)[0][0][0, 0, 0]) == 2.0


@pytest.mark.parametrize("where", ["first", "in the middle", "near the end", "last"])
@pytest.mark.parametrize("bit", [0, 6])
def test_one_flipped_bit_counts_as_absent(tmp_path, where, bit):
    cache = PrefixCache(memory=0, folder=tmp_path)
    cache.put("a", entry(1))
    file = file_of(tmp_path, "a")
    content = bytearray(file.read_bytes())
    places = {"first": 0, "in the middle": len(content) // 2, "near the end": -7, "last": -1}
    content[places[where]] ^= 1 << bit
    file.write_bytes(content)
    assert cache.get("a", CPU) is None
    assert not file.exists()


@pytest.fixture
def threads():
    """Sets how many threads torch computes with; undone after the test."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def test_what_was_read_with_other_threads_is_not_found(passes, threads):
    """In memory too: a process may change the number between two questions."""
    model = build_tiny_model().with_cache(PrefixCache())
    for count, reads in ((1, True), (2, True), (1, False), (2, False)):
        threads(count)
        passes.clear()
        read(model, DOCUMENTS)
        assert bool(passes) == reads


def test_another_machine_reads_anew_and_says_so_once(tmp_path, passes, threads, recwarn):
    """Also where nothing was kept: what is said follows from no entry."""
    threads(1)
    build_tiny_model().with_cache(PrefixCache(folder=tmp_path))
    threads(2)
    cache = PrefixCache(folder=tmp_path)
    with pytest.warns(ReadAnewWarning, match="threads"):
        model = build_tiny_model().with_cache(cache)
    assert read(model, DOCUMENTS).isfinite().all()
    for count in (2, 1):
        threads(count)
        read(build_tiny_model().with_cache(PrefixCache(folder=tmp_path)), DOCUMENTS)
    assert len(recwarn) == 0
    cache.clear()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_told_of_once_a_process(tmp_path, monkeypatch, threads):
    threads(1)
    build_tiny_model().with_cache(PrefixCache(folder=tmp_path))
    threads(2)

    def fail(*_, **__):
        raise PermissionError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "touch", fail)
    cache = PrefixCache(folder=tmp_path)
    with pytest.warns(ReadAnewWarning):
        build_tiny_model().with_cache(cache)
    build_tiny_model().with_cache(cache)


def test_a_shared_prefix_has_one_layout_wherever_it_comes_from(tmp_path):
    """Products may look at where a matrix lies, and whether it was kept follows from others."""
    prefix, inputs = tuple(range(40)), [(1, 2), (3, 4, 5)]
    for cache in (PrefixCache(folder=tmp_path), PrefixCache(folder=tmp_path), None):
        batch = build_tiny_model().with_cache(cache)._read(PackedRows, prefix, inputs, 4, cache)
        for pair in batch._batch._passes.shared:
            assert all(part.is_contiguous() and part.data_ptr() % 64 == 0 for part in pair)


class Broken:
    """What the system says of a disk that is full or not ours to write."""

    @staticmethod
    def deleted(folder, monkeypatch):
        shutil.rmtree(folder)

    @staticmethod
    def a_file_in_its_place(folder, monkeypatch):
        shutil.rmtree(folder)
        folder.write_text("")

    @staticmethod
    def full(folder, monkeypatch):
        def save(*_, **__):
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(prefix_cache_module, "save", save)

    @staticmethod
    def read_only(folder, monkeypatch):
        def fail(*_, **__):
            raise PermissionError(errno.EROFS, "Read-only file system")

        monkeypatch.setattr(prefix_cache_module.tempfile, "mkstemp", fail)
        monkeypatch.setattr(prefix_cache_module.os, "utime", fail)
        monkeypatch.setattr(Path, "unlink", fail)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("how", ["deleted", "a_file_in_its_place", "full", "read_only"])
def test_no_document_fails_for_a_folder_that_cannot_be_written(tmp_path, monkeypatch, how):
    folder = tmp_path / "prefixes"
    cache = PrefixCache(folder=folder)
    model = build_tiny_model().with_cache(cache)
    read(model, DOCUMENTS[:2])
    left = sorted(folder.iterdir())
    getattr(Broken, how)(folder, monkeypatch)
    found = read(model, DOCUMENTS)
    assert torch.equal(read(model, DOCUMENTS), found)
    assert torch.allclose(found, read(build_tiny_model(), DOCUMENTS), atol=1e-5)
    if folder.is_dir():
        assert sorted(folder.iterdir()) == left
    else:
        assert how != "deleted" or not folder.exists()  # it was deleted for a reason
    if how == "read_only":
        assert PrefixCache(folder=folder).get(left[0].name.split(".")[0], CPU) is not None
        left[0].write_bytes(b"")
        assert PrefixCache(folder=folder).get(left[0].name.split(".")[0], CPU) is None


def test_what_a_killed_writer_left_counts_and_goes(tmp_path):
    leftover = tmp_path / ".writing-abc"
    leftover.write_bytes(b"x" * 10_000)
    os.utime(leftover, (1, 1))
    small = PrefixCache(memory=0, folder=tmp_path, disk=9_000)
    small.put("a", entry(1))
    assert not leftover.exists()
    assert small.get("a", CPU) is not None
    leftover.write_bytes(b"x")
    small.clear()
    assert list(tmp_path.iterdir()) == []


KILLED = """
import resource, signal, sys
from tests.unit.language_models.test_prefix_cache import PrefixCache, entry
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
PrefixCache(folder=sys.argv[1]).put("a", entry(1))
"""


@pytest.mark.heavy
def test_a_writer_that_is_killed_in_the_middle_leaves_nothing_that_stays(tmp_path):
    ended = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    assert ended.returncode == -signal.SIGXFSZ
    assert len(list(tmp_path.iterdir())) == 1
    PrefixCache(folder=tmp_path).clear()
    assert list(tmp_path.iterdir()) == []


def test_files_of_another_version_go_and_those_of_others_stay(tmp_path):
    key = PrefixCache.key("m", [1], [2])
    PrefixCache(folder=tmp_path).put(key, entry(1))
    for name in (f"{key}.safetensors", f"{key}.v1.safetensors"):
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    again = PrefixCache(folder=tmp_path)
    assert len(list(tmp_path.glob(f"{key}*"))) == 1
    assert again.get(key, CPU) is not None
    again.clear()
    assert [file.name for file in tmp_path.iterdir()] == ["model.safetensors"]


def test_answers_from_disk_are_the_same(tmp_path, passes):
    expected = read(build_tiny_model(), DOCUMENTS)
    read(build_tiny_model().with_cache(PrefixCache(folder=tmp_path)), DOCUMENTS)
    passes.clear()
    found = read(build_tiny_model().with_cache(PrefixCache(folder=tmp_path)), DOCUMENTS)
    assert passes == []
    assert torch.allclose(found, expected, atol=1e-5)


def test_threads_share_a_cache():
    cache = PrefixCache(memory=3 * size())
    failures = []

    def work(number):
        for at in range(200):
            key = str((number * at) % 7)
            cache.put(key, entry(int(key)))
            found = cache.get(key, CPU)
            if found is not None and float(found[0][0][0, 0, 0]) != int(key):
                failures.append(key)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert cache._size <= 3 * size()


def test_its_repr_tells_nothing():
    cache = PrefixCache()
    cache.put("a", entry(1))
    assert repr(cache) == "PrefixCache()"


@pytest.mark.parametrize("step", ["reading again", "the question", "the labels"])
def test_memory_that_ends_tells_no_size(monkeypatch, step):
    model = build_tiny_model().with_cache(PrefixCache())
    read(model, DOCUMENTS)
    rows = model.read([1], [(2,), (3,)], room=9)
    rows.extend([4])

    def fail(*_):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 4471")

    monkeypatch.setattr(KeyValueCache, "place", fail)
    actions = {
        "reading again": lambda: read(model, DOCUMENTS),
        "the question": lambda: rows.extend([5]),
        "the labels": lambda: rows.score([[5, 6]]),
    }
    with pytest.raises(ModelError, match="not enough memory") as caught:
        actions[step]()
    assert "4471" not in str(caught.value)
    assert caught.value.__suppress_context__
