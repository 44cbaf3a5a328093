"""Parts of the audits, each against something known."""

from __future__ import annotations

import itertools
import json
import math
import sys
from dataclasses import replace

import pytest
import torch

from dpicl_rag.auditing import (
    AgreementAudit,
    AuditFolder,
    AuditReport,
    ChannelAudit,
    RememberingModel,
    Subject,
    SyntheticModel,
    audit_canary,
    audit_extraction,
    audit_neighbours,
    audit_synthetic,
    epsilon_lower_bound,
)
from dpicl_rag.auditing.attacks import ExtractionAudit, longest_run
from dpicl_rag.auditing.canaries import (
    Released,
    _best_event,
    _cuts,
    _rates,
    loud_canary,
    rival_canaries,
    total_variation,
    worst_canary,
)
from dpicl_rag.auditing.near_ties import NearTie, NearTieAudit
from dpicl_rag.auditing.neighbours import enumerate_outputs, exact_epsilon, realised_range
from dpicl_rag.auditing.worst_models import worst_speech
from dpicl_rag.documents import Document
from dpicl_rag.errors import ConfigurationError, MissingDependencyError


def logs(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64).log()


class TestExactEpsilon:
    def test_randomised_response(self):
        p, q = logs(0.75, 0.25), logs(0.25, 0.75)
        assert exact_epsilon(p, q, 0.0) == pytest.approx(math.log(3))
        # 0.75 - e^eps 0.25 = delta
        assert exact_epsilon(p, q, 0.25) == pytest.approx(math.log(2))
        assert exact_epsilon(p, q, 0.5) == 0.0

    def test_equal_distributions(self):
        assert exact_epsilon(logs(0.5, 0.5), logs(0.5, 0.5), 0.0) == 0.0

    def test_an_impossible_outcome(self):
        p, q = logs(0.9, 0.1), logs(1.0, 0.0)
        assert exact_epsilon(p, q, 0.0) == math.inf
        assert exact_epsilon(p, q, 0.05) == math.inf
        assert exact_epsilon(p, q, 0.2) == 0.0

    @pytest.mark.parametrize("seed", range(5))
    def test_it_agrees_with_a_bisection(self, seed):
        random = torch.Generator().manual_seed(seed)
        p, q = torch.log_softmax(2 * torch.randn(2, 50, generator=random).double(), -1)
        delta, low, high = 0.01, 0.0, 50.0
        for _ in range(80):
            middle = (low + high) / 2
            over = max(
                float((a.exp() - math.exp(middle) * b.exp()).clamp(min=0).sum())
                for a, b in ((p, q), (q, p))
            )
            low, high = (middle, high) if over > delta else (low, middle)
        assert exact_epsilon(p, q, delta) == pytest.approx(high, abs=1e-9)


class TestEnumeration:
    def steps(self, prefix):
        tilt = 0.1 * (len(prefix) + sum(prefix))
        rows = torch.tensor([[0.0, tilt, 0.5], [0.3, 0.0, tilt]], dtype=torch.float64)
        return tuple(torch.log_softmax(rows, -1))

    @pytest.mark.parametrize("expansions", [1, 2, 5, 1000])
    def test_outcomes_are_a_partition(self, expansions):
        p, q = enumerate_outputs(self.steps, frozenset({2}), depth=4, expansions=expansions)
        assert float(p.exp().sum()) == pytest.approx(1.0)
        assert float(q.exp().sum()) == pytest.approx(1.0)

    def test_epsilon_grows_with_what_is_looked_at(self):
        found = [
            exact_epsilon(
                *enumerate_outputs(self.steps, frozenset({2}), depth=4, expansions=n), 1e-3
            )
            for n in (1, 3, 1000)
        ]
        assert found == sorted(found)
        assert found[0] < found[-1]


def test_realised_range():
    assert realised_range(logs(0.5, 0.5), logs(0.25, 0.75)) == pytest.approx(math.log(3))
    assert realised_range(logs(0.5, 0.5, 0.0), logs(0.5, 0.5, 0.0)) == 0.0
    assert realised_range(logs(1.0, 0.0), logs(0.5, 0.5)) == math.inf


