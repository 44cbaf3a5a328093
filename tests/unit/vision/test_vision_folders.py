"""Pictures read by Qwen2.5-VL's and InternVL's architecture, from folders, by the library's loader.

The weights are random: what is tested is that a user's own folder is read, that it sees pictures,
and that an expert's row is a function of its own unit's pictures to the last bit.
"""

from __future__ import annotations

import math

import pytest
import torch

from dpicl_rag.documents import Document
from dpicl_rag.errors import MissingDependencyError, ModelError
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.vision import Example, VisionLanguageModel, classify_image, load_vision_model
from dpicl_rag.vision.base import read_picture, read_rows
from tests.support.images import an_image, unreadable
from tests.support.tiny_vision_folders import save_tiny_internvl, save_tiny_qwen

LABELS = ("dax", "blicket", "perpo")
COLOURS = {"red": (255, 0, 0), "blue": (0, 0, 255), "green": (0, 200, 40)}


SAVED = {"Qwen2_5_VL": save_tiny_qwen, "InternVL": save_tiny_internvl}


@pytest.fixture(scope="module", params=list(SAVED))
def folder(request, tmp_path_factory):
    return SAVED[request.param](tmp_path_factory.mktemp(request.param))


@pytest.fixture(scope="module")
def model(folder):
    return load_vision_model(folder)


@pytest.fixture(scope="module")
def pictures(model):
    return {name: read_picture(an_image(c), model.side) for name, c in COLOURS.items()}


def unit(name, colour, label):
    return Document(label, name, image=an_image(COLOURS[colour]))


UNITS = [
    unit("a", "red", "dax"),
    unit("b", "blue", "blicket"),
    unit("c", "green", "perpo"),
    unit("d", "red", "blicket"),
]


def test_a_folder_is_loaded_with_its_own_processor(model, folder):
    assert isinstance(model, VisionLanguageModel)
    name = folder.name.rstrip("0123456789")
    assert type(model._model).__name__ == f"{name}ForConditionalGeneration"
    assert type(model._processor).__name__ == f"{name}Processor"
    assert model._processor.chat_template


def test_rows_follow_from_pictures_and_from_names(model, pictures):
    red, blue = pictures["red"], pictures["blue"]
    rows = [
        model.label_log_probs(examples, query, LABELS)
        for examples, query in [
            ((), red),
            ((), blue),
            ([Example(red, "dax")], red),
            ([Example(blue, "dax")], red),
            ([Example(red, "perpo")], red),
            ([Example(red, "dax"), Example(blue, "perpo")], red),
        ]
    ]
    for row in rows:
        assert (row.dtype, row.shape) == (torch.float64, (3,))
        assert float(row.exp().sum()) == pytest.approx(1)
    assert len({tuple(row.tolist()) for row in rows}) == len(rows)


@pytest.mark.one_in(2)
def test_a_row_is_that_of_its_own_unit_to_the_last_bit(model, pictures):
    def rows(units):
        return read_rows(model, [[one] for one in units], pictures["red"], LABELS)

    whole = rows(UNITS)
    for place, one in enumerate(UNITS):
        alone = rows([one])
        assert torch.equal(alone.experts[0], whole.experts[place])
        assert torch.equal(alone.public, whole.public)
        without = rows([*UNITS[:place], *UNITS[place + 1 :]])
        kept = torch.cat([whole.experts[:place], whole.experts[place + 1 :]])
        assert torch.equal(without.experts, kept)
    # Longer ones before and behind move nothing either.
    long = [Document(d.text, "long", image=d.image) for d in UNITS]
    company = read_rows(model, [long, [UNITS[0]], long], pictures["red"], LABELS)
    assert torch.equal(company.experts[1], whole.experts[0])


def test_a_model_that_remembers_lengths_is_refused(tmp_path, monkeypatch):
    """A planted fault: positions of an earlier prompt, as Qwen keeps them between passes."""
    sound = load_vision_model(save_tiny_qwen(tmp_path))
    inner = sound._model.model
    right = inner.compute_3d_position_ids

    def stale(*given, **named):
        before = inner.rope_deltas
        found = right(*given, **named)
        return found if before is None else found + before.view(1, -1, 1).abs()

    monkeypatch.setattr(inner, "compute_3d_position_ids", stale)
    with pytest.raises(ModelError, match="change with what it has read before"):
        VisionLanguageModel(sound._model, sound._processor)


@pytest.mark.one_in(2)
def test_one_unit_moves_the_label_by_its_charge_and_no_more(model):
    class Kept(Randomness):
        def __init__(self):
            self.log_probs = torch.zeros(0)

        def draw(self, scores):
            self.log_probs = torch.log_softmax(scores, dim=0)
            return 0

    def released(units, method):
        kept = Kept()
        query = an_image(COLOURS["red"])
        classify_image(
            query, units, LABELS, model=model, method=method, randomness=kept, epsilon=2.0
        )
        return kept.log_probs

    for method in ("poe", "votes"):
        whole = released(UNITS, method)
        less = [released([*UNITS[:i], *UNITS[i + 1 :]], method) for i in range(len(UNITS))]
        moved = [float((whole - one).abs().max()) for one in less]
        assert 0 < max(moved) <= 2.0 + 1e-9


@pytest.mark.parametrize("wrong", ["cut off", "a bomb", "text"])
def test_a_picture_that_cannot_be_read_has_no_row(model, pictures, wrong):
    broken = Document("dax", "broken", image=unreadable()[wrong])
    found = read_rows(model, [[UNITS[0]], [broken]], pictures["red"], LABELS)
    assert len(found.experts) == 1


def test_a_folder_whose_pictures_need_more_names_it(folder, monkeypatch):
    def missing(*_):
        raise ImportError("it requires the Torchvision library")

    monkeypatch.setattr("transformers.AutoProcessor.from_pretrained", missing)
    monkeypatch.setattr("transformers.AutoImageProcessor.from_pretrained", missing)
    with pytest.raises(MissingDependencyError, match="most often it is torchvision"):
        load_vision_model(folder)


def test_the_row_is_that_of_the_model_by_itself(model, pictures):
    """Against a generation of the model's own code: its scores of the first token."""
    prompt = model._prompt([Example(pictures["blue"], "dax")], pictures["red"])
    space = model._tokenizer.encode(" ")[0]
    with torch.inference_mode():
        own = model._model.generate(
            **prompt, max_new_tokens=1, do_sample=False, output_logits=True,
            return_dict_in_generate=True,
        )  # fmt: skip
        found = model._score(prompt, [space])
    said = torch.log_softmax(own.logits[0][0].double(), dim=0)[space]
    assert math.isfinite(found)
    assert found == pytest.approx(float(said), abs=1e-5)
