"""Stores come from one place, and naming them loads nothing of theirs."""

from __future__ import annotations

import subprocess
import sys

from dpicl_rag import stores


def test_every_name_is_there():
    for name in stores.__all__:
        assert getattr(stores, name).__name__ == name
    assert dir(stores) == sorted(stores.__all__)


def test_importing_the_room_loads_no_store_and_no_torch():
    heavy = "{'chromadb', 'faiss', 'qdrant_client', 'sqlalchemy', 'torch'} & {*sys.modules}"
    code = f"import sys, dpicl_rag.stores; sys.exit(len({heavy}))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