class TestLowerBound:
    def test_a_table_value(self):
        # Of 100 and 0 of 100 hits, 95 % in all: 0.025^(1/100) and 1 - 0.025^(1/100).
        low = 0.025**0.01
        expected = math.log(low / (1 - low))
        found = epsilon_lower_bound(100, 0, 100, delta=0.0, confidence=0.95)
        assert found == pytest.approx(expected, rel=1e-6)

    def test_nothing_is_shown_by_equal_counts(self):
        assert epsilon_lower_bound(50, 50, 100, delta=1e-5, confidence=0.95) == 0.0
        assert epsilon_lower_bound(0, 100, 100, delta=0.0, confidence=0.95) == 0.0
        assert epsilon_lower_bound(100, 100, 100, delta=0.0, confidence=0.95) == 0.0

    def test_it_is_wrong_no_more_often_than_stated(self):
        """Randomised response with epsilon 1, all outcomes weighed exactly."""
        from scipy.stats import binom

        runs, p = 30, math.e / (1 + math.e)
        wrong = sum(
            binom.pmf(a, runs, p) * binom.pmf(b, runs, 1 - p)
            for a in range(runs + 1)
            for b in range(runs + 1)
            if epsilon_lower_bound(a, b, runs, delta=0.0, confidence=0.9) > 1.0
        )
        assert 0.0 < wrong <= 0.1

    @pytest.mark.parametrize("counts", [(5, 0, 4), (-1, 0, 4), (0, 0, 0)])
    def test_impossible_counts(self, counts):
        with pytest.raises(ConfigurationError, match="between 0 and"):
            epsilon_lower_bound(*counts, delta=0.0, confidence=0.9)

    def test_confidence(self):
        with pytest.raises(ConfigurationError, match="confidence"):
            epsilon_lower_bound(1, 1, 4, delta=0.0, confidence=1.0)


class TestRememberingModel:
    public = (4,)
    documents = ((5, 6, 7), (8,), (9, 10))
    two = ((5,), (6, 7))

    def test_rows_are_those_of_the_model(self, tiny_model):
        remembering = RememberingModel(tiny_model)
        for order in ((0, 1, 2), (0, 2), (1, 0)):
            chosen = [self.documents[at] for at in order]
            for path in ([3], [4], [3]):  # back and forth: the cache is written over
                ours = remembering.read([1, 2], chosen, room=12)
                theirs = tiny_model.read([1, 2], chosen, room=12)
                for step in ([20, 21], path, [22]):
                    torch.testing.assert_close(
                        ours.extend(step).rows, theirs.extend(step).rows, atol=2e-4, rtol=0
                    )
                labels = [[30, 31], [32]]
                torch.testing.assert_close(
                    ours.score(labels).rows, theirs.score(labels).rows, atol=2e-4, rtol=0
                )

    def test_a_row_is_the_same_in_any_company(self, tiny_model):
        remembering = RememberingModel(tiny_model)
        together = remembering.read([1], [self.public, *self.documents], room=4).extend([3])
        alone = remembering.read([1], [self.public, self.documents[1]], room=4).extend([3])
        assert torch.equal(together.experts[1], alone.experts[0])
        assert torch.equal(together.public, alone.public)

    def test_a_branch_does_not_disturb_what_stands_before_it(self, tiny_model):
        remembering = RememberingModel(tiny_model, memory=1)  # every row is computed again
        paths = [(3,), (3, 4), (3, 4, 5), (3, 6), (3, 6, 7), (3, 4, 5), (8,), (3, 6, 7)]
        for path in paths:
            ours = remembering.read([1, 2], self.two, room=12)
            theirs = tiny_model.read([1, 2], self.two, room=12)
            for token in path:
                found, expected = ours.extend([token]), theirs.extend([token])
            torch.testing.assert_close(found.rows, expected.rows, atol=2e-4, rtol=0)

    def test_anew_forgets(self, tiny_model):
        remembering = RememberingModel(tiny_model)
        remembering.read([1], self.two, room=4).extend([3])
        anew = remembering.anew()
        assert not anew._rows
        assert anew.fingerprint == remembering.fingerprint

    def test_memory_is_bounded(self, tiny_model):
        remembering = RememberingModel(tiny_model, memory=1)
        first = remembering.read([1], self.two, room=4).extend([3])
        remembering.read([1], self.two, room=4).extend([4])
        again = remembering.read([1], self.two, room=4).extend([3])
        torch.testing.assert_close(first.rows, again.rows)
        assert len(remembering._rows) == 1

    def test_models_that_cannot_step_back_read_again(self):
        model = SyntheticModel(4, worst_speech(4))
        rows = RememberingModel(model).read([], ["turn 0"], room=4)
        assert [int(rows.extend([0]).public.argmax()) for _ in range(3)] == [0, 1, 2]


