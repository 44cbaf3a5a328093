"""Label heads of bundles: the share that is charged is the one that their noise is drawn for."""

from __future__ import annotations

import shutil
from fractions import Fraction

import pytest

from dpicl_rag import (
    Bundle,
    ConfigurationError,
    Corpus,
    Document,
    Ledger,
    PrivateContextLLM,
    Request,
    publish,
)
from dpicl_rag.accounting import Adjacency
from dpicl_rag.mechanisms.discrete_noise import DiscreteGaussian
from dpicl_rag.mechanisms.points import GRID
from dpicl_rag.publishing import plan_publication
from dpicl_rag.retrieval.retrievers import GivenDocuments
from dpicl_rag.synthesis.label_head import LabelHead
from tests.support.bucket_embedder import BucketEmbedder
from tests.support.private_rows import price
from tests.support.scripted_model import ScriptedModel
from tests.support.written_embedder import WrittenEmbedder

EPSILON = 4.0
LABELS = ("open", "closed")
HEAD = Request.of("label-head", column="status", labels=LABELS)
COLUMN = Request.of("column", column="status", labels=LABELS)
BOTH = [COLUMN, HEAD]
SECRET = "xyzzy"


WRITTEN = WrittenEmbedder({"open": "0 1 0", "closed": "0 -1 0", "here": "0 0 1", "there": "1 0 0"})


class Listed(list):
    """Documents with an embedding model, as a corpus has one."""

    embedder = WRITTEN


def unit(name, *own):
    return [Document(text, name, {"status": status}) for text, status in own]


def llm_over(ledger=None, **settings):
    return PrivateContextLLM(ScriptedModel({"": "?"}), ledger=ledger, corpus="notes", **settings)


BASE = [*unit("a", ("1 1 0", "open")), *unit("b", ("0 0 3", " closed "), ("-1 0 0", "closed"))]
OWN = [("1 0 0", "open"), ("-1 0 0", "closed"), ("-1 0 0", "open"), ("1 2 2", "other")]
UNITS = [
    *(unit("u", one) for one in OWN),
    unit("u", ("nan 0 0", "closed")),
    unit("u", ("1 2 2", None)),
    unit("u", *[OWN[0]] * 5, OWN[1]),
    unit("u", *OWN),
]


@pytest.fixture
def release(tmp_path):
    """Publish counts of a column and a label head; every number that is released."""
    numbers = iter(range(10_000))

    def of(**settings):
        def released(documents):
            into = tmp_path / str(next(numbers))
            llm = llm_over(**settings)
            column, head = publish(llm, Listed(documents), into, BOTH, epsilon=EPSILON).items
            counted = [one["units"] for one in column.numbers["counts"].values()]
            shutil.rmtree(into)
            return [*counted, *(n for row in head.numbers["sums"] for n in row)]

        return released

    return of


@pytest.mark.one_in(2)
@pytest.mark.parametrize("base", [[], BASE], ids=["nobody", "two"])
def test_a_unit_that_comes_costs_the_whole_bundle_and_no_more(release, base):
    plan = plan_publication(llm_over(), Listed(base), BOTH, epsilon=EPSILON)
    found = [price(release(), base, [*base, *own]) for own in UNITS]
    assert max(found) <= plan.rho
    assert max(found) == pytest.approx(plan.rho, rel=1e-6)


def test_a_unit_that_changes_costs_the_whole_bundle_and_no_more(release):
    replaced = {"adjacency": Adjacency.REPLACE_ONE}
    plan = plan_publication(llm_over(**replaced), Listed(BASE), BOTH, epsilon=EPSILON)
    one, other = unit("u", OWN[0]), unit("u", OWN[2])  # from one end of a sum to the other
    found = price(release(**replaced), [*BASE, *one], [*BASE, *other])
    assert found <= plan.rho
    head = plan.parts[1].rho
    assert found == pytest.approx(head, rel=1e-6)  # it keeps its value of the column


@pytest.mark.parametrize("gaussian", [False, True])
def test_told_is_charged_and_what_noise_is_drawn_for(tmp_path, gaussian):
    drawn = set()
    with Ledger(tmp_path / "ledger.sqlite") as ledger, pytest.MonkeyPatch.context() as patch:
        draw = DiscreteGaussian.draw
        patch.setattr(
            DiscreteGaussian, "draw", lambda one, coins: drawn.add(one) or draw(one, coins)
        )
        ledger.set_budget(corpus="notes", epsilon=8.0, gaussian=gaussian)
        llm = llm_over(ledger)
        plan = plan_publication(llm, Listed(BASE), [HEAD], epsilon=EPSILON)
        assert ledger.status()[0].spent == 0
        [head] = publish(llm, Listed(BASE), tmp_path / "bundle", [HEAD], epsilon=EPSILON).items
        [told], spent = plan.parts, ledger.status()[0].spent
    assert (told.name, told.what) == ("label-head", "Which status does a text have?")
    assert head.rho == told.rho == plan.rho <= plan.rho_of_budget
    assert spent == pytest.approx(told.rho, rel=1e-12)
    [noise] = drawn
    assert noise.fine == gaussian
    assert head.numbers["sigma"] == noise.sigma / GRID
    bought = Fraction(GRID) ** 2 / (2 * Fraction(noise.sigma) ** 2)
    assert Fraction(told.rho) * Fraction("0.999999") < bought <= Fraction(told.rho)
    assert Fraction(spent) * (1 + Fraction(1, 10**12)) >= bought


