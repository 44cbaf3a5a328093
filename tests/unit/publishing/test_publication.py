"""Publications: one budget, shared and paid, and nothing in the folder but what was released."""

from __future__ import annotations

import json
import sys
from fractions import Fraction

import pytest

from dpicl_rag import (
    AnswerMemory,
    Bundle,
    ConfigurationError,
    Document,
    Ledger,
    PrivateContextLLM,
    Rehearsal,
    Request,
    publish,
)
from dpicl_rag.accounting import rho_to_epsilon
from dpicl_rag.accounting.budget import SHARES
from dpicl_rag.answering import private_run
from dpicl_rag.errors import BudgetExceededError, LedgerError
from dpicl_rag.knowledge.bundle import ABOUT
from dpicl_rag.ledger.account import Account
from dpicl_rag.ledger.reservation import Reservation
from dpicl_rag.publishing import plan_publication, records_item, remembered_items
from dpicl_rag.publishing.publication_folder import ReleaseFolder
from dpicl_rag.surveys import subjects as subjects_of_units
from dpicl_rag.surveys import summaries
from dpicl_rag.synthesis import Synthesis, SyntheticRecord
from tests.support.bucket_embedder import BucketEmbedder
from tests.support.full_disk import full_disk
from tests.support.scripted_model import ScriptedModel
from tests.unit.publishing.conftest import REQUESTS, SECRET, TOLD

EPSILON, DELTA = 6.0, 1e-5
FIXED = REQUESTS[:2]  # what every unit pays the same for, so that sums are exact


class Killed(BaseException):
    """The end of the process, at this instant."""


def spent(ledger):
    return sum(Fraction(one.spent) for one in ledger.status() if one.kind == "corpus")


def test_all_items_together_keep_the_budget(corpus, ledger, make_llm, tmp_path):
    llm = make_llm(ledger)
    plan = plan_publication(llm, corpus, REQUESTS, epsilon=EPSILON)
    assert spent(ledger) == 0
    made = publish(llm, corpus, tmp_path / "bundle", REQUESTS, epsilon=EPSILON)
    charged = sum(Fraction(part.rho) for part in plan.parts)
    assert spent(ledger) <= charged * (1 + Fraction(1, 10**12))
    thresholds = sum(part.delta for part in plan.parts)
    rest = SHARES.beside_pool(DELTA)
    assert thresholds <= DELTA - rest
    assert 0.999 * EPSILON < rho_to_epsilon(float(charged), rest) <= EPSILON
    assert all(item.rho <= part.rho for item, part in zip(made.items, plan.parts, strict=True))
    assert (made.epsilon, made.delta, made.rho) == (EPSILON, DELTA, plan.rho)


def test_prices_follow_from_public_numbers_alone(corpus, ledger, make_llm, tmp_path):
    plan = plan_publication(make_llm(ledger), corpus, REQUESTS, epsilon=EPSILON)
    corpus.add([Document("another one", "new")], no_ledger=True)
    assert plan_publication(make_llm(ledger), corpus, REQUESTS, epsilon=EPSILON) == plan


def test_every_item_is_an_ordinary_release_at_its_share(
    corpus, ledger, make_llm, tmp_path, monkeypatch
):
    asked, run = [], PrivateContextLLM.run

    def noted(self, request, documents, **given):
        asked.append((request, self.config.epsilon, self.config.delta))
        return run(self, request, documents, **given)

    monkeypatch.setattr(PrivateContextLLM, "run", noted)
    llm = make_llm(ledger)
    plan = plan_publication(llm, corpus, REQUESTS, epsilon=EPSILON)
    publish(llm, corpus, tmp_path / "bundle", REQUESTS, epsilon=EPSILON)
    wanted = zip(plan.requests, plan.epsilons, strict=True)
    assert asked == [(request, epsilon, DELTA) for request, epsilon in wanted]


def test_a_question_in_steps_pays_for_all_of_them_from_its_share(ledger, make_llm, corpus):
    nested = "When does the person in charge of invoices have office hours?"
    requests = [*FIXED, Request.of("answer", question=nested)]
    plan = plan_publication(make_llm(ledger), corpus, requests, epsilon=EPSILON)
    *_, steps = plan.parts
    assert 0.95 * plan.rho_of_budget / 3 < steps.rho <= plan.rho_of_budget / 3
    assert plan.epsilons[-1] < 0.8 * plan.epsilons[0]  # of one step