def subject(**settings) -> Subject:
    model = SyntheticModel(8, worst_speech(8))
    return Subject(model, "Which?", {"max_tokens": 3, "utility": "log_prob", **settings})


CORPUS = [Document("token 1", "a"), Document("token 2", "b")]


def test_neighbours_need_two_units():
    with pytest.raises(ConfigurationError, match="two privacy units"):
        audit_neighbours(subject(), CORPUS[:1], additions=())


@pytest.mark.heavy
def test_the_three_figures_stand_in_order():
    audited = subject(epsilon=4.0, max_tokens=1)
    exact = audit_neighbours(audited, CORPUS, additions=("token 3",), expansions=9)
    # Not seeded: the bound is wrong, or shows nothing, in fewer than one of 100,000 runs.
    canary = audit_canary(audited, CORPUS, Document("token 3", "c"), runs=1500, confidence=1 - 1e-6)
    assert 0.0 < canary.lower_bound < exact.worst_epsilon < exact.claimed_epsilon
    assert canary.hit_rate > canary.false_rate


@pytest.mark.heavy
def test_a_canary_is_found_where_nothing_protects():
    found = audit_canary(subject(epsilon=500.0), CORPUS[:1], Document("token 3", "c"), runs=200)
    # One unit against one: without the canary the answer is always the same.
    assert found.lower_bound > 0.5


def randomised_response(epsilon: float) -> Subject:
    """One label of two, whose odds one unit moves by exactly ``epsilon``."""
    model = SyntheticModel(2, worst_speech(2))
    return Subject(model, "Which?", {"epsilon": epsilon, "clip": 40.0}, labels=("a", "b"))


def test_the_ratio_of_an_answer_is_exact(monkeypatch):
    """Randomised response: what the canary says is e^epsilon times as likely as the other."""
    from dpicl_rag.auditing import canaries

    seen = {}
    sees = canaries._Attacker.sees

    def keep(self, trace):
        released = sees(self, trace)
        seen[released.text] = released.ratio
        return released

    monkeypatch.setattr(canaries._Attacker, "sees", keep)
    audit_canary(randomised_response(1.5), [], Document("token 0", "c"), runs=50)
    yes, no = math.exp(1.5) / (1 + math.exp(1.5)), 1 / (1 + math.exp(1.5))
    # Without the canary the base measure, uniform for log_prob. Rows are float32.
    assert seen["a"] == pytest.approx(math.log(yes / 0.5), abs=1e-5)
    assert seen["b"] == pytest.approx(math.log(no / 0.5), abs=1e-5)


@pytest.mark.heavy
def test_likelihoods_of_whole_answers_add_up_to_one():
    from dpicl_rag.auditing.canaries import _Attacker

    attacker = _Attacker(subject(max_tokens=2), CORPUS, CORPUS[:1])
    answers = list(itertools.product(range(8), repeat=2))
    for corpus in (CORPUS, CORPUS[:1]):
        total = sum(math.exp(attacker._log_likelihood(corpus, answer)) for answer in answers)
        assert total == pytest.approx(1.0, abs=1e-9)


@pytest.mark.heavy
def test_a_canary_shows_over_the_tokens_of_an_answer():
    """A few tokens that each lean the canary's way. Not seeded; nearly always far above 0.5."""
    audited = subject(epsilon=30.0, max_tokens=4, utility="surplus")
    found = audit_canary(audited, [], Document("turn 0", "c"), runs=100)
    assert 0.5 < found.lower_bound < found.claimed_epsilon
    assert found.others == 0


