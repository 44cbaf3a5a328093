"""What an answer costs a unit, and how many documents must agree: exact, without a draw.

``python -m benchmarks.spending --out runs/spending`` asks which made-up disease some symptoms may
be, over medical records that all state it, and has the model read the right answer token by token.
P is the probability of the whole answer, its end included: the product of what the mechanism gives
to each token. Rho is what a unit paid at the mean. Both come from one pass of the model over each
disease. The answer ends with a full stop and then white space or the model's end token, as the
stop strings of ``benchmarks.quality`` cut it.

By agreement P is the exact probability that the right disease is released before a token is drawn,
from the sentences that experts say by themselves. The data are found through DPICL_RAG_DATA.

Before that it prints how many units must say the same for each kind of question, by the plans
alone: of a model that can be silent, which counts keys, and of others, which count sentences first.
``--plans`` prints nothing else and needs neither data nor model.

``--model FOLDER`` asks another model. One that can be silent, by its rehearsal, names the disease
by itself and its keys are counted as such a model's are: P is then the share of ``--draws`` noises.

``--notes`` prices one-line notes that state the disease in place of the records: what a perfect
reader would hand over, each in one of seven phrasings (``benchmarks.stated_notes``).
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from pathlib import Path
from statistics import mean, median

import platformdirs
import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.key_odds import key_odds, votes_for_keys
from benchmarks.quality import DATA, STOP, TEMPLATE, compose, names, read_records
from benchmarks.reader_tasks import disease_of
from benchmarks.release_odds import odds
from benchmarks.stated_notes import stated_notes
from dpicl_rag import Corpus, Document, TopKRetriever
from dpicl_rag.accounting import DIRECT, Budget, epsilon_to_rho, strength_for
from dpicl_rag.accounting.budget import SHARES
from dpicl_rag.answering.answer_plan import answer_plan
from dpicl_rag.answering.canonical_form import SentenceVote, canonical_form
from dpicl_rag.answering.plan import Plan
from dpicl_rag.answering.prompt_rows import BareModel
from dpicl_rag.answering.question import Question
from dpicl_rag.answering.sentence_votes import VoteReader, sentence_votes
from dpicl_rag.answering.support import Witness
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.language_models.defaults import default_model
from dpicl_rag.language_models.transformers import TransformersModel
from dpicl_rag.languages.answer_keys import answer_keys
from dpicl_rag.mechanisms.privacy_filters import IndividualFilter
from dpicl_rag.mechanisms.selection import ExponentialMechanism
from dpicl_rag.mechanisms.step import DenseStep, Step
from dpicl_rag.mechanisms.utilities import Utility
from dpicl_rag.prompts import Prompt
from dpicl_rag.rehearsal import rehearsal_of
from dpicl_rag.retrieval.base import NoisyCount

DELTA = 1e-5
EPSILONS = (8.0, 4.0, 2.0, 1.0)
DOCUMENTS = (4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 23, 24, 26, 28, 32, 35, 40, 44, 48, 64)
UNIT_TOKENS = 256
NAME_TOKENS = range(4, 10)
SENTENCE_TOKENS = 16
ENOUGH = 0.9  # of P, where n is asked for
MEMORY_DOCUMENTS, MEMORY_EPSILONS = (8, 16, 32), (8.0, 2.0)
NEAR_MISSES = 24  # records that are found and state something else


@dataclass(frozen=True)
class Case:
    """A question about a disease, and records.

    Attributes:
        question: Names symptoms of one record that is not among the others.
        disease: The right answer.
        documents: Records that state it.
        others: Records near to the question that do not.
        remembered: Earlier pairs, one of them about the disease in other words.
        wrong: The same with another disease there.
    """

    question: str
    disease: str
    documents: tuple[str, ...]
    others: tuple[str, ...]
    remembered: tuple[str, ...]
    wrong: tuple[str, ...]


@dataclass(frozen=True)
class Cell:
    """One figure of a table."""

    setting: str
    disease: str
    epsilon: float
    documents: int
    probability: float
    rho: float


class Tabled:
    """A step whose utilities are computed once, for many strengths and numbers of experts.

    Args:
        public: The public row.
        found: Utilities of the experts above their lowest, float32 [n, candidates].
        spans: Their ranges, float64 [n].
    """

    def __init__(self, public: torch.Tensor, found: torch.Tensor, spans: torch.Tensor) -> None:
        self.public = public
        self._found = found
        self._spans = spans

    @classmethod
    def of(cls, public: torch.Tensor, experts: torch.Tensor, utility: Utility) -> Tabled:
        """One place of an answer under one utility."""
        found = utility(experts, public)
        found = found - found.amin(dim=-1, keepdim=True)
        return cls(public, found, found.amax(dim=-1).double())

    def first(self, experts: int) -> Tabled:
        """The same with the first experts only."""
        return Tabled(self.public, self._found[:experts], self._spans[:experts])

    def ranges(self, utility: Utility, strength: float) -> torch.Tensor:
        """See ``Step.ranges``."""
        return strength * self._spans

    def weighted_sum(
        self, utility: Utility, strength: float, weights: torch.Tensor | None = None
    ) -> torch.Tensor:
        """See ``Step.weighted_sum``."""
        weights = torch.ones_like(self._spans) if weights is None else weights
        return ((strength * weights).float() @ self._found).double()

    def log_probs(self, candidate: int) -> torch.Tensor:
        """Not kept."""
        raise NotImplementedError

    def corrected(self, priors: Step) -> Step:
        """Labels only."""
        raise NotImplementedError


class Reading:
    """What every row says at every place of the right answer.

    Args:
        public: The public row at each place [candidates].
        experts: The experts at each place [n, candidates].
        right: Candidates that are right at each place.
    """

    def __init__(
        self,
        public: Sequence[torch.Tensor],
        experts: Sequence[torch.Tensor],
        right: Sequence[Sequence[int]],
    ) -> None:
        self.public = public
        self.experts = experts
        self.right = right
        self._utility: Utility | None = None
        self._places: list[Tabled] = []
        self._kept = 0

    def informed(self, public: Sequence[torch.Tensor]) -> Reading:
        """The same experts beside another public row."""
        return Reading(public, self.experts, self.right)

    def price(self, plan: Plan, documents: int, sigma: float = 0.0) -> tuple[float, float]:
        """P of the right answer, and mean rho paid for its draws.

        Args:
            plan: Of the answer.
            documents: How many of the experts are asked.
            sigma: Of the released count; the count itself is taken at its mean.
        """
        mechanism = plan.mechanism_for(NoisyCount(documents, sigma))
        assert isinstance(mechanism, ExponentialMechanism)
        left = plan.rho - plan.search_rho - plan.support_rho
        limits = torch.full((documents,), left, dtype=torch.float64)
        spend = IndividualFilter(limits, bound=left, worst=mechanism.rho)
        log_p = 0.0
        for right, step in zip(self.right, self._steps(mechanism.utility, documents), strict=True):
            weights = spend.weigh(lambda step=step: mechanism.ranges(step))  # type: ignore[misc]
            spend.pay()
            drawn = torch.log_softmax(mechanism.scores(step, weights), dim=-1)
            log_p += float(drawn[list(right)].logsumexp(dim=0))
        return math.exp(log_p), float(spend.spent.mean())

    def supporting(self) -> torch.Tensor:
        """Which experts support the right answer: bool [n]."""
        witness = Witness()
        for public, experts, right in zip(self.public, self.experts, self.right, strict=True):
            witness.record(DenseStep(public, experts), right[0])
        return witness.agreeing()

    def _steps(self, utility: Utility, documents: int) -> Iterator[Tabled]:
        """The places of the answer; utilities are computed again only where they are others."""
        if utility != self._utility or documents > self._kept:
            self._utility, self._kept = utility, documents
            self._places = [
                Tabled.of(public, experts[:documents], utility)
                for public, experts in zip(self.public, self.experts, strict=True)
            ]
        return (place.first(documents) for place in self._places)


class Reader:
    """The model, and how questions are put to it.

    Args:
        model: Reads.
        copy_bias: Of the experts, and of a public row that reads a memory.
    """

    def __init__(self, model: TransformersModel, copy_bias: float = 0.0) -> None:
        self._model = model.copying(copy_bias)
        self._informed = model.copying(copy_bias, public=True)
        tokenizer = model.tokenizer
        self._stop = min(tokenizer.stop_tokens)
        spaces = [i for i in tokenizer.vocabulary.values() if tokenizer.decode([i])[:1].isspace()]
        self._ends = (self._stop, *sorted(spaces))

    def name_tokens(self, disease: str) -> int:
        """Length of a name."""
        return len(self._model.tokenizer.encode(f" {disease}"))

    def read(self, case: Case) -> tuple[Reading, Reading, Reading, Reading]:
        """Experts that state the answer: without memory, with one, with a wrong one; and others."""
        bare, others = self.read_bare(case)
        prompt, answer = self._asked(case)
        known, wrong = (
            bare.informed([step.public for step in steps])
            for steps in (
                self._steps(self._informed, prompt, texts, (), answer)
                for texts in (case.remembered, case.wrong)
            )
        )
        return bare, known, wrong, others

    def read_bare(self, case: Case) -> tuple[Reading, Reading]:
        """Experts that state the answer, without memory; and others."""
        prompt, answer = self._asked(case)
        right = [*((token,) for token in answer), self._ends]
        texts = (*case.documents, *case.others)
        steps = self._steps(self._model, prompt, (TEMPLATE.no_document,), texts, answer)
        public = [step.public for step in steps]
        parts = [
            torch.split(step.experts, [len(case.documents), len(case.others)]) for step in steps
        ]
        bare = Reading(public, [stating for stating, _ in parts], right)
        return bare, Reading(public, [other for _, other in parts], right)

    def _asked(self, case: Case) -> tuple[Prompt, list[int]]:
        """The prompt, and the tokens of the right answer."""
        tokenizer = self._model.tokenizer
        return TEMPLATE.cut(tokenizer, case.question), tokenizer.encode(f" {case.disease}.")

    def votes(self, case: Case) -> list[SentenceVote | None]:
        """What experts that state the answer would vote for, each asked alone."""
        model, most = self._model, SENTENCE_TOKENS
        prompt = TEMPLATE.cut(model.tokenizer, case.question)
        inputs = [model.digest((text,), UNIT_TOKENS) for text in case.documents]
        public = model.digest((TEMPLATE.no_document,), model.context_length)
        rows = model.read(prompt.prefix, [public, *inputs], room=len(prompt.suffix) + most)
        reader = VoteReader(
            model.tokenizer,
            case.question,
            [(text,) for text in case.documents],
            canonical_form,
            BareModel(model, prompt, most).log_prob,
            STOP,
        )
        said = rows.continue_each(prompt.suffix, most, reader.asked)
        return reader.votes(prompt.suffix, said)

    def noted(self, case: Case) -> list[SentenceVote | None]:
        """What a reader's notes in the documents' place vote for, as they stand."""
        question = Question(case.question, TEMPLATE, self._model, PrivacyConfig.create())
        rows = self._model.read((), [self._model.digest(("-",), 1)], room=1)
        votes = sentence_votes(question, [(note,) for note in case.documents], notes=True)(rows)
        return list(votes(0, (), SENTENCE_TOKENS))

    def _steps(
        self,
        model: TransformersModel,
        prompt: Prompt,
        public: Sequence[str],
        texts: Sequence[str],
        answer: Sequence[int],
    ) -> list[DenseStep]:
        """Every place of the answer, in one pass."""
        room = len(prompt.suffix) + len(answer)
        inputs = [model.digest((text,), UNIT_TOKENS) for text in texts]
        known = model.digest(public, model.context_length)
        rows = model.read(prompt.prefix, [known, *inputs], room=room)
        steps = rows.extend_each((*prompt.suffix, *answer), len(answer) + 1)
        return [step for step in steps if isinstance(step, DenseStep)]


def plans(epsilon: float) -> dict[str, tuple[Plan, float]]:
    """Settings by name, each with the sigma of the count that is charged."""
    rho = epsilon_to_rho(epsilon, DELTA)
    before = strength_for(Budget(epsilon, DELTA), 12, 1.0)
    alone = PrivacyConfig.create(
        epsilon=epsilon, delta=DELTA, unsupported="ignore", agreement="off"
    )
    old = alone.model_copy(update={"strength": before, "public_power": 1.5, "expert_power": 2.0})
    charged = alone.model_copy(update={"unsupported": "mark"})
    count = SHARES.counting(rho)
    return {
        "settings of 2026-11-21": (answer_plan(old, DIRECT, 0.0), 0.0),
        "by need": (answer_plan(alone, DIRECT, 0.0), 0.0),
        "by need, counts paid": (answer_plan(charged, DIRECT, count), (2 * count) ** -0.5),
    }


KINDS = {
    "a name": "Who is it?",
    "a reason": "Why is it closed?",
    "a list": "Which courses are there?",
    "yes or no": "Is it open?",
    "a weekday": "On which day is it closed?",
    "a time": "At what time does it open?",
    '"when"': "Until when?",
}


def agreement_plan(epsilon: float, booked: bool, question: str | None = None) -> Plan:
    """The plan of an answer by agreement, search and support paid.

    Args:
        epsilon: Of the answer.
        booked: Whether a ledger pays.
        question: What a model is asked that can be silent; None is one that cannot.
    """
    draws = question is None and not booked
    config = PrivacyConfig.create(
        epsilon=epsilon, delta=DELTA, agreement="auto" if draws else "only"
    )
    part = SHARES.search_beside_agreement if draws else SHARES.search_before_counts
    search = SHARES.counting(part * config.rho(booked=booked))
    if question is None:
        return answer_plan(config, DIRECT, search, int(draws), booked=booked)
    keys = answer_keys(question)
    given = {"booked": booked, "keys": keys.most, "domain": keys.domain}
    return answer_plan(config, DIRECT, search, 0, **given)


def kinds_table(booked: bool) -> Table:
    """Units that must say the same nine times in ten, by the plans, and what failures cost."""
    where = "under a ledger" if booked else "one answer alone"
    title = f"units that must say the same, {where} (part of the bound where no two do)"
    table = Table(title=title, title_justify="left")
    for name in ("", *(f"epsilon {epsilon:g}" for epsilon in EPSILONS)):
        table.add_column(name)
    for name, question in {**KINDS, "a sentence, of a model that is never silent": None}.items():
        row = []
        for epsilon in EPSILONS:
            plan = agreement_plan(epsilon, booked, question)
            row.append(f"{plan.units_to_agree} ({plan.outcomes[0].rho / plan.rho:.2f})")
        table.add_row(name, *row)
    return table


def make_cases(reader: Reader, corpus: Corpus, options: argparse.Namespace) -> list[Case]:
    """One question about each disease that enough records state, and whose name is short enough."""
    records = read_records()
    draw, most = random.Random(options.seed), max(options.documents)
    counts = Counter(str(record["disease"]) for record in records)
    common = sorted(
        name
        for name, number in counts.items()
        if number > most and reader.name_tokens(name) in NAME_TOKENS
    )
    chosen = draw.sample(common, min(options.diseases or len(common), len(common)))
    return [_case(disease, common, records, corpus, most, draw) for disease in chosen]


def _case(
    disease: str,
    common: Sequence[str],
    records: Sequence[dict[str, object]],
    corpus: Corpus,
    most: int,
    draw: random.Random,
) -> Case:
    def about(name: str) -> list[dict[str, object]]:
        return [record for record in records if record["disease"] == name]

    def earlier(record: dict[str, object], name: str) -> str:
        symptoms = " and ".join(_symptoms(record)[:2])
        asked = f"Someone complains of {symptoms}. What illness might it be?"
        return f"Question: {asked}\nAnswer: {TEMPLATE.answer_prefix} {name}."

    asked, again, *stating = draw.sample(about(disease), min(most + 2, len(about(disease))))
    question = f"A patient reports {', '.join(_symptoms(asked))}. Which disease could it be?"
    near = TopKRetriever(corpus, 400).retrieve(question)
    *fillers, other = draw.sample([name for name in common if name != disease], 4)
    pairs = [earlier(draw.choice(about(name)), name) for name in fillers]
    return Case(
        question,
        disease,
        tuple(compose(record) for record in stating[:most]),
        tuple([d.text for d in near if disease not in d.text][:NEAR_MISSES]),
        (earlier(again, disease), *pairs),
        (earlier(asked, other), *pairs),
    )


def _symptoms(record: dict[str, object]) -> list[str]:
    return [str(s).strip(" .").lower() for s in record["symptoms"][:3]]  # type: ignore[index]


def price_all(
    reader: Reader, case: Case, documents: Sequence[int]
) -> tuple[list[Cell], list[Cell], dict[str, list[int]]]:
    """Of one disease: by number of documents, with a memory, and who supports the answer."""
    bare, known, wrong, others = reader.read(case)
    by_need, by_memory = [], []
    many = sorted(documents, reverse=True)  # the first fills the table for the others
    settings = {epsilon: plans(epsilon) for epsilon in EPSILONS}
    for name in settings[EPSILONS[0]]:
        for epsilon, named in settings.items():
            for n in many:
                figures = bare.price(named[name][0], n, named[name][1])
                by_need.append(Cell(name, case.disease, epsilon, n, *figures))
    by_need += agreed(case, reader.votes(case), many)
    for memory, reading in (("none", bare), ("the fact", known), ("a wrong one", wrong)):
        for epsilon in MEMORY_EPSILONS:
            plan, _ = settings[epsilon]["by need"]
            for n in MEMORY_DOCUMENTS:
                figures = reading.price(plan, n)
                by_memory.append(Cell(memory, case.disease, epsilon, n, *figures))
    support = {
        "state the answer": bare.supporting().int().tolist(),
        "found, state another": others.supporting().int().tolist(),
    }
    return by_need, by_memory, support


WAYS = (("agreement", False), ("agreement under a ledger", True))


def agreed(
    case: Case,
    votes: Sequence[SentenceVote | None],
    documents: Sequence[int],
    ways: Sequence[tuple[str, bool]] = WAYS,
) -> list[Cell]:
    """By agreement, with a ledger and without one, by number of documents."""
    cells = []
    for name, booked in ways:
        for epsilon in EPSILONS:
            ladder = agreement_plan(epsilon, booked).ladder
            assert ladder is not None
            for n in documents:
                good, _, rho = odds(ladder, votes[:n], lambda form: names(form, case.disease))
                paid = f"{name}, counts paid"
                cells.append(Cell(paid, case.disease, epsilon, n, good, rho))
    return cells


def price_keys(
    model: TransformersModel, case: Case, documents: Sequence[int], draws: int, seed: int
) -> tuple[list[Cell], list[SentenceVote | None]]:
    """Of one disease and a model that can be silent: by number of documents; and who votes."""
    votes = votes_for_keys(model, case.question, case.documents)
    keys, cells = answer_keys(case.question).most, []
    for name, booked in WAYS:
        for epsilon in EPSILONS:
            plan = agreement_plan(epsilon, booked, case.question)
            for n in documents:
                good, _, rho = key_odds(
                    plan,
                    model.tokenizer,
                    keys,
                    votes[:n],
                    lambda key: names(key, case.disease),
                    draws,
                    seed,
                )
                cells.append(Cell(name, case.disease, epsilon, n, good, rho))
    return cells, votes


def price_notes(
    reader: Reader, case: Case, documents: Sequence[int], seed: int
) -> tuple[list[Cell], dict[str, list[int]]]:
    """Of one disease, notes in the place of records: by number of them, and who supports it."""
    notes = stated_notes(case.disease, len(case.documents), seed)
    noted = replace(case, documents=notes, others=tuple(map(disease_of, case.others)))
    reading, others = reader.read_bare(noted)
    many = sorted(documents, reverse=True)
    cells = []
    for epsilon in EPSILONS:
        named = plans(epsilon)
        for name in ("by need", "by need, counts paid"):
            for n in many:
                figures = reading.price(named[name][0], n, named[name][1])
                cells.append(Cell(name, case.disease, epsilon, n, *figures))
    cells += agreed(noted, reader.noted(noted), many, WAYS[:1])
    support = {
        "are notes that state the answer": reading.supporting().int().tolist(),
        "are notes that state another": others.supporting().int().tolist(),
    }
    return [replace(cell, setting=f"notes, {cell.setting}") for cell in cells], support


def cells_table(cells: Sequence[Cell], heading: str, epsilon: float) -> Table:
    """P and mean rho by number of documents and setting."""
    settings = list(dict.fromkeys(cell.setting for cell in cells))
    table = Table(title=f"epsilon {epsilon:g}: P and rho", title_justify="left")
    for name in (heading, *settings):
        table.add_column(name)
    for n in sorted({cell.documents for cell in cells}):
        row = [means(cells, setting, epsilon, n) for setting in settings]
        table.add_row(str(n), *(f"{p:.2f}  {rho:.3f}" for p, rho in row))
    return table


def means(cells: Sequence[Cell], setting: str, epsilon: float, n: int) -> tuple[float, float]:
    """P and rho at the mean over diseases."""
    found = [c for c in cells if (c.setting, c.epsilon, c.documents) == (setting, epsilon, n)]
    return mean(c.probability for c in found), mean(c.rho for c in found)


def _enough(cells: Sequence[Cell], middle: Callable[[Iterable[float]], float]) -> str:
    """From how many documents on P is enough, of one setting and epsilon."""
    least = "more"
    for n in sorted({cell.documents for cell in cells}, reverse=True):
        if middle(cell.probability for cell in cells if cell.documents == n) < ENOUGH:
            break
        least = str(n)
    return least


def enough_table(cells: Sequence[Cell]) -> Table:
    """The least number of documents measured from which on P is enough: mean, and median name."""
    table = Table(
        title=f"documents needed for P {ENOUGH:g}: at the mean of the names (at the median name)",
        title_justify="left",
    )
    for name in ("", *(f"epsilon {epsilon:g}" for epsilon in EPSILONS)):
        table.add_column(name)
    for setting in dict.fromkeys(cell.setting for cell in cells):
        row = []
        for epsilon in EPSILONS:
            own = [c for c in cells if (c.setting, c.epsilon) == (setting, epsilon)]
            row.append(f"{_enough(own, mean)} ({_enough(own, median)})")
        table.add_row(setting, *row)
    return table


def save(by_need: Sequence[Cell], by_memory: Sequence[Cell], folder: Path) -> None:
    """Write the figures so far, and their plot."""
    folder.mkdir(parents=True, exist_ok=True)
    figures = [vars(cell) for cell in (*by_need, *by_memory)]
    (folder / "cells.json").write_text(json.dumps(figures), encoding="utf-8")
    plot(by_need, folder / "spending.png")


def plot(cells: Sequence[Cell], file: Path) -> None:
    """P against agreeing documents, and what a unit pays, one colour for each epsilon."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4), layout="constrained")
    documents = sorted({cell.documents for cell in cells})
    settings = dict.fromkeys(cell.setting for cell in cells)
    styles = dict(zip(settings, cycle((":", "-", "--", "-.", (0, (1, 3)))), strict=False))
    for colour, epsilon in enumerate(EPSILONS):
        for setting, style in styles.items():
            found = [means(cells, setting, epsilon, n) for n in documents]
            look = {"color": f"C{colour}", "linestyle": style}
            left.plot(documents, [p for p, _ in found], label=f"{epsilon:g}, {setting}", **look)
            right.plot(documents, [rho for _, rho in found], **look)
    left.set_ylabel("probability of the right answer")
    right.set_ylabel("rho that a unit pays")
    right.set_yscale("log")
    for axes in (left, right):
        axes.set_xlabel("documents that agree")
    figure.legend(loc="outside right upper", fontsize="small", title="epsilon")
    figure.savefig(file, dpi=120)