def test_a_question_without_a_kind_is_published_as_what_it_asks_for(make_llm, corpus):
    """Also where no ledger says how many answers share the delta of thresholds."""
    questions = ("When does the office open?", "Who has the key?", "Where is the office?")
    open_, settled = (
        plan_publication(
            make_llm(),
            corpus,
            [Request.of(kind, question=one) for one in questions],
            epsilon=EPSILON,
        )
        for kind in (None, "answer")
    )
    assert open_ == settled


def test_weights_are_parts_of_the_budget(make_llm, corpus):
    plan = plan_publication(make_llm(), corpus, FIXED, epsilon=EPSILON, weights=[3, 1])
    first, second = (part.rho for part in plan.parts)
    assert first == pytest.approx(3 * second)
    assert first + second <= plan.rho_of_budget


@pytest.mark.parametrize(
    ("requests", "why"),
    [
        ([], "nothing is asked for"),
        ([Request.of("label", question="?", labels=["a", "b"])], "label cannot be published"),
        ([REQUESTS[0], REQUESTS[0]], "twice"),
    ],
)
def test_what_cannot_be_published_is_refused(make_llm, corpus, tmp_path, requests, why):
    with pytest.raises(ConfigurationError, match=why):
        publish(make_llm(), corpus, tmp_path / "bundle", requests, epsilon=EPSILON)
    assert not (tmp_path / "bundle").exists()


def test_what_the_ledger_cannot_pay_to_its_end_is_not_begun(corpus, ledger, make_llm, tmp_path):
    with pytest.raises(BudgetExceededError, match="this publication"):
        publish(make_llm(ledger), corpus, tmp_path / "bundle", REQUESTS, epsilon=20.0)
    assert spent(ledger) == 0
    assert not (tmp_path / "bundle").exists()


def test_no_byte_of_a_private_text_is_in_a_bundle(corpus, make_llm, tmp_path):
    made = publish(make_llm(), corpus, tmp_path / "bundle", REQUESTS, epsilon=EPSILON)
    files = [file for file in (tmp_path / "bundle").rglob("*") if file.is_file()]
    assert len(files) == len(made.items) + 2  # the manifest, and an empty lock
    for file in files:
        assert SECRET.encode() not in file.read_bytes()


def test_what_one_unit_says_it_is_about_is_in_no_bundle(corpus, tmp_path, monkeypatch):
    """Half of the units say what many are about, each other one a secret of its own."""
    knows = Rehearsal(told=10, right=10, right_by_default=10, far=10, silent=10)
    monkeypatch.setattr(private_run, "rehearsal_of", lambda model: knows)
    asked, extend = [], subjects_of_units.subject_words
    monkeypatch.setattr(
        summaries, "subject_words", lambda one, _: asked.append(one) or extend(one, _)
    )
    own = {f"{SECRET}{n}": f"the {SECRET}{chr(67 + n)}ish" for n in range(30, 60)}
    llm = PrivateContextLLM(ScriptedModel({**own, "canteen": "the garden"}), max_tokens=8)
    made = publish(llm, corpus, tmp_path / "bundle", [Request(question=ABOUT)], epsilon=EPSILON)
    assert sum(SECRET in one for one in asked) > 15
    assert " about garden" in made.items[0].text
    for file in (tmp_path / "bundle").rglob("*"):
        assert file.is_dir() or SECRET.encode() not in file.read_bytes()


def killed(monkeypatch, kind, name, *, after):
    """Kill the process at the first call of a method."""
    original = getattr(kind, name)

    def last(self, *args, **given):
        if after:
            original(self, *args, **given)
        raise Killed

    monkeypatch.setattr(kind, name, last)


INSTANTS = [
    (ReleaseFolder, "_begin", False, 2),
    (ReleaseFolder, "_begin", True, 1),
    (Account, "pay", False, 2),
    (Reservation, "commit", True, 1),
    (Account, "pay", True, 1),
    (ReleaseFolder, "write", False, 1),
    (ReleaseFolder, "write", True, 2),
    (Bundle, "write", False, 2),
]