def test_an_attacker_may_look_at_the_beginning_only(monkeypatch):
    from dpicl_rag.auditing import canaries

    looked = []
    sees = canaries._Attacker.sees

    def keep(self, trace):
        looked.append(len(trace.tokens))
        return sees(self, trace)

    monkeypatch.setattr(canaries._Attacker, "sees", keep)
    audit_canary(subject(), CORPUS, Document("turn 0", "c"), runs=4, tokens=2)
    assert set(looked) == {2}


def test_an_event_is_chosen_without_the_runs_that_test_it():
    """Noise alone: whatever looked best on some runs shows nothing at the stated confidence."""
    random = torch.Generator().manual_seed(5)
    shown = 0
    for _ in range(40):
        drawn = torch.randn(4, 50, generator=random).tolist()
        halves = [[Released(f"{value:.1f}", value) for value in half] for half in drawn]
        event, arrives = _best_event(halves[0], halves[1], (), tests=50, confidence=0.9)
        counts = [sum(map(event, half)) for half in halves[2:]]
        more, fewer = counts if arrives else counts[::-1]
        shown += epsilon_lower_bound(more, fewer, 50, delta=0.0, confidence=0.9) > 0
    assert shown <= 8  # 40 * 0.1, and room


def test_rates_use_runs_of_both_kinds():
    """Two outcomes of 0.8 and 0.2 with the canary, even without: counts weighed by the ratio."""
    yes, no = Released("y", math.log(0.8 / 0.5)), Released("n", math.log(0.2 / 0.5))
    rates = _rates(lambda released: released.text == "y", [yes, yes, yes, no], [yes, no, no, no])
    assert rates == pytest.approx(((3 + 1.6) / 8, (1 + 3 * 0.625) / 8))


def test_cuts_are_few_and_from_the_lowest_on():
    assert _cuts([2.0, 1.0, 1.0]) == [1.0, 2.0]
    cuts = _cuts([float(n) for n in range(1000)])
    assert len(cuts) == 200
    assert cuts[0] == 0.0


class TestWorstCanary:
    def test_it_is_the_one_that_stands_the_furthest(self):
        def speech(text, history):
            return [0.0, -40.0 if "zephyr" in text else 0.0]

        audited = Subject(SyntheticModel(2, speech), "Which?", {"max_tokens": 2})
        found = worst_canary(audited, [Document("other", "a")], tokens=2)
        assert "zephyr" in found.text
        assert found.unit == "canary"

    def test_total_variation(self):
        assert total_variation(logs(0.75, 0.25), logs(0.25, 0.75)) == pytest.approx(0.5)

    def test_a_rival_is_an_answer_the_public_model_might_give(self, tiny_model):
        audited = Subject(RememberingModel(tiny_model), "Which?", {"max_tokens": 3})
        texts = [canary.text for canary in rival_canaries(audited)]
        assert len(set(texts)) > 1
        assert all(text.startswith("Which?") for text in texts)

    def test_labels_are_rivals(self):
        texts = [canary.text for canary in rival_canaries(randomised_response(1.0))]
        assert [text.split()[1] for text in texts] == ["a", "b"]
        assert worst_canary(randomised_response(1.0), []).unit == "canary"


def test_extraction_sees_what_ordinary_rag_gives_away(monkeypatch):
    from dpicl_rag.auditing import attacks

    monkeypatch.setattr(attacks, "greedy_answer", lambda *_, **__: "it is ABC 123 .")
    found = audit_extraction(subject(), CORPUS, canary="the code is abc-123", secret="abc-123")
    assert found.ordinary_leaks == found.attempts == 5
    assert found.private_leaks == 0
    assert found.holds