@pytest.fixture
def bundle(tmp_path):
    """A bundle on a machine that never had the corpus."""
    said = [
        Document(f"the {place} {SECRET}{n}", f"{SECRET}-{place}-{n}", {"status": status})
        for n in range(60)
        for place, status in (("canteen", "open"), ("sauna", "closed"), ("pool", SECRET))
    ]
    with Corpus.create("mail", tmp_path / "store", embedder=BucketEmbedder()) as corpus:
        corpus.add(said, no_ledger=True)
        publish(llm_over(), corpus, tmp_path / "made", BOTH, epsilon=EPSILON)
    shutil.copytree(tmp_path / "made", tmp_path / "elsewhere")
    shutil.rmtree(tmp_path / "store")
    shutil.rmtree(tmp_path / "made")
    return Bundle.open(tmp_path / "elsewhere", embedder=BucketEmbedder())


def test_a_bundle_labels_new_texts_for_nothing(bundle):
    llm = llm_over()
    for text, label in (("canteen", "open"), ("Sauna", "closed")):
        found = llm.classify(text, bundle)
        assert (found.label, found.epsilon, found.delta, found.rho) == (label, 0.0, 0.0, 0.0)
        assert llm.classify(text, bundle, LABELS[::-1]) == found
        assert llm.ask(text, bundle, kind="label") == found
    answer = llm.begin(Request.of("label", question="sauna"), bundle).whole()
    assert (answer.text, answer.by, answer.epsilon) == ("closed", "published", 0.0)
    assert answer.from_memory
    assert LabelHead.published(bundle).labels_of(["canteen", "sauna"]) == ["open", "closed"]


def test_no_byte_of_a_private_text_is_beside_a_head(bundle, tmp_path):
    files = [file for file in (tmp_path / "elsewhere").rglob("*") if file.is_file()]
    assert len(files) == len(bundle.items) + 2  # the manifest, and an empty lock
    assert not any(SECRET.encode() in file.read_bytes() for file in files)


def test_a_head_with_other_noise_is_another(tmp_path):
    made = [
        publish(llm_over(), Listed(BASE), tmp_path, [HEAD], epsilon=EPSILON, again=again)
        for again in (False, True)
    ]
    assert [bundle.changes for bundle in made] == [(), ("other: Which status does a text have?",)]


def test_a_head_is_no_answer_to_a_question(bundle):
    assert bundle.items[1].asked == "Which status does a text have?"
    assert bundle.find(bundle.items[1].asked) is None
    assert all(one.kind == "column" for one in bundle.nearest("Which status has a text?"))


@pytest.mark.parametrize(
    ("labels", "embedder", "why"),
    [
        (("yes", "no"), BucketEmbedder(), "one of the bundle's label heads: open, closed"),
        ((), WRITTEN, "of the embedding model buckets"),
    ],
)
def test_other_labels_and_models_are_refused(bundle, tmp_path, labels, embedder, why):
    other = Bundle.open(tmp_path / "elsewhere", embedder=embedder)
    with pytest.raises(ConfigurationError, match=why):
        llm_over().classify("a canteen", other, labels)


def test_of_several_heads_labels_name_one(tmp_path):
    requests = [HEAD, Request.of("label-head", column="place", labels=("here", "there"))]
    publish(llm_over(), Listed(BASE), tmp_path / "bundle", requests, epsilon=EPSILON)
    bundle = Bundle.open(tmp_path / "bundle", embedder=WRITTEN)
    assert LabelHead.published(bundle, ("there", "here")).labels == ("here", "there")
    with pytest.raises(ConfigurationError, match="open, closed; here, there"):
        LabelHead.published(bundle)
    publish(llm_over(), Listed(BASE), tmp_path / "other", [COLUMN], epsilon=EPSILON)
    with pytest.raises(ConfigurationError, match="has no label head"):
        LabelHead.published(Bundle.open(tmp_path / "other"))


@pytest.mark.parametrize(
    ("labels", "settings", "why"),
    [
        (("open",), {}, "at least two labels"),
        (("open", "open"), {}, "twice"),
        ((), {}, "public list"),
        (LABELS, {"accounting": "individual"}, "all units of a label head pay"),
        (LABELS, {"groups": 3}, "all units of a label head pay"),
    ],
)
def test_what_cannot_be_a_head_is_refused_before_anything_is_paid(labels, settings, why):
    request = Request.of("label-head", column="status", labels=labels)
    with pytest.raises(ConfigurationError, match=why):
        plan_publication(llm_over(**settings), Listed(BASE), [request], epsilon=EPSILON)


def test_a_head_is_of_all_units():
    with pytest.raises(ConfigurationError, match="of all units"):
        llm_over().run(HEAD.settled(), GivenDocuments(BASE))
