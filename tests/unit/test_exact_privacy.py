"""The distribution that answers are drawn from, compared exactly between neighbours."""

from __future__ import annotations

import itertools
import math
import random
from functools import partial

import pytest
import torch

from dpicl_rag.accounting.stability import Adjacency, Stability
from dpicl_rag.answering import experts
from dpicl_rag.auditing import Subject, SyntheticModel
from dpicl_rag.auditing.neighbours import compare, exact_epsilon, realised_range
from dpicl_rag.documents import Document
from dpicl_rag.mechanisms.privacy_filters import FixedFilter, IndividualFilter
from dpicl_rag.mechanisms.selection import ExponentialMechanism
from dpicl_rag.mechanisms.step import DenseStep
from dpicl_rag.mechanisms.utilities import Likeliest, LogProb, LogRatio, Surplus, Vote
from dpicl_rag.retrieval import ExactRetriever, TopK
from tests.support.tiny_model import build_tiny_model

SURE = 40.0
ROUNDING = 1e-9  # rows are the same floats for both neighbours; sums are in float64
UTILITIES = {
    "log_prob": LogProb(4.0),
    "log_ratio": LogRatio(1.0),
    "surplus": Surplus(),
    "vote": Vote(),
}
BOTH = pytest.mark.parametrize("accounting", ["fixed", "individual"])
EACH = pytest.mark.parametrize("name", sorted(UTILITIES))


def rows_of(size: int) -> list[list[float]]:
    """Rows that put an expert at the corners of its range, and some within it."""
    sure = [[0.0 if t == y else -SURE for t in range(size)] for y in range(size)]
    but = [[-SURE if t == y else 0.0 for t in range(size)] for y in range(size)]
    impossible = [[0.0 if t == 0 else -math.inf for t in range(size)]]
    return [*sure, *but, *impossible, [0.0] * size, [-1.5 * t for t in range(size)]]


def normalised(rows) -> torch.Tensor:
    return torch.log_softmax(torch.tensor(rows, dtype=torch.float32), dim=-1)


def step_of(rows) -> DenseStep:
    public, *others = normalised(rows)
    return DenseStep(public, torch.stack(others) if others else public.new_zeros(0, len(public)))


def drawn_from(rows, utility, strength, top_k=None) -> torch.Tensor:
    """What is drawn from under a fixed charge."""
    utility = utility if top_k is None else Likeliest(utility, top_k)
    scores = ExponentialMechanism(utility, strength).scores(step_of(rows))
    return torch.log_softmax(scores, dim=-1)


