from __future__ import annotations

import pytest

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.language_models.server_address import COMPLETIONS, ServerAddress


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "openai+http://127.0.0.1:8000/v1#tiny",
            ("http://127.0.0.1:8000/v1", "tiny", {}),
        ),
        ("openai+https://host/v1/", ("https://host/v1", "", {})),
        ("openai+http://[::1]:80/v1#a/b:c", ("http://[::1]:80/v1", "a/b:c", {})),
        (
            "openai+http://host/v1?tokenizer=%2Fmodels%2Fa&context=4096&deadline=1.5#m",
            (
                "http://host/v1",
                "m",
                {"tokenizer": "/models/a", "context": 4096, "deadline": 1.5},
            ),
        ),
        (
            "openai+http://host/v1?tokenizer=/models/a",
            ("http://host/v1", "", {"tokenizer": "/models/a"}),
        ),
    ],
)
def test_addresses(text, found):
    assert COMPLETIONS.meant(text)
    assert COMPLETIONS.parse(text) == ServerAddress(*found)


@pytest.mark.parametrize(
    "text",
    [
        "openai+",
        "openai+ftp://host/v1",
        "openai+http:///v1",
        "openai+http://host:many/v1",
        "openai+http://host/v1?tokeniser=a",
        "openai+http://host/v1?context=many",
        "openai+http://host/v1?context=0",
        "openai+http://host/v1?deadline=0",
        "openai+http://host/v1?deadline=inf",
        "openai+http://host/v1?deadline=nan",
        "openai+http://host/v1?tokenizer",
        "http://host/v1",
    ],
)
def test_what_is_no_address_is_one_line_that_shows_one(text):
    with pytest.raises(ConfigurationError, match="looks like openai\\+http://"):
        COMPLETIONS.parse(text)


def test_a_key_has_no_place_in_an_address():
    with pytest.raises(ConfigurationError, match="DPICL_RAG_API_KEY") as caught:
        COMPLETIONS.parse("openai+http://user:hunter2@host/v1")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("text", ["HuggingFaceTB/SmolLM2", "/models/openai", None, ("a", "b")])
def test_other_models_are_not_meant(text):
    assert not COMPLETIONS.meant(text)
