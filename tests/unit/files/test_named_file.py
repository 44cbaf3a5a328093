"""A database by its path: the file that has the name now, or an error that says what to do."""

from __future__ import annotations

import os
from contextlib import closing

import pytest

from dpicl_rag.errors import KnowledgeError
from dpicl_rag.files.named_file import NamedFile
from dpicl_rag.knowledge.answer_file import MEMORY

pytestmark = pytest.mark.skipif(os.name != "posix", reason="an open file cannot be replaced there")


def found(path):
    path.touch()
    return path.stat()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "memory.sqlite"


@pytest.fixture
def named(path):
    with closing(NamedFile(path, MEMORY, found, busy_timeout=1.0)) as opened:
        yield opened


def test_the_same_file_is_opened_once(named):
    assert named.now() is named.now()


def test_a_file_that_is_removed_is_opened_anew(named, path):
    before = named.now()
    path.unlink()
    assert named.now() is not before
    assert named.now().read(MEMORY.version_of) == MEMORY.version
    with pytest.raises(KnowledgeError, match="closed"):
        before.read(MEMORY.version_of)


def test_what_cannot_be_opened_is_tried_again(named, path):
    path.unlink()
    path.mkdir()
    for _ in range(2):
        with pytest.raises(KnowledgeError):
            named.now()
    path.rmdir()
    assert named.now().read(MEMORY.version_of) == MEMORY.version


def test_a_closed_one_stays_closed(named, path):
    named.close()
    path.unlink()
    with pytest.raises(KnowledgeError, match="closed"):
        named.now().read(MEMORY.version_of)
    assert not path.exists()
