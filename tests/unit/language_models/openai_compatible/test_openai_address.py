from __future__ import annotations

import pytest

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.language_models.openai_compatible.server_address import Address


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("openai+http://127.0.0.1:8000/v1#tiny", Address("http://127.0.0.1:8000/v1", "tiny")),
        ("openai+https://host/v1/", Address("https://host/v1")),
        ("openai+http://[::1]:80/v1#a/b:c", Address("http://[::1]:80/v1", "a/b:c")),
        (
            "openai+http://host/v1?tokenizer=%2Fmodels%2Fa&context=4096&deadline=1.5#m",
            Address("http://host/v1", "m", "/models/a", 4096, 1.5),
        ),
        ("openai+http://host/v1?tokenizer=/models/a", Address("http://host/v1", "", "/models/a")),
    ],
)
def test_addresses(text, found):
    assert Address.meant(text)
    assert Address.parse(text) == found


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
        Address.parse(text)


def test_a_key_has_no_place_in_an_address():
    with pytest.raises(ConfigurationError, match="DPICL_RAG_API_KEY") as caught:
        Address.parse("openai+http://user:hunter2@host/v1")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("text", ["HuggingFaceTB/SmolLM2", "/models/openai", None, ("a", "b")])
def test_other_models_are_not_meant(text):
    assert not Address.meant(text)
