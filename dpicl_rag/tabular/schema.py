"""Schemas of tables, known beforehand: columns, domains, cut points, words. All of them public.

Nothing here is ever read off the private rows. A domain that is, tells which values occur; a bound
that is, tells the largest one; and a mean or a quantile as a cut point is an answer that nobody
paid for. A value outside the schema is no error, which would tell of it: a number is moved to the
nearest bound, and a category that is not listed counts as ``other``.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import tomllib
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from dpicl_rag import _validate
from dpicl_rag.errors import ConfigurationError
from dpicl_rag.prompts import Example

OTHER = "other"
"""Stands for every category that is not listed."""

PACKAGED = ("adult", "bank", "blood", "calhousing", "car", "diabetes", "heart", "jungle")
"""Schemas that come with the package: the data sets of DP-TabICL (Carey et al. 2024)."""

Row = Mapping[str, object]
"""One row, values by column. Private, unless it was drawn from a release."""

_STRICT = ConfigDict(extra="forbid")
_INFERRED = (
    "bounds, cut points and values are public numbers and names that you know beforehand; taken "
    "from the rows, as a mean, a quantile or a list, they would be released as they are"
)


@dataclass(frozen=True, slots=True)
class Number:
    """A column of numbers.

    Attributes:
        name: Of the column.
        low: Smaller numbers are moved up to this. So is what is no number.
        high: Larger numbers are moved down to this.
        cuts: Ascending, between the bounds; each begins a new interval.
        typical: What stands for each interval where a row is made up from a release; its middle
            unless given.
        decimals: Digits behind the point, in words.
        kind: ``number``.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    name: str
    low: float
    high: float
    cuts: tuple[float, ...]
    typical: tuple[float, ...] = ()
    decimals: int = 0
    kind: Literal["number"] = "number"

    def __post_init__(self) -> None:
        numbers = (self.low, self.high, *self.cuts, *self.typical)  # of a string: its letters
        if not all(isinstance(n, int | float) and not isinstance(n, bool) for n in numbers):
            raise ConfigurationError(f"column {self.name!r}: {_INFERRED}")
        if not all(map(math.isfinite, numbers)) or not self.low < self.high:
            raise ConfigurationError(
                f"column {self.name!r}: low and high must be finite, the lower one first"
            )
        if not self.cuts or any(one >= other for one, other in self._intervals):
            raise ConfigurationError(
                f"column {self.name!r}: cuts must ascend between low and high, at least one"
            )
        if self.typical and len(self.typical) != self.size:
            raise ConfigurationError(
                f"column {self.name!r}: typical has one number for each of the intervals"
            )

    @property
    def size(self) -> int:
        """Number of intervals."""
        return len(self.cuts) + 1

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the intervals."""
        return tuple(f"{low:.12g} to {high:.12g}" for low, high in self._intervals)

    def clamped(self, value: object) -> float:
        """The number within the bounds."""
        try:
            number = float(_text(value))
        except ValueError:
            return self.low
        return self.low if math.isnan(number) else min(max(number, self.low), self.high)

    def place(self, value: object) -> int:
        """The interval of a value."""
        return bisect_right(self.cuts, self.clamped(value))

    def example(self, place: int) -> float:
        """The value that stands for an interval."""
        if self.typical:
            return self.typical[place]
        return sum(self._intervals[place]) / 2

    def bit(self, place: int) -> int:
        """1 in the upper half of the intervals."""
        return int(place >= (self.size + 1) // 2)

    def of_bit(self, bit: int) -> int:
        """The interval that stands for a bit: the middle one of its half."""
        half = (self.size + 1) // 2
        return (half + self.size - 1) // 2 if bit else (half - 1) // 2

    def words(self, value: object) -> str:
        """A value in words."""
        return f"{self.clamped(value):,.{self.decimals}f}"

    @property
    def _intervals(self) -> list[tuple[float, float]]:
        return list(pairwise((self.low, *self.cuts, self.high)))


@dataclass(frozen=True, slots=True)
class Category:
    """A column of names.

    Attributes:
        name: Of the column.
        values: The public list; what is not in it is ``other``.
        aliases: Other spellings, and values that count as one; from what the rows have to the list.
        shown: Words for a value in a prompt, where they differ.
        ones: Values whose bit is 1, ``other`` perhaps among them; all but the first one unless
            given. A bit groups rows, and is what a local report of bits sends.
        kind: ``category``.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    name: str
    values: tuple[str, ...]
    aliases: Mapping[str, str] = field(default_factory=dict)
    shown: Mapping[str, str] = field(default_factory=dict)
    ones: tuple[str, ...] = ()
    kind: Literal["category"] = "category"

    def __post_init__(self) -> None:
        _check_list(self.name, self.values, self.aliases)
        unknown = set(self.shown) - set(self.names)
        if unknown:
            raise ConfigurationError(
                f"column {self.name!r}: words are given for {min(unknown)!r}, which is not listed"
            )
        ones: object = self.ones
        some = isinstance(ones, tuple) and len(set(ones)) == len(ones) and {*ones} < {*self.names}
        if ones and not some:
            raise ConfigurationError(
                f"column {self.name!r}: ones are some of its values, each once, and not all of "
                f"them; there are {', '.join(self.names)}"
            )

    @property
    def size(self) -> int:
        """Number of values, ``other`` included."""
        return len(self.names)

    @property
    def names(self) -> tuple[str, ...]:
        """The list, with ``other`` at its end unless it stands there."""
        return self.values if OTHER in self.values else (*self.values, OTHER)

    def place(self, value: object) -> int:
        """The place of a value in ``names``."""
        found = _listed(value, self.values, self.aliases)
        return self.names.index(OTHER) if found is None else found

    def example(self, place: int) -> str:
        """The value at a place."""
        return self.names[place]

    def bit(self, place: int) -> int:
        """1 for the values of ``ones``, or for all but the first one of the list."""
        return int(self.names[place] in self.ones if self.ones else place > 0)

    def of_bit(self, bit: int) -> int:
        """The value that stands for a bit: the first one of the list that has it."""
        return next((at for at in range(self.size) if self.bit(at) == bit), 0)

    def words(self, value: object) -> str:
        """A value in words; one that is not listed is ``other``, whatever it says."""
        name = self.names[self.place(value)]
        return self.shown.get(name, name)