@pytest.mark.parametrize(("kind", "name", "after", "released"), INSTANTS)
def test_a_kill_pays_nothing_twice(corpus, ledger, make_llm, tmp_path, kind, name, after, released):
    def publish_them():
        return publish(make_llm(ledger), corpus, tmp_path / "bundle", FIXED, epsilon=EPSILON)

    plan = plan_publication(make_llm(ledger), corpus, FIXED, epsilon=EPSILON)
    with pytest.MonkeyPatch.context() as patch:
        killed(patch, kind, name, after=after)
        with pytest.raises(Killed):
            publish_them()
    made = publish_them()
    assert len(made.items) == released
    assert len(made.lost) == 2 - released
    assert spent(ledger) <= sum(Fraction(part.rho) for part in plan.parts)
    assert Bundle.open(tmp_path / "bundle") == made


def test_other_items_do_not_go_on_with_it(corpus, make_llm, tmp_path, monkeypatch):
    killed(monkeypatch, ReleaseFolder, "write", after=False)
    with pytest.raises(Killed):
        publish(make_llm(), corpus, tmp_path / "bundle", FIXED, epsilon=EPSILON)
    for llm, requests in ((make_llm(), REQUESTS), (make_llm(corpus="another"), FIXED)):
        with pytest.raises(ConfigurationError, match="begun with other items"):
            publish(llm, corpus, tmp_path / "bundle", requests, epsilon=EPSILON)


def test_a_ledger_does_not_end_what_was_begun_without_one(
    corpus, ledger, make_llm, tmp_path, monkeypatch
):
    killed(monkeypatch, Bundle, "write", after=False)
    with pytest.raises(Killed):
        publish(make_llm(), corpus, tmp_path / "bundle", FIXED, epsilon=EPSILON)
    other = make_llm(ledger), make_llm(adjacency="replace_one")
    for llm in other:
        with pytest.raises(ConfigurationError, match="begun with other items"):
            publish(llm, corpus, tmp_path / "bundle", FIXED, epsilon=EPSILON)
    assert spent(ledger) == 0


def test_what_the_ledger_could_not_note_is_not_lost(
    corpus, ledger, make_llm, tmp_path, monkeypatch
):
    llm, plan = make_llm(ledger), plan_publication(make_llm(ledger), corpus, FIXED, epsilon=EPSILON)

    def busy(*args, **given):
        raise LedgerError("another process holds it")

    with monkeypatch.context() as patch:
        patch.setattr(Reservation, "commit", busy)
        with pytest.raises(LedgerError):
            publish(llm, corpus, tmp_path / "bundle", FIXED, epsilon=EPSILON)
    made = publish(llm, corpus, tmp_path / "bundle", FIXED, epsilon=EPSILON)
    assert (len(made.items), made.lost) == (2, ())
    assert float(spent(ledger)) == pytest.approx(plan.rho)


@pytest.mark.skipif(sys.platform == "win32", reason="disks cannot be made full there")
def test_a_full_disk_is_seen_before_an_item_is_paid(corpus, ledger, make_llm, tmp_path):
    llm, pay = make_llm(ledger), Account.pay
    with pytest.MonkeyPatch.context() as patch:

        def full_for_large_files(self, *args, **given):
            with full_disk(2**18):
                pay(self, *args, **given)

        patch.setattr(Account, "pay", full_for_large_files)
        with pytest.raises(ConfigurationError, match="see that there is space"):
            publish(llm, corpus, tmp_path / "bundle", FIXED, epsilon=EPSILON)
    assert spent(ledger) == 0
    made = publish(llm, corpus, tmp_path / "bundle", FIXED, epsilon=EPSILON)
    assert (len(made.items), made.lost) == (2, ())
    assert not list((tmp_path / "bundle").rglob("*.new"))


def test_a_kill_at_the_end_of_another_release_pays_for_no_third(corpus, ledger, make_llm, tmp_path):
    def again():
        llm, folder = make_llm(ledger), tmp_path / "bundle"
        return publish(llm, corpus, folder, FIXED, epsilon=1.0, again=True)

    again()
    once = spent(ledger)
    with pytest.MonkeyPatch.context() as patch:
        killed(patch, ReleaseFolder, "end", after=False)
        with pytest.raises(Killed):
            again()
    made = again()
    assert made.release == 2
    assert spent(ledger) == pytest.approx(2 * once, rel=1e-6)
    assert again().release == 3