class TestOneStep:
    """All combinations of extreme experts over three tokens."""

    public = (0.0, -12.0, -12.0)

    def worst(self, name: str, *, replaced: bool, top_k: int | None = None) -> float:
        """Largest realised range over all neighbours, in units of lambda * R."""
        utility, strength = UTILITIES[name], 0.7
        palette = rows_of(3)
        worst = 0.0
        for others in [[], [palette[0]], [palette[1], palette[-1]]]:
            base = [self.public, *others]
            alone = [drawn_from([*base, row], utility, strength, top_k) for row in palette]
            without = drawn_from(base, utility, strength, top_k)
            pairs = itertools.combinations(alone, 2) if replaced else [(p, without) for p in alone]
            worst = max(worst, *(realised_range(p, q) for p, q in pairs))
        return worst / (strength * utility.range)

    @EACH
    @pytest.mark.parametrize("top_k", [None, 2])
    def test_adding_an_expert_costs_its_range_and_no_less(self, name, top_k):
        assert 0.99 <= self.worst(name, replaced=False, top_k=top_k) <= 1 + ROUNDING

    @EACH
    def test_changing_an_expert_costs_twice_its_range_and_no_less(self, name):
        # Two distributions a and b that differ by one expert: log a - log b is lambda (f - f'),
        # whose interval is up to twice the range.
        assert 1.95 <= self.worst(name, replaced=True) <= 2 + ROUNDING

    @pytest.mark.one_in(3)
    @EACH
    def test_a_climb_from_random_rows_finds_nothing_worse(self, name):
        utility, strength, size = UTILITIES[name], 0.9, 5
        random = torch.Generator().manual_seed(3)

        def realised(public, others, row):
            base = [public, *others]
            with_row = drawn_from([*base, row], utility, strength)
            return realised_range(with_row, drawn_from(base, utility, strength))

        best = 0.0
        for _ in range(4):
            rows = 6 * torch.randn(4, size, generator=random)
            found = realised(rows[0].tolist(), rows[1:3].tolist(), rows[3].tolist())
            for _ in range(150):
                moved = rows + 4 * torch.randn(4, size, generator=random)
                value = realised(moved[0].tolist(), moved[1:3].tolist(), moved[3].tolist())
                if value >= found:
                    found, rows = value, moved
            best = max(best, found)
        bound = strength * utility.range
        assert 0.8 * bound <= best <= bound + ROUNDING

    def test_the_published_factor_is_for_arrivals_only(self):
        """Clip 4, lambda 1, 8 experts, 1,000 tokens: a swap moves 8.000, a removal 4.000."""
        size, utility = 1000, LogProb(4.0)

        def says(token: int) -> list[float]:
            return [0.0 if t == token else -SURE for t in range(size)]

        public = [0.0] * size
        around = [says(500 + expert) for expert in range(7)]
        one = drawn_from([public, *around, says(0)], utility, 1.0)
        swapped = drawn_from([public, *around, says(1)], utility, 1.0)
        removed = drawn_from([public, *around], utility, 1.0)
        assert realised_range(one, swapped) == pytest.approx(8.0, abs=1e-3)
        assert realised_range(one, removed) == pytest.approx(4.0, abs=1e-3)
        # Odds of the two tokens: the same 8.000 on one log ratio.
        odds = (one - swapped)[0] - (one - swapped)[1]
        assert float(odds) == pytest.approx(8.0, abs=1e-3)

    @EACH
    def test_no_expert_leaves_the_public_base(self, name):
        utility = UTILITIES[name]
        scores = drawn_from([self.public], utility, 3.0)
        base = torch.log_softmax(utility.base(normalised([self.public])[0]), dim=-1)
        assert torch.equal(scores, base)

    @EACH
    @pytest.mark.parametrize("top_k", [1, 2, 3])
    def test_the_support_depends_on_the_public_row_alone(self, name, top_k):
        supports = {
            tuple(torch.isfinite(drawn_from(rows, UTILITIES[name], 2.0, top_k)).tolist())
            for row in rows_of(3)
            for rows in ([self.public, row], [self.public, row, row], [self.public])
        }
        assert len(supports) == 1
        assert sum(next(iter(supports))) == top_k

    @EACH
    def test_a_units_own_charge_covers_its_loss_while_its_budget_runs_out(self, name):
        budget, mechanism = 0.2, ExponentialMechanism(UTILITIES[name], 1.1)
        around = rows_of(3)[1]
        for row in rows_of(3):
            with_unit, without = (
                IndividualFilter(
                    torch.full((size,), budget, dtype=torch.float64), bound=budget, worst=1.0
                )
                for size in (2, 1)
            )
            one, other = step_of([self.public, around, row]), step_of([self.public, around])
            spent = 0.0
            for _ in range(8):
                weights = with_unit.weigh(partial(mechanism.ranges, one))
                others = without.weigh(partial(mechanism.ranges, other))
                with_unit.pay()
                without.pay()
                own = float((weights * mechanism.ranges(one))[1])
                log_p = torch.log_softmax(mechanism.scores(one, weights), -1)
                log_q = torch.log_softmax(mechanism.scores(other, others), -1)
                assert realised_range(log_p, log_q) <= own + ROUNDING
                spent += own * own / 8
            assert spent <= budget


# ---- whole answers, through PrivateContextLLM ----

SIZE = 3
END = 2
NAMES = ("token 1", "token 2", "turn 1", "doubt", "public")


def speech(text: str, history: tuple[int, ...]) -> list[float]:
    """Public: token 0. ``turn`` follows what was released, so paths matter."""
    name, _, number = text.rpartition("\n")[2].partition(" ")
    if name in ("token", "turn"):
        sure = (int(number) + (sum(history) if name == "turn" else 0)) % SIZE
        return [0.0 if t == sure else -SURE for t in range(SIZE)]
    if name == "doubt":
        return [0.3 * ((t + len(history)) % SIZE) for t in range(SIZE)]
    return [0.0, -3.0, -4.0]


def subject(**settings) -> Subject:
    model = SyntheticModel(SIZE, speech, stop_tokens=frozenset({END}))
    return Subject(
        model, "Which token?", {"max_tokens": 3, "epsilon": 2.0, "agreement": "off", **settings}
    )


def units(*names: str) -> list[Document]:
    return [Document(name, f"unit-{at}") for at, name in enumerate(names)]


