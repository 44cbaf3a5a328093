"""The page in a real browser: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import pytest

from dpicl_rag.server.uploads import Uploads
from tests.support.bucket_embedder import BucketEmbedder
from tests.support.chromium import browsing


@pytest.fixture(scope="module")
def chromium():
    with browsing() as browser:
        yield browser


@pytest.fixture
def visit(chromium):
    """Open a page; what it said on its console is an error but for refused requests."""
    contexts, said = [], []

    def open(url, size=None, scheme="light"):
        size = size or {"width": 1280, "height": 800}
        context = chromium.new_context(viewport=size, color_scheme=scheme, locale="en-GB")
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("console", lambda line: said.append(line.text) if line.type == "error" else None)
        page.goto(url)
        return page

    yield open
    for context in contexts:
        context.close()
    assert not [line for line in said if "Failed to load resource" not in line]


@pytest.fixture
def start(serve, tmp_path):
    """A server with notes on the canteen, which takes uploads."""
    from tests.support.page import MODEL, NOTES

    def start(keys=None, model=MODEL, documents=NOTES, **more):
        uploads = Uploads(tmp_path / "store", BucketEmbedder(), most_bytes=2**20)
        owner = {"uploads": uploads, "published": tmp_path / "published"}
        settings = {"max_tokens": 32, **more}
        return serve(keys, model=model, documents=documents, owner=owner, **settings)

    return start


@pytest.fixture
def buckets(monkeypatch):
    """Surveys embed without a model."""
    monkeypatch.setattr("dpicl_rag.surveys.surveying.SentenceTransformerEmbedder", BucketEmbedder)
