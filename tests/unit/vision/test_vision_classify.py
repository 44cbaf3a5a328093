"""One private label of a picture: what it costs, who pays, and what is refused."""

from __future__ import annotations

import logging
import math
import warnings

import pytest

from dpicl_rag.accounting import RANDOM_GROUPS, Budget
from dpicl_rag.documents import Document
from dpicl_rag.errors import BudgetExceededError, ConfigurationError
from dpicl_rag.ledger import Ledger
from dpicl_rag.loaders import load_images
from dpicl_rag.mechanisms.randomness import Randomness
from dpicl_rag.methods import make
from dpicl_rag.vision import classify, classify_image
from dpicl_research.vision_prototype import VisionPrototype
from tests.support.images import ColourNetwork, an_image, unreadable

RED, TEAL = an_image((255, 0, 0)), an_image((0, 255, 255))
LABELS = ("dax", "blicket")


@pytest.fixture
def documents():
    return [
        *(Document("dax", f"r{n}", image=an_image((250 - n, 0, 0))) for n in range(6)),
        *(Document("blicket", f"t{n}", image=an_image((0, 250 - n, 255))) for n in range(6)),
    ]


@pytest.fixture
def ask(documents):
    def ask(query=RED, documents=documents, labels=LABELS, **more):
        settings = {"model": VisionPrototype(ColourNetwork()), "epsilon": 8.0, **more}
        return classify_image(query, documents, labels, **settings)

    return ask


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "method", ["poe", "votes", "votes-gaussian", "permute-and-flip", "permute-and-flip-votes"]
)
@pytest.mark.parametrize("groups", [None, 6])
def test_the_label_is_that_of_pictures_like_it(ask, method, groups):
    found = [ask(query, method=method, groups=groups) for query in [RED] * 9 + [TEAL] * 9]
    labels = [label.label for label in found]
    assert labels[:9].count("dax") >= 8
    assert labels[9:].count("blicket") >= 8
    assert {label.epsilon for label in found} == {8.0}
    assert {label.delta for label in found} == {1e-5 if method == "votes-gaussian" else 0.0}


def test_images_come_from_a_folder(ask, tmp_path, documents):
    for document in documents:
        folder = tmp_path / document.text
        folder.mkdir(exist_ok=True)
        (folder / f"{document.unit}.png").write_bytes(document.image)
    loaded = load_images(tmp_path).documents
    (tmp_path / "query.png").write_bytes(TEAL)
    assert ask(tmp_path / "query.png", loaded).label == "blicket"


def test_groups_pay_for_a_changed_expert(ask, documents):
    class Coins(Randomness):
        def draw(self, scores):
            self.spread = float(scores.max() - scores.min())
            return 0

    alone, grouped = Coins(), Coins()
    ask(documents=documents[:1], randomness=alone)
    ask(documents=documents[:1], randomness=grouped, groups=3)
    assert grouped.spread == pytest.approx(alone.spread / 2)
    budget = Budget(8.0, 1e-5)
    lone, changed = (
        make("poe").calibrate(each).parameter for each in (budget, budget.then(RANDOM_GROUPS))
    )
    assert changed == lone / 2


def test_documents_of_one_unit_are_one_expert(documents):
    class Coins(Randomness):
        def below(self, bound):
            return 1

    for groups, sizes in ((None, [2, 1]), (2, [0, 3])):
        units = {"a": documents[:2], "b": documents[6:7]}
        assert [len(own) for own in classify.grouped(units, groups, Coins())] == sizes


def test_the_ledger_is_charged_once_for_a_label(ask, tmp_path):
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        ledger.set_budget(corpus="photos", rho=1.0)
        label = ask(ledger=ledger, corpus="photos", epsilon=2.0)
        assert label.rho == pytest.approx(2.0**2 / 8)
        (status,) = ledger.status()
        assert status.spent == pytest.approx(label.rho)
        with pytest.raises(BudgetExceededError):
            ask(ledger=ledger, corpus="photos", epsilon=8.0)


def test_no_label_is_paid_for_where_the_query_is_refused(ask, tmp_path):
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        ledger.set_budget(corpus="photos", rho=1.0)
        with pytest.raises(ConfigurationError, match="the query is no JPEG or PNG"):
            ask(b"no image", ledger=ledger, corpus="photos")
        assert ledger.status()[0].spent == 0


@pytest.mark.parametrize("groups", [None, 2])
def test_no_document_ends_a_label(ask, documents, groups):
    odd = [
        *(Document("dax", name, image=image) for name, image in unreadable().items()),
        Document("SECRET", "s", image=RED),
        Document("dax", "nothing"),
        Document(None, "no text", image=RED),
        Document("", "empty", image=b""),
        *(Document(label, "odd", image=RED) for label in (["dax"], {}, None, 7, math.nan, b"dax")),
    ]
    assert ask(documents=[*odd, *documents], groups=groups).label == "dax"
    assert ask(documents=odd, groups=groups).label in LABELS
    assert ask(documents=[], groups=groups).label in LABELS


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"labels": ("dax",)}, "at least two labels"),
        ({"labels": "dax"}, "public list"),
        ({"labels": [["dax"], "wug"]}, "public list"),
        ({"method": "poe-prior"}, "use poe"),
        ({"method": "sampling"}, "cannot label"),
        ({"accounting": "individual"}, "accounting='fixed'"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"documents": [1]}, "must be Document or str"),
    ],
)
def test_what_does_not_fit_is_refused(ask, more, says):
    with pytest.raises(ConfigurationError, match=says):
        ask(**more)


@pytest.mark.parametrize("wrong", sorted(unreadable()))
def test_nothing_is_heard_of_what_cannot_be_read(ask, documents, wrong, caplog, capfd):
    """Logs of every level are the same with and without it, and there is no warning."""
    caplog.set_level(logging.DEBUG)

    def heard(documents):
        caplog.clear()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            ask(documents=documents)
        lines = [(record.name, record.getMessage()) for record in caplog.records]
        return lines, [str(warning.message) for warning in caught], capfd.readouterr()

    broken = Document("dax", "b", image=unreadable()[wrong])
    assert heard([*documents, broken]) == heard(documents)