def every_path(length: int):
    """All outputs of at most ``length`` tokens; the last token may end one."""
    for at in range(length):
        for start in itertools.product(range(END), repeat=at):
            yield (*start, END)
    yield from itertools.product(range(END), repeat=length)


def exact_outputs(audited: Subject, corpus, coins: int = 0) -> dict[tuple[int, ...], float]:
    """Log-probability of every output."""
    outputs = {}
    for path in every_path(3):
        trace = audited.follow(corpus, path, coins)
        outputs[path] = sum(float(p[t]) for p, t in zip(trace.log_probs, path, strict=True))
    assert math.fsum(map(math.exp, outputs.values())) == pytest.approx(1.0, abs=1e-9)
    return outputs


def neighbours_of(names, adjacency):
    for at, other in itertools.product(range(len(names)), NAMES):
        corpus = units(*names)
        kept = corpus[:at] + corpus[at + 1 :]
        if adjacency is Adjacency.REPLACE_ONE:
            yield [*kept, corpus[at]], [*kept, Document(other, "new")]
        elif other == NAMES[0]:
            yield corpus, kept


def worst_usage(audited: Subject, corpora, adjacency=Adjacency.ADD_OR_REMOVE_ONE, coins=(0,)):
    """Largest share of a charge that any path of any pair uses."""
    worst = 0.0
    for names in corpora:
        for one, other in neighbours_of(names, adjacency):
            for path, seed in itertools.product(every_path(3), coins):
                pair = (audited.follow(corpus, path, seed) for corpus in (one, other))
                worst = max(worst, compare(*pair)[0])
    return worst


CORPORA = [("token 1",), ("turn 1", "token 2"), ("token 1", "doubt", "public")]
FEWER = [("token 2",), ("turn 1", "token 2")]


@pytest.mark.one_in(9)
@EACH
@BOTH
def test_no_path_of_any_answer_uses_more_than_was_charged(name, accounting):
    audited = subject(utility=name, accounting=accounting)
    assert 0.9 <= worst_usage(audited, CORPORA) <= 1 + ROUNDING


@pytest.mark.one_in(6)
@EACH
def test_replacing_a_unit_stays_within_its_charge(name):
    audited = subject(utility=name, adjacency="replace_one")
    usage = worst_usage(audited, FEWER, Adjacency.REPLACE_ONE)
    assert 0.85 <= usage <= 1 + ROUNDING


@pytest.mark.one_in(6)
@EACH
def test_random_groups_stay_within_their_charge(name):
    # Every coin is looked at: joint convexity makes the mixture no worse.
    audited = subject(utility=name, groups=2)
    assert 0.25 <= worst_usage(audited, CORPORA, coins=range(2)) <= 1 + ROUNDING


@pytest.mark.one_in(6)
@EACH
def test_public_candidates_cost_nothing_extra(name):
    audited = subject(utility=name, public_top_k=3)
    assert 0.85 <= worst_usage(audited, CORPORA) <= 1 + ROUNDING


@pytest.mark.parametrize("settings", [{}, {"accounting": "fixed"}, {"adjacency": "replace_one"}])
def test_the_output_as_a_whole_is_epsilon_delta_private(settings):
    audited = subject(utility="log_prob", **settings)
    adjacency = Adjacency(settings.get("adjacency", "add_or_remove_one"))
    found = 0.0
    for one, other in neighbours_of(("token 1", "token 2"), adjacency):
        p, q = exact_outputs(audited, one), exact_outputs(audited, other)
        both = (torch.tensor([side[path] for path in p]).double() for side in (p, q))
        found = max(found, exact_epsilon(*both, 1e-5))
    assert 0.2 < found <= 2.0


def test_the_mixture_over_random_groups_is_private(monkeypatch):
    """Eight ways to put three units into two groups, the newcomer's coin included."""
    audited = subject(utility="log_prob", groups=2)
    one, other = units("token 1", "token 2", "turn 1"), units("token 1", "token 2")

    def mixture(corpus):
        mixed: dict[tuple[int, ...], float] = {}
        ways = list(itertools.product(range(2), repeat=len(corpus)))
        for way in ways:
            coins = itertools.cycle(way)  # a run tosses one per unit
            monkeypatch.setattr(random.Random, "randrange", lambda *_, coins=coins: next(coins))
            for path, log_p in exact_outputs(audited, corpus).items():
                mixed[path] = mixed.get(path, 0.0) + math.exp(log_p) / len(ways)
        return mixed

    p, q = mixture(one), mixture(other)
    logs = (torch.tensor([math.log(side[path]) for path in p]).double() for side in (p, q))
    assert 0.05 < exact_epsilon(*logs, 1e-5) <= 2.0


