"""Results of a load: the documents, and an account of every record that was seen."""

from __future__ import annotations

from dataclasses import dataclass

from dpicl_rag.documents import Document


def on_one_line(text: str) -> str:
    """The text, in which what does not print is escaped: no file's name forges a line."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


@dataclass(frozen=True, slots=True)
class Skipped:
    """A record that was seen but did not become a document.

    Attributes:
        position: Where it stands, for example ``"message 17 (byte 10482)"``, ``"row 3 (line 4)"``,
            ``"a.eml, attachment 2"`` or a file's name inside the directory. It is one line: what
            does not print is escaped.
        reason: One of a few fixed phrases. It never carries content.
    """

    position: str
    reason: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "position", on_one_line(self.position))


@dataclass(frozen=True, slots=True)
class LoadReport:
    """The account of one load; ``read == loaded + len(skipped)`` always.

    Attributes:
        read: Records seen: messages, rows, lines, files, and attachments that were not read.
        loaded: Records that became a document.
        skipped: The others, in the order of the source.
        joined: Where messages stand that are in one thread by their subjects alone, two by two. Who
            writes to somebody can choose a subject, so the owner may look at them.
        columns: Names that the records have for what they say, at most 30, where no record has the
            one that was asked for as unit, text or key.
        unit: What a unit is, in words: "one row", "the same customer".
        text: Columns that the text was taken from.
        unread: Columns that were not read, at most 30.
        persons: Those of them whose name looks like a person's.
    """

    read: int
    loaded: int
    skipped: tuple[Skipped, ...]
    joined: tuple[tuple[str, str], ...] = ()
    columns: tuple[str, ...] = ()
    unit: str = "one document"
    text: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    persons: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """The unit, and the columns that were read and those that were not, in a line."""
        said = [f"A unit is: {self.unit}."]
        said += [f"Text: {', '.join(self.text)}."] if self.text else []
        said += [f"Not read: {', '.join(self.unread)}."] if self.unread else []
        return " ".join(said)

    @property
    def doubt(self) -> str:
        """Reason to doubt that this unit is the one to protect; empty where no column gives one."""
        if not self.persons:
            return ""
        looks = "looks" if len(self.persons) == 1 else "look"
        persons = ", ".join(map(repr, self.persons))
        return f"a unit would be {self.unit}, but {persons} {looks} like a person"


@dataclass(frozen=True, slots=True)
class LoadResult:
    """Documents in the order of the source, and the account of how they came about."""

    documents: list[Document]
    report: LoadReport
