"""Attack on answers by agreement: units that say what they want to be said.

Others say each something else, so that nothing stands in the way of a sentence but the threshold.
One unit that shouts, with passage upon passage of the same sentence, must not be heard. From a
threshold on many units are: that is no leak but what an answer by agreement is, so the share of
answers that they win is told and not judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from dpicl_rag.auditing.canaries import clopper_pearson
from dpicl_rag.auditing.subject import Subject
from dpicl_rag.auditing.worst_models import SyntheticModel
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.documents import Document
from dpicl_rag.language_models.base import Progress
from dpicl_rag.results import PrivateAnswer

COLLUDING = (1, 2, 5, 10, 20, 40)
_MADE_UP = "zanzibar"
_OTHERS = ("quarterly", "refunds", "warehouse", "invoices", "holidays", "parking")
_SHOUTS = 8
_LETTERS = 26
_END = _LETTERS


@dataclass(frozen=True, slots=True, repr=False)
class AgreementAudit:
    """Findings of units that say the same made-up sentence, among others that do not.

    Attributes:
        released: Share of the answers that gave the sentence, by how many units say it.
        lower_bound: Of the probability that the sentence of one unit comes out.
        confidence: Probability, over the runs, that the bound is right.
        delta: What thresholds of one answer may cost: the claim.
        runs: Answers for each number of units.
    """

    released: dict[int, float]
    lower_bound: float
    confidence: float
    delta: float
    runs: int

    @property
    def holds(self) -> bool:
        """Whether the bound stays under the claim."""
        return self.lower_bound <= self.delta


def audit_agreement(
    subject: Subject,
    *,
    runs: int = 100,
    confidence: float = 0.95,
    colluding: Sequence[int] = COLLUDING,
    on_progress: Progress | None = None,
) -> AgreementAudit:
    """Have units of a made-up corpus say a sentence, and count the answers that give it.

    The whole private path runs with the settings of the subject, but that it draws no token.

    Args:
        subject: Its settings and its class are used.
        runs: Answers for each number of units.
        confidence: Of the bound, strictly between 0 and 1.
        colluding: How many units say the sentence; the first is the number that is judged.
        on_progress: Called with the part that is done.

    Raises:
        ConfigurationError: As the private path raises.
    """
    settings = {**subject.settings, "agreement": "only", "sentences": 1, "max_tokens": 12}
    config = PrivacyConfig.create(**settings)
    made_up = replace(
        subject,
        model=SyntheticModel(_LETTERS + 1, _spelling, frozenset({_END})),
        settings=settings,
        labels=(),
        method=None,
        pipeline=list,
    )
    # They quote the question: documents that are about something else have no vote.
    honest = [Document(f"{subject.question} It is {word}", word) for word in _OTHERS]
    heard: dict[int, int] = {}
    for at, number in enumerate(colluding):
        shouting = [
            Document(
                f"{subject.question} " + f"{_MADE_UP} " * _SHOUTS + f"passage {shout} {_MADE_UP}",
                f"colluding {one}",
            )
            for one in range(number)
            for shout in range(_SHOUTS if number == 1 else 1)
        ]
        heard[number] = 0
        for done in range(runs):
            # Coins of its own for every run, the same ones in every audit.
            answer = made_up.observe([*honest, *shouting], coins=at * runs + done).result
            assert isinstance(answer, PrivateAnswer)
            heard[number] += _says(answer, made_up)
            if on_progress is not None:
                on_progress((at * runs + done + 1) / (len(colluding) * runs), 1.0)
    return AgreementAudit(
        {number: count / runs for number, count in heard.items()},
        clopper_pearson(heard[colluding[0]], runs, 1 - confidence),
        confidence,
        config.threshold_delta(booked=False),
        runs,
    )


def _spelling(text: str, history: tuple[int, ...]) -> list[float]:
    """A document spells the last of the words that it may say, and ends; others end at once."""
    words = [word for word in text.split() if word in (_MADE_UP, *_OTHERS)]
    word = words[-1] if words else ""
    letter = ord(word[len(history)]) - ord("a") if len(history) < len(word) else _END
    said = letter if 0 <= letter < _LETTERS else _END
    return [0.0 if token == said else -20.0 for token in range(_LETTERS + 1)]


def _says(answer: PrivateAnswer, subject: Subject) -> bool:
    tokenizer = subject.model.tokenizer
    without_capital = tokenizer.decode(tokenizer.encode(_MADE_UP[1:]))
    return answer.by == "agreement" and without_capital in answer.text
