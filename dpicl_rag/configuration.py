"""The settings of the private path, checked where users write them. All of them are public."""

from __future__ import annotations

import difflib
from typing import Any, Literal, TypedDict, Unpack

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from dpicl_rag.accounting import Adjacency, epsilon_to_rho
from dpicl_rag.accounting.budget import SHARES
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
"""Those that pictures can be labelled with: all that read no question without content."""

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

    Attributes:
        epsilon: Privacy of one answer, above 0.
        delta: Privacy of one answer, strictly between 0 and 1.
        utility: ``surplus``, ``log_ratio``, ``log_prob`` or ``vote``; None takes ``surplus`` for
            answers and ``log_prob`` for labels.
        accounting: ``individual`` charges each unit what it revealed; ``fixed`` charges the same
            for every token. None takes individual accounting where it is sound.
        max_tokens: Most tokens of an answer.
        privacy_unit: ``document``, or the metadata field whose value makes one unit.
        adjacency: What makes two corpora neighbours.
        strength: lambda, the weight of the experts; None derives it from the budget, and from the
            number of units where a search has released one.
        units: Number of units that an answer over a whole ``Corpus`` aims to read.
        unsupported: What becomes of an answer that the documents do not support: ``mark`` says so
            beside it, ``refuse`` puts a fixed sentence in its place, ``ignore`` does not ask. By
            default ``mark``, and ``refuse`` where only a string is handed on
            (``PrivateContextLLM.for_strings``). Asking takes a tenth of the answer's budget, rho
            0.04 at most.
        agreement: Whether experts are first asked for whole sentences, each by itself, and one on
            which enough of them agree is released for the price of a count: ``auto`` draws tokens
            where they do not agree, ``only`` draws none, ``off`` draws tokens from the start. None
            is ``auto`` where each unit pays for itself and the engine can (``SpeakingRows``), and
            ``off`` elsewhere.
        sentences: Most sentences of an answer by agreement; each is another count.
        clip: Clip bound of ``log_prob`` (C) and ``log_ratio`` (c).
        expert_power: Sharpening of each expert before it votes, for ``surplus``.
        copy_bias: How far each expert favours words of its own document in an answer, in nats, 0 to
            10; for models that are ``Copying``. A function of the unit alone, so it costs nothing
            by itself. 0 reads experts as they are; labels always do.
        public_power: Exponent on the public model in the base measure. At 1 a token costs what it
            surprises that model.
        public_top_k: Draw among the public model's k likeliest tokens only; None draws among all.
        unit_tokens: Most document tokens that one expert reads.
        groups: Merge units into this many random groups, one expert each; None keeps one each.
        stop: Answers end before any of these strings.
        block_tokens: Experts read up to this many tokens, proposed by the public model, in one
            pass. The released text has the same distribution and the same charge; 0 reads token
            by token. It pays where a pass costs about the same for one token or several: on a
            GPU, hardly on a CPU.
        max_calls: Thin what a reader reads for a question to about this number of units, each by a
            secret coin, at a rate from a noisy count that the answer's budget pays for. No cap: one
            would tell how many units there are.
        polish: Have the reader write the released answer as a fluent sentence, from public text
            alone. The released text stands beside it.
        seed: Repeatable draws for tests. Not private.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    epsilon: float = Field(8.0, gt=0, allow_inf_nan=False)
    delta: float = Field(1e-5, gt=0, lt=1)
    utility: UtilityName | None = None
    accounting: Accounting | None = None
    max_tokens: int = Field(32, ge=1)
    privacy_unit: str = "document"
    adjacency: Adjacency = Adjacency.ADD_OR_REMOVE_ONE
    strength: float | None = Field(None, gt=0, allow_inf_nan=False)
    units: int = Field(64, ge=1)
    unsupported: Unsupported = "mark"
    agreement: AgreementName | None = None
    sentences: int = Field(1, ge=1)
    clip: float | None = Field(None, gt=0, allow_inf_nan=False)
    expert_power: float = Field(2.0, gt=0, allow_inf_nan=False)
    copy_bias: float = Field(1.0, ge=0, le=10)
    public_power: float = Field(1.0, ge=0, allow_inf_nan=False)
    public_top_k: int | None = Field(None, ge=1)
    unit_tokens: int = Field(256, ge=8)
    groups: int | None = Field(None, ge=1)
    stop: tuple[str, ...] = ()
    block_tokens: int = Field(0, ge=0)
    max_calls: int | None = Field(None, ge=1)
    polish: bool = False
    seed: int | None = None

    @model_validator(mode="before")
    @classmethod
    def _refuse_samplers(cls, values: Any) -> Any:
        wrong = _SAMPLERS & set(values) if isinstance(values, dict) else set()
        if wrong:
            raise ValueError(
                f"{', '.join(sorted(wrong))} would act on private scores, which voids the "
                "guarantee; use public_power or public_top_k, which act on the public model"
            )
        return values

    def require_reader(self, reader: object) -> None:
        """See that there is a reader where a setting speaks of one.

        Raises:
            ConfigurationError: There is none.
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
        return epsilon_to_rho(self.epsilon, self.delta_of_rho(booked=booked))

    def threshold_delta(self, *, booked: bool) -> float:
        """What thresholds of one answer cost, of ``delta``."""
        if self.agreement == "off":
            return 0.0
        return (SHARES.threshold_of_pool if booked else SHARES.threshold_delta) * self.delta

    @classmethod
    def create(cls, **settings: Unpack[Settings]) -> PrivacyConfig:
        """Build a configuration; a bad setting is one clear sentence.

        Raises:
            ConfigurationError: A setting is unknown, outside its range or of the wrong type.
        """
        try:
            return cls(**settings)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            name = ".".join(map(str, first["loc"]))
            reason = first["msg"].removeprefix("Value error, ")
            if first["type"] == "extra_forbidden":
                near = difflib.get_close_matches(name, cls.model_fields, 1)
                hint = _ELSEWHERE.get(name) or "".join(f"did you mean {other}?" for other in near)
                reason = "no such setting" + (hint and f"; {hint}")
            raise ConfigurationError(f"{name}: {reason}" if name else reason) from None