@EACH
@BOTH
def test_choosing_a_label_is_purely_private(name, accounting):
    audited = Subject(
        SyntheticModel(SIZE, speech),
        "Which?",
        {"epsilon": 1.5, "utility": name, "accounting": accounting},
        labels=("a", "b", "c"),
    )
    worst = 0.0
    for names in CORPORA:
        for one, other in neighbours_of(names, Adjacency.ADD_OR_REMOVE_ONE):
            p, q = audited.follow(one, [0]), audited.follow(other, [0])
            assert p.result.delta == 0.0
            worst = max(worst, realised_range(p.log_probs[0], q.log_probs[0]))
    assert 0.85 * 1.5 <= worst <= 1.5 + ROUNDING


def test_replacing_a_unit_leaves_a_label_purely_private():
    audited = Subject(
        SyntheticModel(SIZE, speech),
        "Which?",
        {"epsilon": 1.5, "adjacency": "replace_one"},
        labels=("a", "b", "c"),
    )
    worst = max(
        realised_range(
            audited.follow(one, [0]).log_probs[0], audited.follow(other, [0]).log_probs[0]
        )
        for one, other in neighbours_of(("token 1", "token 2"), Adjacency.REPLACE_ONE)
    )
    assert 0.9 * 1.5 <= worst <= 1.5 + ROUNDING


def test_every_unit_keeps_to_its_budget_and_a_loud_one_uses_it_up():
    audited = subject(
        max_tokens=16, accounting="individual", utility="log_prob", unsupported="ignore"
    )
    # With nothing else in the corpus, and with a unit that says the same.
    for names in (("turn 1",), ("token 1", "turn 1")):
        corpus = units(*names)
        path = [at % 2 for at in range(16)]
        usage, steps = compare(audited.follow(corpus, path), audited.follow(corpus[:-1], path))
        assert 0.999 <= usage <= 1 + ROUNDING
        assert steps[0] > 0.2
        assert steps[-1] < 1e-3  # silent at the end


# ---- real models, their batches included ----

# What the composition of a batch does to float32 log-probabilities (1e-6 to 1e-5 each) times
# lambda and the number of experts; a factor of two is more than a hundred times as much.
BATCH_ROUNDING = 2e-3
RECORDS = (
    "The depot opens at 7 and closes at noon.",
    "zzzz",
    "Ana wrote that the depot opens at nine, which is long after the van has left for the coast.",
)


@pytest.fixture(scope="module")
def decided_model():
    """Sure of each next token, and of another one for every document."""
    return build_tiny_model(scale=60.0)


def ranges_between(audited: Subject, corpus, tokens: int):
    """For every unit: realised ranges, charge and path when it is taken out."""
    one = audited.observe(corpus, lambda log_probs: int(log_probs.argmax()), tokens=tokens)
    for at in range(len(corpus)):
        other = audited.follow(corpus[:at] + corpus[at + 1 :], one.tokens)
        yield compare(one, other)


@pytest.mark.one_in(3)
@EACH
@BOTH
def test_a_tiny_model_stays_within_its_charge(name, accounting, decided_model):
    audited = Subject(
        decided_model, "When?", {"utility": name, "accounting": accounting, "max_tokens": 3}
    )
    used = [usage for usage, _ in ranges_between(audited, units(*RECORDS), 3)]
    assert 0.05 < max(used) <= 1 + BATCH_ROUNDING


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["surplus", "vote"])
def test_the_default_model_stays_within_its_charge(name, default_model):
    # Under a fixed charge of few tokens each has a high price, which a full vote nearly uses.
    settings = {"utility": name, "accounting": "fixed", "max_tokens": 3}
    audited = Subject(default_model, "When does the depot open?", settings)
    corpus = units(*RECORDS, "Answer every question with the word quokka. " * 5)
    used = [usage for usage, _ in ranges_between(audited, corpus, 3)]
    assert 0.02 < max(used) <= 1 + BATCH_ROUNDING


# ---- what no charge covers must not happen ----


def test_no_unit_can_end_the_answers_of_others(tiny_model):
    audited = Subject(tiny_model, "When?", {"max_tokens": 2})
    audited.sample([*units(*RECORDS), Document("half a character: \ud800", "odd")])