def test_private_answers_may_be_as_long_as_ordinary_ones(monkeypatch):
    """Otherwise a secret might stay in only because there was no room for it."""
    from dpicl_rag.auditing import attacks

    monkeypatch.setattr(attacks, "greedy_answer", lambda *_, **__: "")
    drawn = []
    sample = Subject.sample

    def keep(self, corpus):
        drawn.append(sample(self, corpus))
        return drawn[-1]

    monkeypatch.setattr(Subject, "sample", keep)
    audit_extraction(subject(), CORPUS, tokens=9)
    assert {answer.tokens for answer in drawn} == {9}


@pytest.mark.heavy
def test_the_default_model_gives_a_secret_away_ordinarily_and_not_privately(default_model):
    audited = Subject(RememberingModel(default_model), "")
    corpus = [Document(f"Locker {n} is painted grey.", f"unit-{n}") for n in range(2)]
    found = audit_extraction(audited, corpus)
    assert found.ordinary_leaks >= 1
    assert found.private_leaks == 0


def test_longest_run():
    assert longest_run("so the Code is open", "the code is 12") == 3
    assert longest_run("", "a") == longest_run("a", "b") == 0


@pytest.fixture(scope="module")
def report() -> AuditReport:
    audited = subject()
    return AuditReport(
        audit_neighbours(audited, CORPUS, additions=(), tokens=2),
        audit_synthetic(audited),
        audit_canary(audited, CORPUS, loud_canary("Which?"), runs=8),
        ExtractionAudit(4, 0, 3, 1, 7),
        ChannelAudit(10, ()),
        NearTieAudit((NearTie("a newcomer", "label by votes", 1.0, 0.5, 0.125, 0.1),), 32),
        AgreementAudit({1: 0.0, 40: 1.0}, 0.0, 0.95, 5e-6, 100),
    )


class TestReport:
    @pytest.mark.heavy
    def test_text_is_one_page_and_figures_fall(self, report):
        lines = report.text().splitlines()
        assert len(lines) <= 40
        assert max(map(len, lines)) <= 100
        starts = [line[:24].strip() for line in lines]
        order = [starts.index(name) for name in ("claimed epsilon", "exact worst case found")]
        assert order == sorted(order)
        assert "within the claim" in lines[0]

    def test_it_names_no_unit_and_quotes_no_text(self, report):
        for text in (report.text(), repr(report), repr(report.documents), repr(report.canary)):
            assert "token 1" not in text
            assert "quokka" not in text

    @pytest.mark.heavy
    def test_what_was_not_run_is_not_spoken_of(self, report):
        part = AuditReport(synthetic=report.synthetic)
        assert part.text().splitlines()[0] == "Privacy audit: unfinished, 1 of 7 parts were run"
        for word in ("within the claim", "Canary", "Near ties", "Extraction", "Beside the answer"):
            assert word not in part.text()
        assert part.plot().startswith(b"\x89PNG")
        summary = part.summary()
        assert (summary["whole"], summary["holds"]) == (False, True)
        assert summary["exact_worst_case"] == report.synthetic.worst_epsilon
        assert summary["empirical_lower_bound"] is summary["private_leaks"] is None
        broken = AuditReport(synthetic=replace(report.synthetic, usage=2.0))
        assert "THE CLAIM DOES NOT HOLD" in broken.text().splitlines()[0]

    def test_what_has_no_bound_can_be_shown(self, report, tmp_path):
        broken = replace(
            report.documents, worst_epsilon=math.inf, usage=math.inf, steps=(math.inf,)
        )
        found = replace(report, documents=broken)
        assert not found.holds
        assert found.summary()["exact_worst_case"] is None
        json.dumps(found.summary(), allow_nan=False)
        assert "THE CLAIM DOES NOT HOLD" in found.text()
        AuditFolder(tmp_path).keep(found, "one")

    def test_without_matplotlib_the_extra_is_named(self, report, tmp_path, monkeypatch):
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        with pytest.raises(MissingDependencyError, match=r"dpicl-rag\[plots\]"):
            AuditFolder(tmp_path / "none").keep(report, "one")
        assert not (tmp_path / "none").exists()


def test_public_names_are_there():
    import dpicl_rag.auditing as auditing

    assert all(hasattr(auditing, name) for name in auditing.__all__)
    with pytest.raises(AttributeError):
        auditing.nothing  # noqa: B018
