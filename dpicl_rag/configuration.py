"""The settings of the private path, checked where users write them. All of them are public."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self, TypedDict, Unpack

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError, model_validator

from dpicl_rag import _validate
from dpicl_rag.accounting import DELTA, Adjacency, epsilon_to_rho
from dpicl_rag.accounting.budget import SHARES, Booking
from dpicl_rag.errors import ConfigurationError

UtilityName = Literal["log_prob", "log_ratio", "surplus", "vote"]
Accounting = Literal["individual", "fixed"]
Unsupported = Literal["mark", "refuse", "ignore"]
AgreementName = Literal["auto", "only", "off"]
MethodName = Literal[
    "poe",
    "poe-prior",
    "votes",
    "votes-gaussian",
    "permute-and-flip",
    "permute-and-flip-votes",
]
"""Published methods that need one row per expert, and its prior at most: those that documents can
be labelled with. Groups are a setting."""

ImageMethodName = Literal[
    "poe", "votes", "votes-gaussian", "permute-and-flip", "permute-and-flip-votes"
]
"""Methods that pictures can be labelled with: all that read no question without content."""

UNITS = 64
"""Units that an answer over a whole corpus aims to read, where nobody says how many."""

TEMPLATE = "template=PromptTemplate(system=...) says how a document and a question become a prompt"
"""Stands where other libraries take a prompt."""

_ELSEWHERE = {
    **dict.fromkeys(("prompt", "system", "system_prompt", "prompt_template"), TEMPLATE),
    "k": "units=... says how many of the nearest units are read, about",
}

_SAMPLERS = {"temperature", "top_k", "top_p", "min_p", "typical_p", "repetition_penalty"}


class Settings(TypedDict, total=False):
    """The fields of `PrivacyConfig` as keyword arguments, for editors and type checkers."""

    epsilon: float
    delta: float
    utility: UtilityName | None
    accounting: Accounting | None
    max_tokens: int
    privacy_unit: str
    adjacency: Adjacency
    strength: float | None
    units: int
    unsupported: Unsupported
    agreement: AgreementName | None
    sentences: int
    false_answers: float
    clip: float | None
    expert_power: float
    copy_bias: float
    public_power: float
    public_top_k: int | None
    unit_tokens: int
    groups: int | None
    stop: tuple[str, ...]
    block_tokens: int
    max_calls: int | None
    polish: bool
    seed: int | None


class PrivacyConfig(BaseModel):
    """Settings of an answer: its budget, and how it is drawn.

    Each has its help, its range and its default here, and nowhere else.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    epsilon: float = Field(
        8.0,
        gt=0,
        allow_inf_nan=False,
        description="Privacy of one answer, above 0; less is more private.",
    )
    delta: float = Field(
        DELTA, gt=0, lt=1, description="Delta of that privacy, strictly between 0 and 1."
    )
    utility: UtilityName | None = Field(
        None,
        description="What a document says about a token; surplus for answers and log_prob for "
        "labels by default.",
    )
    accounting: Accounting | None = Field(
        None,
        description="Charge each unit what it revealed, or all the same. Individual where it is "
        "sound, by default.",
    )
    max_tokens: int = Field(32, ge=1, description="Most tokens of an answer.")
    privacy_unit: str = Field(
        "document", description="document, or the metadata field whose value makes one unit."
    )
    adjacency: Adjacency = Field(
        Adjacency.ADD_OR_REMOVE_ONE, description="What makes two corpora neighbours."
    )
    strength: float | None = Field(
        None,
        gt=0,
        allow_inf_nan=False,
        description="lambda, the weight of the experts; by default from the budget, and from the "
        "number of units where a search has released one.",
    )
    units: int = Field(
        UNITS, ge=1, description="Number of units that an answer over a whole corpus aims to read."
    )
    unsupported: Unsupported = Field(
        "mark",
        description="What becomes of an answer that the documents do not support. mark: it is "
        "shown, and called a guess. refuse: a fixed sentence takes its place. ignore: nobody asks "
        "whether they do. mark by default, and refuse for clients of a server and agents, where "
        "only a string is handed on. Asking takes a tenth of the budget, rho 0.04 at most.",
    )
    agreement: AgreementName | None = Field(
        None,
        description="auto: release a sentence that enough documents give independently, else draw "
        "word by word. only: release nothing else. off: draw word by word from the start, "
        "which is dearer. By default auto where each unit pays for itself and the engine can, and "
        "only where a ledger adds answers up. The budget needs delta for it (budget set "
        "--thresholds).",
    )
    sentences: int = Field(
        1, ge=1, description="Most sentences of an answer by agreement; each is another count."
    )
    false_answers: float = Field(
        0.01,
        gt=0,
        lt=0.1,
        description="Yes or no, a time, a date or a weekday comes out with this probability at "
        "most where one document alone says one, or none. A lower one needs more documents that "
        "agree. No matter of privacy.",
    )
    clip: float | None = Field(
        None,
        gt=0,
        allow_inf_nan=False,
        description="Clip bound of log_prob (C) and log_ratio (c).",
    )
    expert_power: float = Field(
        2.0,
        gt=0,
        allow_inf_nan=False,
        description="Sharpening of each expert before it votes, for surplus.",
    )
    copy_bias: float = Field(
        1.0,
        ge=0,
        le=10,
        description="How far each expert favours words of its own document in an answer, in nats; "
        "for models that are Copying. A function of the unit alone, so it costs nothing by itself. "
        "0 reads experts as they are; labels always do.",
    )
    public_power: float = Field(
        1.0,
        ge=0,
        allow_inf_nan=False,
        description="Exponent on the public model in the base measure. At 1 a token costs what it "
        "surprises that model.",
    )
    public_top_k: int | None = Field(
        None,
        ge=1,
        description="Draw among the public model's k likeliest tokens only; by default among all.",
    )
    unit_tokens: int = Field(256, ge=8, description="Most tokens read of each unit.")
    groups: int | None = Field(
        None,
        ge=1,
        description="Merge units into this many random groups, one expert each; by default one "
        "each.",
    )
    stop: tuple[str, ...] = Field((), description="Answers end before any of these strings.")
    block_tokens: int = Field(
        0,
        ge=0,
        description="Experts read up to this many tokens, proposed by the public model, in one "
        "pass. The released text has the same distribution and the same charge; 0 reads token by "
        "token. It pays on a GPU, hardly on a CPU.",
    )
    max_calls: int | None = Field(
        None,
        ge=1,
        description="Have the reader read about this many units at most: of more, coins choose, at "
        "a rate from a noisy count that the budget pays for. No cap: one would tell how many units "
        "there are.",
    )
    polish: bool = Field(
        False,
        description="Have the reader write the released answer as a fluent sentence. It sees no "
        "document for that; what was released stands beside it.",
    )
    seed: int | None = Field(None, description="Repeatable draws for tests. Not private.")
    _booking: Booking = PrivateAttr(default_factory=Booking)

    @model_validator(mode="before")
    @classmethod
    def _refuse_samplers(cls, values: Any) -> Any:
        samplers = _SAMPLERS - cls.model_fields.keys()
        wrong = samplers & set(values) if isinstance(values, dict) else set()
        if wrong:
            raise ValueError(
                f"{', '.join(sorted(wrong))} would act on private scores, which voids the "
                "guarantee; use public_power or public_top_k, which act on the public model"
            )
        return values

    def asked_for(self, max_tokens: int | None, stop: Sequence[str]) -> PrivacyConfig:
        """The settings of one answer.

        Args:
            max_tokens: Most tokens that are asked for; no more than the settings say.
            stop: Strings that end it, beside those of the settings.
        """
        asked: dict[str, Any] = {}
        if max_tokens is not None and max_tokens < self.max_tokens:
            asked["max_tokens"] = max_tokens
        if stop:
            asked["stop"] = (*self.stop, *stop)
        return self.model_copy(update=asked) if asked else self

    def under(self, booking: Booking) -> PrivacyConfig:
        """The settings of what a budget of these terms pays for."""
        config = self.model_copy()
        config._booking = booking
        return config

    @property
    def only_gaussian(self) -> bool:
        """True where a budget for Gaussian noise alone pays."""
        return self._booking.gaussian

    def require_reader(self, reader: object) -> None:
        """Refuse settings of a reader where there is none.

        Raises:
            ConfigurationError: There are any.
        """
        given = {"max_calls": self.max_calls is not None, "polish": self.polish}
        names = [name for name, one in given.items() if one]
        if names and reader is None:
            raise ConfigurationError(f"{names[0]} is for a reader; give one, or leave it out")

    def delta_of_rho(self, *, booked: bool) -> float:
        """The part of ``delta`` at which epsilon becomes rho; the rest is for thresholds.

        Args:
            booked: Whether a ledger books the answer, whose pool of delta is for many.
        """
        if self.agreement == "off":
            return self.delta
        share = SHARES.threshold_pool if booked else SHARES.threshold_delta
        return (1 - share) * self.delta

    def rho(self, *, booked: bool) -> float:
        """Rho of zCDP of an answer: with its thresholds it is (``epsilon``, ``delta``)-DP."""
        exact = booked and self.only_gaussian and self.agreement == "only"
        return epsilon_to_rho(self.epsilon, self.delta_of_rho(booked=booked), gaussian=exact)

    def threshold_delta(self, *, booked: bool) -> float:
        """The part of ``delta`` that thresholds of one answer cost."""
        if self.agreement == "off":
            return 0.0
        if not booked:
            return SHARES.threshold_delta * self.delta
        most, own = SHARES.threshold_pool * self.delta, self._booking.threshold_delta
        return most / SHARES.answers if own is None else min(own, most)

    @classmethod
    def create(cls, **settings: Unpack[Settings]) -> Self:
        """Build a configuration; a bad setting is one clear sentence.

        Raises:
            ConfigurationError: A setting is unknown, outside its range or of the wrong type.
        """
        try:
            return cls(**settings)
        except ValidationError as error:
            sentence = _validate.sentence_of(error, cls.model_fields, _ELSEWHERE)
            raise ConfigurationError(sentence) from None