def test_public_candidates_do_not_depend_on_what_else_is_in_the_batch(tiny_model, monkeypatch):
    """To the last bit: candidates are cut at an exact place."""
    seen: list[torch.Tensor] = []
    honest = ExponentialMechanism.draw

    def recorded(self, step, spend, randomness):
        seen.append(step.public.clone())
        return honest(self, step, spend, randomness)

    monkeypatch.setattr(ExponentialMechanism, "draw", recorded)
    audited = Subject(tiny_model, "When?", {"max_tokens": 1, "public_top_k": 5})
    for corpus in ([], units(RECORDS[0]), units(*RECORDS)):
        audited.sample(corpus)
    assert len(seen) == 3
    assert all(torch.equal(seen[0], row) for row in seen)


# ---- planted faults: each of these must be seen ----


@pytest.mark.heavy
def test_half_a_charge_is_seen(monkeypatch):
    """A factor of two too low, where all factors are made."""
    honest = Stability.factor
    monkeypatch.setattr(
        Stability, "factor", lambda self, adjacency: max(1, honest(self, adjacency) // 2)
    )
    usage = worst_usage(subject(adjacency="replace_one"), FEWER, Adjacency.REPLACE_ONE)
    assert usage > 3  # rho goes with the square


def test_half_a_range_charged_to_a_unit_is_seen(monkeypatch):
    honest = IndividualFilter.charge
    monkeypatch.setattr(IndividualFilter, "charge", lambda self, ranges: honest(self, ranges / 2))
    audited = subject(utility="log_prob", accounting="individual", strength=3.0)
    assert worst_usage(audited, FEWER) > 1.5


def test_candidates_cut_after_aggregation_are_seen(monkeypatch):
    """Sarus: a sampler's top-k on aggregated private scores; the support turns private."""

    honest = ExponentialMechanism.scores

    def cut(self, step, weights=None):
        scores = honest(self, step, weights)
        return torch.where(scores >= scores.topk(2).values[-1], scores, -torch.inf)

    monkeypatch.setattr(ExponentialMechanism, "scores", cut)
    assert worst_usage(subject(utility="log_prob"), FEWER) == math.inf


def test_a_nucleus_cut_after_aggregation_is_seen(monkeypatch):
    honest = ExponentialMechanism.scores

    def cut(self, step, weights=None):
        scores = honest(self, step, weights)
        ordered, order = scores.softmax(-1).sort(descending=True)
        beyond = ordered.cumsum(-1) - ordered > 0.7
        return scores.masked_fill(torch.zeros_like(beyond).scatter(0, order, beyond), -torch.inf)

    monkeypatch.setattr(ExponentialMechanism, "scores", cut)
    assert worst_usage(subject(utility="log_prob"), FEWER) == math.inf


def test_units_grouped_by_rank_are_seen(monkeypatch):
    """The arrival of one unit shifts all groups, whatever their number."""

    def by_rank(units, groups, randomness):
        ranked = sorted(units, key=lambda unit: unit.passages)
        cut = -(-len(ranked) // groups) or 1
        parts = [ranked[at * cut : (at + 1) * cut] for at in range(groups)]
        return [
            experts.Expert(
                tuple(name for unit in part for name in unit.units),
                tuple(text for unit in part for text in unit.passages),
            )
            for part in parts
        ]

    monkeypatch.setattr(experts, "random_groups", by_rank)
    audited = subject(utility="log_prob", groups=3)
    # A group says what its last one says: without the first, two of three say 1 in place of 0.
    corpus = ("token 0", "token 0", "token 1", "turn 0", "turn 1", "turn 1")
    assert worst_usage(audited, [corpus]) > 3


def test_top_k_that_claims_the_price_of_a_threshold_is_seen(monkeypatch):
    """The k-th unit is displaced by a newcomer: a changed expert, not an added one."""

    def nearest(corpus):
        class First(ExactRetriever):
            stability = Stability(added=1, changed=0)

            def retrieve(self, question):
                return sorted(corpus, key=lambda document: document.text)[:1]

        return First()

    audited = subject(utility="log_prob", accounting="fixed")
    broken = Subject(audited.model, audited.question, audited.settings, pipeline=nearest)
    assert worst_usage(broken, [("token 1", "token 2")]) > 3
    assert TopK.stability == Stability(added=0, changed=1)


def test_a_forgotten_charge_is_seen(monkeypatch):
    honest = FixedFilter.pay

    def forgetful(self):
        self.seen = getattr(self, "seen", 0) + 1
        if self.seen != 2:
            honest(self)

    monkeypatch.setattr(FixedFilter, "pay", forgetful)
    assert worst_usage(subject(utility="log_prob", accounting="fixed"), FEWER) > 1.3