def test_publishing_again_is_another_release(corpus, ledger, make_llm, tmp_path):
    llm, folder = make_llm(ledger), tmp_path / "bundle"
    publish(llm, corpus, folder, FIXED, epsilon=2.0)
    once = spent(ledger)
    with pytest.raises(ConfigurationError, match="holds a bundle"):
        publish(llm, corpus, folder, FIXED, epsilon=2.0)
    assert spent(ledger) == once
    made = publish(llm, corpus, folder, FIXED[:1], epsilon=2.0, again=True)
    assert spent(ledger) == pytest.approx(2 * once, rel=1e-6)
    assert made.release == 2
    assert "gone: What are the documents about?" in made.changes
    assert not (folder / "release-1").exists()
    assert Bundle.open(folder) == made


def test_publishing_again_asks_no_memory(corpus, ledger, make_llm, tmp_path):
    with AnswerMemory(tmp_path / "memory", "mail", embedder=BucketEmbedder()) as memory:
        llm = make_llm(ledger, knowledge=memory)
        publish(llm, corpus, tmp_path / "bundle", FIXED, epsilon=1.0)
        once = spent(ledger)
        made = publish(llm, corpus, tmp_path / "other", FIXED, epsilon=1.0)
        assert all(item.before and item.rho == 0 for item in made.items)
        assert spent(ledger) == once
        made = publish(llm, corpus, tmp_path / "bundle", FIXED, epsilon=1.0, again=True)
    assert not any(item.before for item in made.items)
    assert spent(ledger) == pytest.approx(2 * once, rel=1e-6)


def test_what_was_released_before_stands_beside_it_for_nothing(corpus, ledger, make_llm, tmp_path):
    with AnswerMemory(tmp_path / "memory", "mail", embedder=BucketEmbedder()) as memory:
        memory.remember("Who repairs the lift?", "Ann does.", epsilon=1.0, delta=DELTA)
        memory.remember("Is it about mail?", "About 9.", epsilon=1.0, numbers="{}")
        memory.remember("Who wrote?", "It was", whole=False)
        remembered = remembered_items(memory.entries())
    record = SyntheticRecord("A made-up mail.", None, "mail", 4, "end")
    beside = [*remembered, records_item(Synthesis((record,), 3.0, DELTA, 0.2))]
    plan = plan_publication(make_llm(ledger), corpus, FIXED, epsilon=EPSILON)
    publish(make_llm(ledger), corpus, tmp_path / "bundle", FIXED, epsilon=EPSILON, beside=beside)
    assert float(spent(ledger)) == pytest.approx(plan.rho)
    made = Bundle.open(tmp_path / "bundle", embedder=BucketEmbedder())
    assert "2 of them had been released" in made.guarantee
    assert made.find("who repairs the lift").text == "Ann does."
    assert made.items[-1].numbers == {"records": [{"about": "mail", "text": "A made-up mail."}]}
    assert [item.kind for item in made.items] == ["survey", "tally", "answer", "records"]


def test_without_a_ledger_it_is_one_release_by_itself(corpus, make_llm, tmp_path):
    made = publish(make_llm(), corpus, tmp_path / "bundle", REQUESTS, epsilon=EPSILON)
    assert [item.kind for item in made.items] == ["survey", "tally", "answer"]
    assert made.items[-1].text == TOLD
    manifest = json.loads((tmp_path / "bundle" / "manifest.json").read_text())
    assert manifest["guarantee"].startswith("All items of this release together are (6, 1e-05)-")


def test_a_caller_pays_with_the_corpus(corpus, make_llm, tmp_path):
    with Ledger(tmp_path / "callers.sqlite") as ledger:
        ledger.set_budget(corpus="mail", epsilon=8.0)
        ledger.set_budget(caller="owner", epsilon=8.0)
        llm = make_llm(ledger, caller="owner")
        publish(llm, corpus, tmp_path / "bundle", FIXED, epsilon=2.0)
        corpus_spent, caller_spent = (one.spent for one in ledger.status())
    assert corpus_spent == caller_spent > 0