Column = Number | Category


@dataclass(frozen=True, slots=True)
class Label:
    """The label that is predicted. A row with another one is left out without notice.

    Attributes:
        name: Of the column.
        values: The answers, at least two, for example ``("No", "Yes")``.
        aliases: From what the rows have to an answer.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    name: str
    values: tuple[str, ...]
    aliases: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.values) < 2:
            raise ConfigurationError(f"label {self.name!r}: give at least two answers")
        _check_list(self.name, self.values, self.aliases)

    def place(self, value: object) -> int | None:
        """The answer, or None where it is not listed."""
        return _listed(value, self.values, self.aliases)


@dataclass(frozen=True, slots=True)
class Encoded:
    """A row as a schema sees it.

    Attributes:
        places: Interval or category of each column.
        label: Place of the answer; None where the row has none that is listed.
    """

    places: tuple[int, ...]
    label: int | None


@dataclass(frozen=True)  # without slots, for its digest is computed once
class Schema:
    """Columns and the label of a table.

    Attributes:
        columns: What a label is predicted from. Other columns of a table are not looked at.
        label: What is predicted.
        text: A row in words, with the columns' names in braces; ``name value`` of each unless
            given.
        question: What is asked about a row.
        group_by: Columns that aggregates are grouped by, after the label, the first ones first.

    Raises:
        ConfigurationError: The parts do not fit each other.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    columns: tuple[Annotated[Column, Field(discriminator="kind")], ...]
    label: Label
    text: str = ""
    question: str = ""
    group_by: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names = [column.name for column in self.columns]
        if not names or not all(names):
            raise ConfigurationError("a schema needs at least one column, and each has a name")
        if len({*names, self.label.name}) <= len(names):
            raise ConfigurationError("a column stands twice in the schema")
        for what, named in (
            ("the text names", re.findall(r"\{(.*?)\}", self.text)),
            ("rows are grouped by", self.group_by),
        ):
            unknown = next((name for name in named if name not in names), None)
            if unknown is not None:
                raise ConfigurationError(f"{what} {unknown!r}, which is no column of the schema")

    @cached_property
    def digest(self) -> str:
        """A digest that distinguishes schemas."""
        text = json.dumps(self.to_json(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def to_json(self) -> dict[str, Any]:
        """All of it for a file; what a column leaves to the default of ``ones`` is left out."""
        found = asdict(self)
        for column in found["columns"]:
            if not column.get("ones", True):
                del column["ones"]  # so that what was kept before there was one is still read
        return found

    def column(self, name: str) -> Column:
        """A column by name.

        Raises:
            ConfigurationError: There is none.
        """
        for column in self.columns:
            if column.name == name:
                return column
        listed = ", ".join(column.name for column in self.columns)
        raise ConfigurationError(f"the schema has no column {name!r}; it has {listed}")

    def encode(self, row: Row) -> Encoded:
        """The part of a row that counts. No row raises."""
        places = tuple(column.place(row.get(column.name)) for column in self.columns)
        return Encoded(places, self.label.place(row.get(self.label.name)))

    def decode(self, places: Sequence[int]) -> dict[str, float | str]:
        """A row that stands for intervals and categories."""
        pairs = zip(self.columns, places, strict=True)
        return {column.name: column.example(place) for column, place in pairs}

    @staticmethod
    def read(source: str | Path) -> Schema:
        """A schema from a TOML file, or one of ``PACKAGED`` by its name; see docs/tabular.md.

        Raises:
            ConfigurationError: There is no such file, or it is no schema.
        """
        if str(source) in PACKAGED:
            text = (files("dpicl_rag.tabular") / "schemas" / f"{source}.toml").read_text("utf-8")
        else:
            try:
                text = Path(source).read_text(encoding="utf-8")
            except (OSError, ValueError):
                raise ConfigurationError(
                    f"{source}: no schema file that can be read; give a TOML file, or one of "
                    f"{', '.join(PACKAGED)}"
                ) from None
        try:
            found = tomllib.loads(text)
        except ValueError as error:
            raise ConfigurationError(f"{source}: no TOML: {error}") from None
        found["columns"] = found.pop("column", [])
        return _validated(source, found)


def _validated(source: str | Path, found: dict[str, Any]) -> Schema:
    for column in (*_tables(found["columns"]), *_tables([found.get("label")])):
        for key in ("low", "high", "cuts", "values", "typical", "ones"):
            if isinstance(column.get(key), str):
                name = column.get("name", "?")
                raise ConfigurationError(f"{source}: column {name!r}, {key}: {_INFERRED}")
    try:
        return TypeAdapter(Schema).validate_python(found)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        if isinstance(own := first.get("ctx", {}).get("error"), ConfigurationError):
            raise ConfigurationError(f"{source}: {own}") from None
        _, sentence = _validate.place_and_sentence(error)
        raise ConfigurationError(
            f"{source}: {sentence}; a schema has text, question, group_by, [label] "
            "with name, values and aliases, and [[column]] with kind, name, and low, high and cuts "
            "of a number or values of a category"
        ) from None


def _tables(found: object) -> list[dict[str, Any]]:
    return [part for part in found if isinstance(part, dict)] if isinstance(found, list) else []


def _check_list(name: str, values: object, aliases: Mapping[str, str]) -> None:
    named = isinstance(values, tuple) and all(isinstance(v, str) and v.strip() for v in values)
    if not named or not values:
        raise ConfigurationError(f"column {name!r}: {_INFERRED}")
    listed: tuple[str, ...] = values  # type: ignore[assignment]
    if len(set(listed)) < len(listed):
        raise ConfigurationError(f"column {name!r}: a value stands twice in the list")
    wrong = next((value for value in aliases.values() if value not in listed), None)
    if wrong is not None:
        raise ConfigurationError(
            f"column {name!r}: an alias leads to {wrong!r}, which is not listed"
        )


def _listed(value: object, values: Sequence[str], aliases: Mapping[str, str]) -> int | None:
    text = _text(value)
    name = aliases.get(text, text)
    return values.index(name) if name in values else None


def _text(value: object) -> str:
    try:
        return str(value).strip()
    except Exception:  # too many digits, nested too deeply, or of a kind that fails
        return ""


def serialise_row(row: Row, schema: Schema) -> str:
    """A row in one line: the schema's text with the row's values, without the label.

    Bounds hold, and a value that is not listed is ``other``. That makes nothing private: a private
    row in words is a private text.
    """
    words = {column.name: column.words(row.get(column.name)) for column in schema.columns}
    text = schema.text or f"{', '.join(f'{name} {{{name}}}' for name in words)}."
    for name, word in words.items():
        text = text.replace(f"{{{name}}}", word)
    return text


def prompt(query: Row, demonstrations: Sequence[Row], schema: Schema) -> str:
    """A whole prompt as in the paper: demonstrations line by line, then the query.

    Returns:
        A text that ends in ``Answer:``; the first word of what follows is the answer.
    """
    shown = [f"{asked(row, schema)} Answer: {answer(row, schema)}" for row in demonstrations]
    return "\n".join([*shown, f"{asked(query, schema)} Answer:"])


def examples(rows: Sequence[Row], schema: Schema) -> tuple[Example, ...]:
    """Rows with labels as worked examples of a `PromptTemplate`."""
    return tuple(
        Example(serialise_row(row, schema), schema.question, answer(row, schema)) for row in rows
    )


def asked(row: Row, schema: Schema) -> str:
    """A row in words and the question."""
    return f"{serialise_row(row, schema)} {schema.question}".strip()


def answer(row: Row, schema: Schema) -> str:
    """The label of a row that was drawn from a release.

    Raises:
        ConfigurationError: The row has none that is listed.
    """
    place = schema.label.place(row.get(schema.label.name))
    if place is None:
        raise ConfigurationError(
            f"a demonstration has one of the labels {', '.join(schema.label.values)}"
        )
    return schema.label.values[place]
