"""Topics and batches: the released keys that a unit writes about, and the record for each.

Both are functions of the unit, of released keys and of a coin of its own. So a unit that arrives
adds one expert to each of its records, and changes no other (stability 1, 0). A batch filled by
order would shift every later unit.
"""

from __future__ import annotations

import hmac
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from dpicl_rag.retrieval.base import NoisyCount
from dpicl_rag.synthesis.key_words import ReleasedWord


@dataclass(frozen=True, slots=True)
class Topic:
    """A released key and the records that are written about it. All of it is public.

    Attributes:
        key: What the records are about.
        batches: Among how many batches its units are spread.
        records: How many of the batches become records.
    """

    key: ReleasedWord
    batches: int
    records: int

    @property
    def count(self) -> NoisyCount:
        """Number of units in a batch, as far as it was released."""
        return NoisyCount(self.key.count, self.key.sigma).thinned(1 / self.batches)


def topics_for(keys: Sequence[ReleasedWord], batch: int, most: int) -> list[Topic]:
    """The topic of each key: from its noisy count, and no other.

    Args:
        keys: As they were released.
        batch: Units that a record aims to read.
        most: Records of one topic at most.
    """
    found = []
    for key in keys:
        batches = max(1, key.count // batch)
        found.append(Topic(key, batches, min(batches, most)))
    return found


def joined(words: Collection[str], topics: Sequence[Topic], most: int) -> list[int]:
    """Topics that a unit joins: those of its own words.

    Args:
        words: Of the unit, as they would be released.
        topics: In a public order, the rarest key first.
        most: How many it joins at most: no unit is in more records than that.
    """
    own = [place for place, topic in enumerate(topics) if topic.key.word in words]
    return own[:most]


def batch_of(run_key: bytes, unit: str, word: str, batches: int) -> int:
    """The batch of a unit in a topic: its own coin, which comes out the same again.

    The guarantee does not rest on the key's being secret: whatever the coin, it is the unit's own.

    Args:
        run_key: Secret of the run.
        unit: The unit.
        word: Key of the topic.
        batches: How many there are.
    """
    name = word.encode()
    return coin_of(run_key, unit, len(name).to_bytes(8, "big") + name) % batches


def coin_of(run_key: bytes, unit: str, purpose: bytes) -> int:
    """A unit's own coin of 256 bits, which comes out the same again in the same run.

    Args:
        run_key: Secret of the run.
        unit: The unit.
        purpose: What the coin decides; coins of other purposes have nothing to do with it.
    """
    message = purpose + unit.encode("utf-8", "surrogatepass")
    return int.from_bytes(hmac.digest(run_key, message, "sha256"), "big")
