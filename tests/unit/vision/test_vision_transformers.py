"""A vision-language model of transformers: random weights, processor and model built here."""

from __future__ import annotations

import pytest
import torch

from dpicl_rag.errors import ConfigurationError, MissingDependencyError, ModelError
from dpicl_rag.vision import Example, VisionLanguageModel, load_vision_model
from dpicl_rag.vision.base import read_picture
from tests.support.images import an_image
from tests.support.tiny_vision import build_tiny_vision

SIDE = 32
LABELS = ("dax", "blicket", "perpo")


def picture(*colour):
    return read_picture(an_image(colour), SIDE)


RED, BLUE = picture(255, 0, 0), picture(0, 0, 255)


@pytest.fixture(scope="module", params=["chat", "plain"])
def model(request):
    return VisionLanguageModel(*build_tiny_vision(request.param == "chat"), side=SIDE, examples=2)


def test_a_row_is_a_distribution_that_depends_on_pictures_and_names(model):
    def row(*examples, query=RED):
        return model.label_log_probs([Example(*one) for one in examples], query, LABELS)

    rows = [
        row(),
        row(query=BLUE),
        row((RED, "dax")),
        row((BLUE, "dax")),
        row((RED, "perpo")),
        row((RED, "dax"), (BLUE, "perpo")),
    ]
    for one in rows:
        assert (one.dtype, one.shape) == (torch.float64, (3,))
        assert float(one.exp().sum()) == pytest.approx(1)
    assert len({tuple(one.tolist()) for one in rows}) == len(rows)


def test_a_row_is_that_of_the_model_by_itself(model):
    """Against a generation step of the model's own: the first tokens of the labels."""
    inputs = model._prompt([Example(BLUE, "dax")], RED)
    with torch.inference_mode():
        logits = model._model(**inputs).logits[0, -1].double()
    single = ("a", "b")  # a space and a letter: the second token decides
    space, *letters = (model._tokenizer.encode(word)[0] for word in (" ", "a", "b"))
    ids = torch.cat([inputs["input_ids"], torch.tensor([[space]])], dim=1)
    more = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    with torch.inference_mode():
        logits = model._model(**{**inputs, **more}).logits[0, -1].double()
    expected = torch.log_softmax(logits[letters], dim=0)
    found = model.label_log_probs([Example(BLUE, "dax")], RED, single)
    assert torch.allclose(found, expected, atol=1e-5)


def test_rows_keep_their_bits_after_others(model):
    one = [Example(RED, "dax")]
    before = model.label_log_probs(one, BLUE, LABELS)
    model.label_log_probs([*one, Example(BLUE, "perpo")], RED, LABELS)
    assert torch.equal(before, model.label_log_probs(one, BLUE, LABELS))


def test_no_more_examples_are_read_than_fit(model):
    two = [Example(RED, "dax"), Example(BLUE, "perpo")]
    most = model.label_log_probs(two, RED, LABELS)
    assert torch.equal(most, model.label_log_probs([*two, Example(BLUE, "dax")], RED, LABELS))


def test_a_model_that_remembers_what_it_has_read_is_refused():
    model, processor = build_tiny_vision()

    def remembers(module, given, output):
        module.weight.data += 1e-3

    model.lm_head.register_forward_hook(remembers)
    with pytest.raises(ModelError, match="change with what it has read before"):
        VisionLanguageModel(model, processor, side=SIDE)


def test_a_prompt_that_cannot_fit_is_refused_at_once():
    model, processor = build_tiny_vision(max_position_embeddings=64)
    with pytest.raises(ConfigurationError, match="lower examples or side"):
        VisionLanguageModel(model, processor, side=SIDE, examples=9)


def test_it_is_loaded_from_a_folder(tmp_path):
    built = build_tiny_vision()
    for part in built:
        part.save_pretrained(tmp_path)
    models = load_vision_model(tmp_path), VisionLanguageModel(*built)
    query = read_picture(an_image(), models[0].side)
    assert torch.equal(*(model.label_log_probs((), query, LABELS) for model in models))
    with pytest.raises(ModelError, match="give a folder with a saved model and its processor"):
        load_vision_model(str(tmp_path / "missing"))


def test_a_processor_that_needs_more_names_it(tmp_path, monkeypatch):
    import transformers

    def fails(path):
        raise ImportError("it requires the Torchvision library")

    monkeypatch.setattr(transformers.AutoProcessor, "from_pretrained", fails)
    with pytest.raises(MissingDependencyError, match="most often it is torchvision"):
        load_vision_model(tmp_path)
