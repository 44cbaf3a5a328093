"""The record of planted faults: edits of the product's source that a test must notice."""

from __future__ import annotations

import tomllib
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


@dataclass(frozen=True)
class Fault:
    """One edit, and the test that fails where it is made.

    Attributes:
        name: A noun phrase, unique in the record.
        file: The edited file, from the project's root.
        old: Text that occurs exactly once in it.
        new: What takes its place.
        test: The pytest node that passes without the edit and fails with it.
    """

    name: str
    file: str
    old: str
    new: str
    test: str

    def in_shard(self, shard: int, shards: int) -> bool:
        """Whether it is of this part; shards count from one."""
        return zlib.crc32(self.name.encode()) % shards == shard - 1


def faults() -> Iterator[Fault]:
    """Every recorded fault, by room."""
    for path in sorted(HERE.glob("*.toml")):
        with path.open("rb") as file:
            for entry in tomllib.load(file)["fault"]:
                yield Fault(**entry)