def main() -> int:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--diseases", type=int, help="how many; all with enough records if left out"
    )
    parser.add_argument("--documents", type=int, nargs="+", default=DOCUMENTS)
    bias = PrivacyConfig.create().copy_bias
    parser.add_argument("--copy-bias", type=float, default=bias, help="of the experts, in nats")
    parser.add_argument("--seed", type=int, default=0, help="of questions and records")
    parser.add_argument("--plans", action="store_true", help="print what plans say, and end")
    parser.add_argument("--notes", action="store_true", help="price notes in the records' place")
    parser.add_argument("--model", help="folder or name; the packaged one if left out")
    parser.add_argument("--draws", type=int, default=200, help="of noise, of a silent model")
    parser.add_argument("--out", type=Path, help="folder for the figures and a plot")
    options = parser.parse_args()
    options.documents = tuple(sorted({*options.documents, *MEMORY_DOCUMENTS}))
    console = Console()
    for booked in (False, True):
        console.print(kinds_table(booked))
    if options.plans:
        return 0
    if not DATA.is_dir():
        print("error: no benchmark data; set DPICL_RAG_DATA to its folder", file=sys.stderr)
        return 1
    warnings.simplefilter("ignore")  # seeded noise is not private
    model = TransformersModel.load(options.model) if options.model else default_model("float32")
    silent = rehearsal_of(model).knows_silence
    reader = Reader(model, options.copy_bias)
    corpus = Corpus.create("medical", path=platformdirs.user_cache_path("dpicl-rag") / "benchmarks")
    texts = map(compose, read_records())
    corpus.add([Document(text, f"record-{i}") for i, text in enumerate(texts)])
    cases = make_cases(reader, corpus, options)
    by_need: list[Cell] = []
    by_memory: list[Cell] = []
    support: dict[str, list[int]] = {}
    for case in track(cases, "reading", console=Console(stderr=True)):
        memory: list[Cell] = []
        supporting: dict[str, list[int]] = {}
        if silent:
            need, votes = price_keys(model, case, options.documents, options.draws, options.seed)
            said = [vote is not None and names(vote.short, case.disease) for vote in votes]
            supporting = {"state the answer": list(map(int, said))}
        elif options.notes:
            need, supporting = price_notes(reader, case, options.documents, options.seed)
        else:
            need, memory, supporting = price_all(reader, case, options.documents)
        by_need += need
        by_memory += memory
        for whose, agreeing in supporting.items():
            support.setdefault(whose, []).extend(agreeing)
        if options.out is not None:
            save(by_need, by_memory, options.out)
    console.print(f"{len(cases)} diseases")
    console.print(enough_table(by_need))
    for epsilon in EPSILONS:
        console.print(cells_table(by_need, "documents that agree", epsilon))
    for epsilon in MEMORY_EPSILONS if by_memory else ():
        some = [cell for cell in by_memory if cell.epsilon == epsilon]
        console.print(cells_table(some, "documents, remembered:", epsilon))
    for whose, agreeing in support.items():
        console.print(f"documents that {whose}: {sum(agreeing)} of {len(agreeing)} support it")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
