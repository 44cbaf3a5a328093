"""Addresses of Chroma servers, where folders may stand."""

from __future__ import annotations

import http.server
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

from dpicl_rag.corpora import Corpus
from dpicl_rag.errors import CorpusError
from dpicl_rag.retrieval.store import beside
from dpicl_rag.stores.chroma_address import Address
from tests.support.chroma_server import free_port


@pytest.mark.parametrize(
    ("place", "address"),
    [
        ("http://chroma:8000", Address("http", "chroma", 8000)),
        ("http://chroma", Address("http", "chroma", 8000)),
        ("https://chroma.example.org/", Address("https", "chroma.example.org", 443)),
        ("http://[::1]:9", Address("http", "::1", 9)),
        ("notes", None),
        ("./http", None),
        (Path("notes"), None),
        (None, None),
    ],
)
def test_a_place_is_an_address_or_a_folder(place, address):
    assert Address.of(place) == address
    if address is not None:
        assert Address.of(str(address)) == address


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
        Corpus.names(place)
    assert "secret" not in str(refused.value)


def test_files_of_ones_own_lie_beside_a_folder_and_for_a_server_in_the_data_folder(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert beside(tmp_path / "store", "read") == tmp_path / "store-read"
    data = tmp_path / "data" / "dpicl-rag"
    assert beside(None, "read") == data / "chroma-read"
    assert beside("http://[::1]:9", "read") == data / "chroma-at-%3A%3A1-9-read"


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
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def test_where_none_answers_one_sentence_says_so():
    port = free_port()
    with pytest.raises(CorpusError, match=f"no Chroma server answers at http://127.0.0.1:{port};"):
        Corpus.names(f"http://127.0.0.1:{port}")


@pytest.mark.parametrize("status", [200, 404])
def test_another_server_is_none_of_chroma(status):
    with something_else(status) as port, pytest.raises(CorpusError, match="no Chroma server"):
        Corpus.names(f"http://127.0.0.1:{port}")
