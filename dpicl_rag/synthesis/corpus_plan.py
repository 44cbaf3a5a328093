"""The plan of a synthetic corpus: its cost and its draws, fixed before any document is read."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, get_args

from dpicl_rag import _validate
from dpicl_rag.accounting import DELTA, DIRECT, epsilon_to_rho, rho_to_epsilon
from dpicl_rag.accounting.budget import SHARES
from dpicl_rag.accounting.prices import Price, PricedPlan
from dpicl_rag.answering.answer_plan import answer_plan
from dpicl_rag.answering.plan import Plan
from dpicl_rag.configuration import PrivacyConfig
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.mechanisms.selection import Mechanism
from dpicl_rag.synthesis.key_words import BAR, LEVELS, Trie, WordList, noise_for
from dpicl_rag.synthesis.synthesis_run import SynthesisPlan
from dpicl_rag.synthesis.template import RecordTemplate

Keys = Literal["both", "list", "trie"]

# Seconds of the packaged model on two processor cores (benchmarks/README.md): to read a document,
# and to read one token in one row.
_READ_S, _TOKEN_S = 0.14, 0.0068


@dataclass(frozen=True, slots=True)
class CorpusPlan(PricedPlan):
    """Public settings of a synthetic corpus, and their price.

    Attributes:
        epsilon: All records and keys together are (epsilon, delta)-DP for every privacy unit.
        delta: See ``epsilon``.
        topics: Most keys that records are written about, the rarest first.
        topics_per_unit: Most topics that one unit joins, and so records that it is in.
        words_per_unit: Most words of a unit that are counted, in the list and in the trie each.
        batch: Units that a record aims to read.
        records_per_topic: Most records of one topic.
        keys: Where key words come from: the public list, the trie or both.
        template: Of a record.
        unit_tokens: Most tokens that one expert reads.
        copy_bias: See ``PrivacyConfig``.
    """

    epsilon: float
    delta: float = DELTA
    topics: int = 100
    topics_per_unit: int = 3
    words_per_unit: int = 3
    batch: int = 32
    records_per_topic: int = 3
    keys: Keys = "both"
    template: RecordTemplate = field(default_factory=RecordTemplate)
    unit_tokens: int = 256
    copy_bias: float = 1.0

    @classmethod
    def create(cls, **settings: Any) -> CorpusPlan:
        """A plan from settings by name.

        Raises:
            ConfigurationError: One is unknown, or outside its range.
        """
        unknown = sorted(set(settings) - {field.name for field in fields(cls)})
        if unknown:
            raise ConfigurationError(f"{unknown[0]}: no such setting of a synthetic corpus")
        return cls(**settings)

    def __post_init__(self) -> None:
        for name in ("topics", "topics_per_unit", "words_per_unit", "batch", "records_per_topic"):
            _validate.count(name, getattr(self, name))
        if self.keys not in get_args(Keys):
            raise ConfigurationError("keys must be 'both', 'list' or 'trie'")
        self._config()  # for its checks

    @property
    def rho(self) -> float:
        """Rho of zCDP of the whole: no unit loses more. It fills a budget of the same epsilon."""
        return epsilon_to_rho(self.epsilon, SHARES.beside_pool(self.delta))

    @property
    def parts(self) -> tuple[Price, ...]:
        """Keys first, of the list and of the trie, then texts: what a run pays for."""
        keys = SHARES.keys * self.rho
        share = {"both": SHARES.listed_keys, "list": 1.0, "trie": 0.0}[self.keys]
        counts = (
            Price("list", keys * share, "noise on the count of each public word"),
            Price("trie", keys * (1 - share), "noise on the count of each beginning of others"),
        )
        text = self.rho - (keys * share + keys * (1 - share))
        record = f"{text / self.topics_per_unit:.4g} at most for one of {self.topics_per_unit}"
        what = f"each unit for what it tells of its records; {record}"
        return (*(part for part in counts if part.rho), Price("text", text, what))

    @property
    def keys_rho(self) -> float:
        """The part that keys cost a unit at most."""
        return self.price("list") + self.price("trie")

    @property
    def record_rho(self) -> float:
        """The most that one record costs a unit; it is in ``topics_per_unit`` of them."""
        return self.price("text") / self.topics_per_unit

    def numbers(self) -> dict[str, Any]:
        """Charges, noise and hours: all that a plan says before any data are read."""
        counted = (("list", self.word_list(("a",))), ("trie", self.trie()))
        noise = [(name, words.noise.sigma) for name, words in counted if words is not None]
        least = {f"{name}_finds_words_from_units": math.ceil(BAR * sigma) for name, sigma in noise}
        return {
            "keys_rho": self.keys_rho,
            "text_rho": self.price("text"),
            "record_rho": self.record_rho,
            **{f"{name}_sigma": sigma for name, sigma in noise},
            **least,
            "records_at_most": self.records,
            "tokens_of_a_record_at_most": self.template.tokens,
            "hours_at_most": self.seconds / 3600,
        }

    @property
    def records(self) -> int:
        """Most records. How many there are follows from noisy counts."""
        return self.topics * self.records_per_topic

    @property
    def seconds(self) -> float:
        """About how long that takes with the packaged model on two processor cores."""
        one = self.batch * (_READ_S + self.template.tokens * _TOKEN_S)
        return self.records * one

    def word_list(self, words: Sequence[str]) -> WordList | None:
        """The counts of public words, or None where they are not asked for.

        Raises:
            ConfigurationError: There are no words.
        """
        if self.keys == "trie":
            return None
        if not words:
            raise ConfigurationError(
                "the model's tokenizer lists no words; set keys='trie', or take another model"
            )
        return WordList(words, noise_for(self.price("list"), self.words_per_unit))

    def trie(self) -> Trie | None:
        """The counts of beginnings of words, or None where they are not asked for."""
        if self.keys == "list":
            return None
        return Trie(noise_for(self.price("trie"), self.words_per_unit * LEVELS), LEVELS)

    def rounds(self) -> list[str]:
        """Names of the rounds of counts."""
        trie = self.trie()
        of_list = [] if self.keys == "trie" else [WordList.round]
        return [*of_list, *(trie.rounds if trie is not None else ())]

    def record(self) -> Plan[Mechanism]:
        """The plan of one record."""
        return answer_plan(self._config(), DIRECT, 0.0)

    def run_plan(self, source: str, model: str) -> SynthesisPlan:
        """The part of it that a folder keeps.

        Args:
            source: Name of the corpus.
            model: Fingerprint of the model.
        """
        named: dict[str, Any] = {"kind": "corpus", "source": source, "model": model}
        # As JSON has it, so that what is read back is equal.
        settings = json.loads(json.dumps({**named, **asdict(self)}, allow_nan=False))
        charges = {
            "rho": self.rho,
            **{name: self.price(name) for name in ("list", "trie", "text")},
            "record": self.record_rho,
        }
        return SynthesisPlan(settings, charges)

    def _config(self) -> PrivacyConfig:
        return PrivacyConfig.create(
            epsilon=rho_to_epsilon(self.record_rho, self.delta),
            delta=self.delta,
            max_tokens=self.template.tokens,
            unsupported="ignore",
            agreement="off",
            accounting="individual",
            unit_tokens=self.unit_tokens,
            copy_bias=self.copy_bias,
        )
