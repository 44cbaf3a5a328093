"""The stand-ins, over a network of colours and over the packaged one."""

from __future__ import annotations

import math

import pytest
import torch

from dpicl_rag import _packaged
from dpicl_rag.errors import ConfigurationError, MissingDependencyError, ModelError
from dpicl_rag.vision import Example, load_vision_model
from dpicl_rag.vision.base import read_picture, rows_of_experts
from dpicl_research import stand_ins
from dpicl_research.efficient_net import EfficientNetLite
from dpicl_research.vision_prototype import VisionPrototype
from dpicl_research.vision_words import VisionWords
from tests.support.images import ColourNetwork, an_image

LABELS = ("dax", "blicket", "perpo")


def picture(*colour, side=8):
    return read_picture(an_image(colour), side)


RED, ORANGE, TEAL = picture(255, 0, 0), picture(255, 90, 0), picture(0, 255, 255)


def test_a_prototypes_row_is_the_softmax_of_cosines():
    model = VisionPrototype(ColourNetwork(), temperature=0.5, neutral=0.2)
    cosine = float(torch.dot(*(ColourNetwork().see(p).features for p in (RED, ORANGE))))
    row = model.label_log_probs([Example(ORANGE, "blicket")], RED, LABELS)
    expected = torch.log_softmax(torch.tensor([0.2, cosine, 0.2], dtype=torch.float64) / 0.5, 0)
    assert torch.allclose(row, expected, atol=2e-3)
    # Of two examples of a name their mean counts, in any order.
    two = [Example(ORANGE, "blicket"), Example(TEAL, "blicket")]
    row = model.label_log_probs(two, RED, LABELS)
    mean = torch.tensor([0.2, (cosine - 1) / 2, 0.2], dtype=torch.float64)
    assert torch.allclose(row, torch.log_softmax(mean / 0.5, 0), atol=2e-3)
    assert torch.equal(row, model.label_log_probs(two[::-1], RED, LABELS))


def test_names_without_examples_tie_but_for_a_hair_that_is_each_experts_own():
    model = VisionPrototype(ColourNetwork())
    pictures = [picture(0, 100 + n, 255) for n in range(24)]
    rows = [model.label_log_probs([Example(p, "dax")], RED, LABELS) for p in pictures]
    for row in rows:
        assert 0 < abs(float(row[1] - row[2])) < 1.1e-3
        assert row[0] < row[1] - 1
    assert 4 < sum(int(row.argmax()) == 1 for row in rows) < 20
    public = model.label_log_probs((), RED, LABELS)
    assert torch.allclose(public, torch.full((3,), -math.log(3)).double(), atol=1e-3)


@pytest.mark.parametrize("wrong", [{"temperature": 0.0}, {"neutral": 1.5}])
def test_settings_outside_their_range_are_refused(wrong):
    with pytest.raises(ConfigurationError):
        VisionPrototype(ColourNetwork(), **wrong)


def test_words_are_read_by_the_language_model(tiny_model):
    model = VisionWords(tiny_model, ColourNetwork())
    rows = [
        model.label_log_probs(examples, query, LABELS)
        for examples, query in [
            ((), RED),
            ((), TEAL),
            ([Example(TEAL, "dax")], RED),
            ([Example(TEAL, "perpo")], RED),
            ([Example(TEAL, "dax"), Example(RED, "perpo")], RED),
        ]
    ]
    for row in rows:
        assert (row.dtype, row.shape) == (torch.float64, (3,))
        assert float(row.exp().sum()) == pytest.approx(1)
    assert len({tuple(row.tolist()) for row in rows}) == len(rows)
    # The same words are the same row, and what was read in between moves no bit.
    assert torch.equal(rows[2], model.label_log_probs([Example(TEAL, "dax")], ORANGE, LABELS))


def test_rows_that_share_passes_keep_their_bits(tiny_model):
    model = VisionWords(tiny_model, ColourNetwork())
    experts = [[Example(TEAL, "dax")], (), [Example(RED, "perpo"), Example(TEAL, "dax")]]
    experts += [[Example(RED, label)] * n for n in (1, 3, 9) for label in LABELS]
    rows = rows_of_experts(model, experts, RED, LABELS)
    alone = [model.label_log_probs(examples, RED, LABELS) for examples in experts]
    assert torch.equal(rows, torch.stack(alone))


def test_more_examples_than_a_model_holds_cause_no_error(tiny_model):
    model = VisionWords(tiny_model, ColourNetwork())
    row = model.label_log_probs([Example(TEAL, "dax")] * 200, RED, LABELS)
    assert bool(row.isfinite().all())


def test_what_is_missing_is_named_with_its_remedy(monkeypatch):
    def missing(name):
        raise ImportError(name)

    stand_ins.register()
    monkeypatch.setattr(_packaged.importlib, "import_module", missing)
    for name in ("vision-prototype", "vision-words"):
        with pytest.raises(MissingDependencyError, match=r"pip install 'dpicl-research\[images\]'"):
            load_vision_model(name)


@pytest.fixture(scope="module")
def network():
    pytest.importorskip("efficientnet_lite_pytorch", reason="the extra images is not installed")
    return EfficientNetLite()


def grocery(data_folder, *names):
    import tarfile

    with tarfile.open(data_folder / "images_grocery.tar.gz") as archive:
        files = [archive.extractfile(f"train/{name}.jpg") for name in names]
        return [read_picture(file.read(), 224) for file in files]


def test_the_packaged_network_knows_a_banana(network, data_folder):
    bananas = grocery(data_folder, "banana/000", "banana/001")
    juice, pepper = grocery(data_folder, "juice/000", "pepper/000")
    assert network.see(bananas[0]).words[0] == "banana"
    assert network.see(pepper).words[0] == "bell pepper"
    assert len(network.see(juice).words) == 5
    same, other = (
        float(torch.dot(network.see(bananas[0]).features, network.see(p).features))
        for p in (bananas[1], juice)
    )
    assert other < 0.4 < same


def test_features_are_a_pictures_own_to_the_last_bit(network):
    """And the plant: statistics that move with what passes, as in training."""
    one, other = picture(255, 90, 0, side=224), picture(0, 100, 255, side=224)

    def holds(seeing, *, training):
        before = seeing._look(one).features
        seeing._network.train(training)
        seeing._look(other)
        seeing._network.eval()
        return torch.equal(before, seeing._look(one).features)

    assert holds(network, training=False)
    assert not holds(EfficientNetLite(), training=True)


def test_what_was_seen_with_other_threads_is_looked_at_anew(network):
    """Else old bits or new ones would follow from whether another picture had displaced them."""
    one, threads = picture(255, 90, 0, side=224), torch.get_num_threads()
    try:
        for count in (1, 2, 1):
            torch.set_num_threads(count)
            assert torch.equal(network.see(one).features, network._look(one).features)
    finally:
        torch.set_num_threads(threads)


def test_damaged_weights_are_not_loaded(network, monkeypatch):
    monkeypatch.setattr("dpicl_research.efficient_net._WEIGHTS_SHA256", "0" * 64)
    with pytest.raises(ModelError, match="is damaged or another version"):
        EfficientNetLite()
