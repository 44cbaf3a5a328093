import pytest

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.labels import label_tokens


def test_labels_are_encoded_with_their_lead(tiny_model):
    assert label_tokens(tiny_model, ["yes", "no"], " ") == [
        tiny_model.encode(" yes"),
        tiny_model.encode(" no"),
    ]


def test_nested_labels_all_get_an_end(tiny_model):
    end = min(tiny_model.stop_tokens)
    tokens = label_tokens(tiny_model, ["sport", "sports", "art"], "")
    assert [ids[-1] for ids in tokens] == [end] * 3


@pytest.mark.parametrize("labels", [[], ["one"], ["a", ""], ["a", "  "]])
def test_too_few_or_empty_labels_are_refused(tiny_model, labels):
    with pytest.raises(ConfigurationError, match="at least two"):
        label_tokens(tiny_model, labels, "")


@pytest.mark.parametrize("labels", [["a", "a"], ["a", " a "]])
def test_labels_that_cannot_be_told_apart_are_refused(tiny_model, labels):
    with pytest.raises(ConfigurationError, match="told apart"):
        label_tokens(tiny_model, labels, "")
