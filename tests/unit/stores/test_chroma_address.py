"""Addresses of Chroma servers, where folders may stand."""

from __future__ import annotations

import http.server
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

from dpicl_rag.corpora import Corpus
from dpicl_rag.corpora.folder import beside, local_path
from dpicl_rag.errors import ConfigurationError, CorpusError, MissingDependencyError
from dpicl_rag.stores.chroma import ChromaCollection, CollectionAddress
from dpicl_rag.stores.chroma_client import ChromaAddress
from tests.support.bucket_embedder import BucketEmbedder
from tests.support.chroma_server import free_port


@pytest.mark.parametrize(
    ("place", "address"),
    [
        ("http://chroma:8000", ChromaAddress("http", "chroma", 8000)),
        ("http://chroma", ChromaAddress("http", "chroma", 8000)),
        ("https://chroma.example.org/", ChromaAddress("https", "chroma.example.org", 443)),
        ("http://[::1]:9", ChromaAddress("http", "::1", 9)),
        ("notes", None),
        ("./http", None),
        (Path("notes"), None),
        (None, None),
    ],
)
def test_a_place_is_an_address_or_a_folder(place, address):
    assert ChromaAddress.of(place) == address
    if address is not None:
        assert ChromaAddress.of(str(address)) == address


@pytest.mark.parametrize(
    "place",
    [
        "ftp://chroma:8000",
        "http://",
        "http://chroma:eight",
        "http://chroma:8000/store",
        "http://ann:secret@chroma:8000",
        "http://chroma?tenant=ann",
    ],
)
def test_what_is_neither_is_refused_and_not_repeated(place):
    with pytest.raises(CorpusError, match="is http://HOST:PORT or") as refused:
        ChromaCollection.open(f"chroma:{place}#notes")
    assert "secret" not in str(refused.value)


def test_files_of_ones_own_lie_beside_a_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert beside(tmp_path / "store", "read") == tmp_path / "store-read"
    assert beside(None, "read") == tmp_path / "data" / "dpicl-rag" / "corpora-read"
    with pytest.raises(CorpusError, match="http://host:1 is an address"):
        local_path("http://host:1")


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("notes", None),
        ("chroma:notes#mail", CollectionAddress("notes", "mail")),
        ("chroma:/a#b/c#mail", CollectionAddress("/a#b/c", "mail")),
        (
            "chroma:http://host:8000#mail?unit=thread",
            CollectionAddress("http://host:8000", "mail", "thread"),
        ),
    ],
)
def test_addresses_of_collections(text, address):
    assert CollectionAddress.of(text) == address


@pytest.mark.parametrize("text", ["chroma:", "chroma:notes", "chroma:#mail", "chroma:a#b?c=d"])
def test_what_is_no_address_of_a_collection(text):
    with pytest.raises(ConfigurationError, match="chroma:FOLDER#COLLECTION"):
        CollectionAddress.of(text)


@contextmanager
def something_else(status):
    """A server that is no Chroma server."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status)
            self.end_headers()
            self.wfile.write(b"<h1>a page</h1>")

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def test_where_none_answers_one_sentence_says_so():
    port = free_port()
    with pytest.raises(CorpusError, match=f"no Chroma server answers at http://127.0.0.1:{port};"):
        ChromaCollection.open(f"chroma:http://127.0.0.1:{port}#notes")


@pytest.mark.parametrize("status", [200, 404])
def test_another_server_is_none_of_chroma(status):
    with something_else(status) as port, pytest.raises(CorpusError, match="no Chroma server"):
        ChromaCollection.open(f"chroma:http://127.0.0.1:{port}#notes")


def test_without_chroma_one_line_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "chromadb", None)
    (tmp_path / "chroma.sqlite3").write_bytes(b"")
    with pytest.raises(MissingDependencyError, match="chroma"):
        ChromaCollection.open(f"chroma:{tmp_path}#notes")
    made = Corpus.create("notes", tmp_path, embedder=BucketEmbedder())
    made.add(["a note"])
    assert len(made.records()) == 1
