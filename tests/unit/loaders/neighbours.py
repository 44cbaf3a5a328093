"""Neighbouring corpora on disk: one unit more or less must change nothing but itself.

`corpus` makes up files of many people and one more; `differences` loads them without and with that
one, from here and from there, and says what changed that should not have. Whose words a document
has is written in it, so that a person in two units and two people in one are found as well.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from dpicl_rag.documents import Document
from dpicl_rag.errors import ConfigurationError, LoaderError
from dpicl_rag.loaders import LoadResult, load
from dpicl_rag.loaders.shared_keys import Components, connect, name_key
from dpicl_rag.loaders.table_files import split_array

# Names of people as they may be written; each line is one person.
PEOPLE: list[list[bytes]] = [
    ["müller".encode(), unicodedata.normalize("NFD", "müller").encode(), "müller".encode("cp1252")],
    ["möller".encode(), "möller".encode("cp1252")],
    [b"m\x81ller"],
    [b"m\x8dller"],
    [b"5", b"5.0", b"5.00", b" 5"],
    [b"-5", b"-5.0"],
    [b"005"],
    [b"5.5"],
    [b"9007199254740993", b"9007199254740993.0"],
    [b"9007199254740992"],
    [b"10000000000000000", b"1e+16", b"10000000000000000.0"],
    [b"1e16"],
    [b"Ann Lee", "Ann\u00a0Lee".encode(), b"Ann  Lee ", "\u2003Ann Lee".encode()],
    [b"ann lee"],
    [b"a\x00b"],
    [b"ab"],
    [b'o"neil'],
    [b"lee, ann", b"lee,\nann"],
]
PLAIN = [b"hello", b"", b"x\x00", "naïve".encode(), b"na\xefve", b"a b", b"1", b"0", b"z" * 5_000]
WORDS = [
    *PLAIN, b"a,b", b'say "hi"', b"two\nlines", b"tail\n", b'"', b'""', b'",', b"x\ry", b"\x00",
    b"\xff\xfe", b"\x1f\x8b", b"\xef\xbb\xbf", b"a;b|c\td", b"7,forged\n8,forged", b"{", b"\\",
    b"From x Mon Dec 13 07:05:00 2000",
]  # fmt: skip
# Lines that nobody's program would have written.
DAMAGED = [
    b'"', b'x,"abc', b'"abc', b'x,"', b',"', b'"x"y,1', b'1,2"', b'x",', b'","', b'"",""', b'"\xff',
    b"a,b,c,d,e", b"\xff\xfe", b"\x00", b"{", b'{"a": "', b"[[[[", b"[" * 5_000, b'{"id": 1',
    b'{"other": "x"}', b'{"\\ud800": "\\ud800"}', b"9" * 5_000, b'{"text": "' + b"z" * 9_000,
]  # fmt: skip
# Headers of mail that takes time or memory to parse, and how such a text begins.
HOSTILE = [
    b'Content-Type: text/plain; a="' + b";" * 20_000 + b'"\n\n',
    b"Content-Type: text/plain; charset=punycode\n\n" + b"9a" * 5_000,
    b"Content-Type: text/html\n\n<table><tr><td>" + b"z" * 20_000 + b"<tr><td>a" * 1_000,
    b"".join(b"Content-Type: multipart/x; boundary=b%d\n\n--b%d\n" % (n, n) for n in range(90)),
    b"Content-Type: multipart/x; boundary=b\n\n" + b"--b\n\n" * 1_001,
    b"X-Marks: a\n\n" + "\u0315\u0300".encode() * 5_000,
]
STRANGER = "stranger@y.org"
SUBJECTS = ["Invoice", "Salary", "Plans", "Hello"]
MARKS = ["", "", "Re: ", "AW: ", "Fwd: ", "EXTERNAL: Re: ", "[EXT] Automatic reply: "]


@dataclass
class Files:
    """A corpus, and one unit more.

    Attributes:
        kind: What it is.
        head: By name, what each file begins with.
        units: By name, what people have in each file, one after the other.
        arrays: Names of files that are arrays of what people have.
        more: A name, a place and what the one more has there; several for several mails.
        packed: Names of files that are packed.
        options: Of the load.
        keyed: Whether a document's unit is its person.
    """

    kind: str
    head: dict[bytes, bytes] = field(default_factory=dict)
    units: dict[bytes, list[bytes]] = field(default_factory=dict)
    arrays: set[bytes] = field(default_factory=set)
    more: list[tuple[bytes, int, bytes]] = field(default_factory=list)
    packed: set[bytes] = field(default_factory=set)
    options: dict[str, str] = field(default_factory=dict)
    keyed: bool = False

    def write(self, folder: Path, *, more: bool) -> None:
        """Write the files."""
        units = {name: list(those) for name, those in self.units.items()}
        for name, place, what in self.more if more else ():
            units.setdefault(name, []).insert(place, what)
        for name, those in units.items():
            raw = self.head.get(name, b"") + b"".join(those)
            if name in self.arrays:
                raw = b"[" + b",".join(those) + b"]"
            if "records" in self.options:
                raw = b'{"count": 7, "rows":' + raw + b"}"
            path = os.path.join(os.fsencode(folder), name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(gzip.compress(raw) if name in self.packed else raw)


def corpus(seed: int) -> Files:
    """A corpus of some kind, made up from a number."""
    coins = random.Random(seed)
    return coins.choice([_table, _table, _lines, _mailbox, _mailbox, _texts, _collected])(coins)


def _cell(value: bytes, delimiter: bytes, coins: random.Random) -> bytes:
    if re.search(rb'["\r\n%s]' % re.escape(delimiter), value) or coins.random() < 0.1:
        return b'"' + value.replace(b'"', b'""') + b'"'
    return value


def _word(words: list[bytes], delimiter: bytes, coins: random.Random) -> bytes:
    """What somebody says: anything, but for how it begins; see ``loaders.delimited``."""
    word = coins.choice(words) + coins.choice(words)
    return word if not word.startswith((delimiter, b"\n")) else b"x" + word


def _table(coins: random.Random) -> Files:
    delimiter = coins.choice([b",", b";", b"\t", b"|"])
    words = coins.choice([PLAIN, WORDS])
    made = Files("table", keyed=coins.random() < 0.7)
    made.options = coins.choice([{}, {"key_field": "who"}, {"unit": "who"}])
    if not made.keyed:
        made.options = coins.choice([{}, {"text_field": "note"}])
    elif not made.options:
        made.options = {"unit": "who"}
    name = coins.choice([b"t.csv", b"sub/t.csv"]) + coins.choice([b"", b".gz"])
    made.packed = {name} if name.endswith(b".gz") else set()
    made.head[name] = delimiter.join([b"who", b"mark", b"note"]) + b"\n"

    def row(person: int) -> bytes:
        said = [coins.choice(PEOPLE[person]), b"p%d" % person, _word(words, delimiter, coins)]
        return delimiter.join(_cell(one, delimiter, coins) for one in said) + b"\n"

    _fill(made, name, row, coins)
    return made


def _lines(coins: random.Random) -> Files:
    made = Files("lines", keyed=coins.random() < 0.7)
    made.options = coins.choice([{"unit": "who"}, {"key_field": "who"}])
    if not made.keyed:
        made.options = coins.choice([{}, {"text_field": "smokes"}, {"unit": "smokes"}])
    name = coins.choice([b"t.jsonl", b"t.json"]) + coins.choice([b"", b".gz"])
    if b".jsonl" not in name and coins.random() < 0.7:
        made.arrays = {name}
        made.options |= coins.choice([{}, {"records": "rows"}])
    made.packed = {name} if name.endswith(b".gz") else set()

    def row(person: int) -> bytes:
        said = {b"mark": b"p%d" % person, b"note": coins.choice(WORDS)}
        if coins.random() < 0.1:
            said[b"smokes"] = b"yes"
        quoted = {key: _json(value) for key, value in said.items()}
        who = coins.choice(PEOPLE[person])
        is_number = re.fullmatch(rb"-?(0|[1-9][0-9]*)(\.[0-9]+)?(e\+?[0-9]+)?", who)
        quoted[b"who"] = who if is_number and coins.random() < 0.5 else _json(who)
        return b"{" + b", ".join(b'"%s": %s' % item for item in quoted.items()) + b"}\n"

    _fill(made, name, row, coins)
    return made


def _json(value: bytes) -> bytes:
    """A JSON string, of whatever bytes."""
    text = json.dumps(value.decode("utf-8", "surrogateescape"), ensure_ascii=False)
    return text.encode("utf-8", "surrogateescape")


def _fill(made: Files, name: bytes, row: Callable[[int], bytes], coins: random.Random) -> None:
    made.units[name] = [row(_person(coins)) for _ in range(coins.choice([0, 1, 4, 12]))]
    place = coins.randint(0, len(made.units[name]))
    more = row(_person(coins))
    if coins.random() < 0.5:
        more = coins.choice(DAMAGED) + b"\n"
    if name in made.arrays and split_array(b"[" + more + b"]") != [more]:
        more = _json(more)  # what is no element is damage of the whole array
    if b".json" in name and name not in made.arrays and more.lstrip().startswith(b"["):
        more = b"{" + more  # a file of lines begins with none: it would be an array
    if not made.head and more.startswith((b"\xff\xfe", b"\xef\xbb\xbf", b"\x1f\x8b")):
        more = b" " + more  # such a mark would be the file's
    made.more = [(name, place, more)]


def _person(coins: random.Random) -> int:
    return coins.randrange(len(PEOPLE))


def _mailbox(coins: random.Random) -> Files:
    made = Files("mailbox")
    made.options = coins.choice([{}, {}, {"unit": "sender"}, {"unit": "document"}])
    name = coins.choice([b"box.mbox", b"Inbox", b"box.mbox.gz"])
    made.packed = {name} if name.endswith(b".gz") else set()
    people = [f"p{number}@x.org" for number in range(5)]
    ids: list[str] = []

    def mail(sender: str, known: list[str]) -> bytes:
        own = f"<{coins.randrange(10**9)}@{sender}>"
        to = ", ".join(coins.sample(people, coins.randint(0, 2)))
        head = [f"Message-ID: {own}", f"From: {sender}", f"To: {to}"]
        head += [f"Date: {coins.randint(1, 28)} Jan {coins.choice([2001, 2026])} 10:00:00 +0000"]
        head += [f"Subject: {coins.choice(MARKS)}{coins.choice(SUBJECTS)}"]
        if known and coins.random() < 0.4:
            head += [f"References: {coins.choice(known)}"]
        known.append(own)
        body = re.sub(rb"(?m)^(>*From )", rb">\1", coins.choice(WORDS).replace(b"\r", b""))
        mark = coins.choice([b"From x Mon Dec 13 07:05:00 2000", b"From a@b Mon Dec 13 07:05 2000"])
        return (
            mark
            + b"\n"
            + "\n".join(head).encode()
            + b"\n"
            + (coins.choice(HOSTILE) if sender == STRANGER and coins.random() < 0.5 else b"\n")
            + b"Words of "
            + own.encode()
            + body
            + b"\n\n"
        )

    made.units[name] = [mail(coins.choice(people), ids) for _ in range(coins.choice([0, 1, 5, 15]))]
    # A stranger knows nobody's ids, but may guess subjects.
    own: list[str] = []
    for _ in range(coins.randint(1, 4)):
        place = coins.randint(0, len(made.units[name]))
        made.more.append((name, place, mail(STRANGER, own)))
    return made


def _collected(coins: random.Random) -> Files:
    """Conversations, and mails of a stranger who has collected their ids: each ties many."""
    made = Files("mailbox", keyed=True)
    ids: list[list[str]] = []

    def mail(own: str, answers: list[str], subject: str, between: str = " ") -> bytes:
        head = [f"Message-ID: <{own}>", f"From: {own}", f"Subject: {subject}"]
        head += [f"References: {between.join(answers)}"] if answers else []
        mark = "From x Mon Dec 13 07:05:00 2000"
        return "\n".join([mark, *head, "", f"Words of {own}", "", ""]).encode()

    box: list[bytes] = []
    for number in range(coins.randint(5, 8)):
        own = [f"p{number}.{place}@x.org" for place in range(coins.randint(1, 4))]
        ids.append(own)
        is_bare = coins.random() < 0.5
        told = own if is_bare else [f"<{one}>" for one in own]
        for place, one in enumerate(own):
            answers = told[:place] if coins.random() < 0.7 else told[max(place - 1, 0) : place]
            box.append(mail(one, answers, f"p{number}", coins.choice([" ", ",", ", "])))
    if coins.random() < 0.5:
        del box[0]  # the first of a conversation, whose id its answers know
    coins.shuffle(box)
    made.units[b"box.mbox"] = box
    for number in range(coins.randint(1, 3)):
        # Of each conversation the ids that its mails share, whichever of them are there.
        some = coins.sample(ids, coins.randint(5, 8)) if len(ids) > 7 else ids
        tied = [f"<{one}>" for own in some for one in own]
        place = coins.randint(0, len(box))
        made.more.append((b"box.mbox", place, mail(f"{number}@stranger.org", tied, "Hello")))
    return made


def _texts(coins: random.Random) -> Files:
    made = Files("texts", options=coins.choice([{}, {}, {"unit": "file"}]))
    made.keyed = True

    def text(person: int) -> tuple[bytes, bytes]:
        # Two ways of writing a name are two files, and so two people here.
        name = PEOPLE[person][0].replace(b"\x00", b"0") + b".txt"
        mark = b"p%d " % person
        if made.options:  # nothing but the name tells whose it is
            return name, mark
        return coins.choice([b"", b"sub/"]) + mark.replace(b" ", b"-") + name, mark

    def spoken(mark: bytes) -> bytes:
        word = coins.choice(WORDS).replace(b"\x00", b"").removeprefix(b"\xff\xfe")
        return mark + word if coins.random() < 0.7 else b"the same words"

    people = list(dict.fromkeys([2, 3, *coins.sample(range(len(PEOPLE)), 4)]))
    coins.shuffle(people)
    for person in people[:-1]:
        name, mark = text(person)
        if coins.random() < 0.3:
            name += b".gz"
            made.packed.add(name)
        made.units[name] = [spoken(mark)]
    name, mark = text(people[-1])
    made.more = [(name, 0, spoken(mark))]
    return made


# ---- what must hold ----


def differences(files: Files, folder: Path) -> list[str]:
    """What one unit more changed that it should not have."""
    without, together = folder / "without" / "in", folder / "together" / "in"
    for path, more in ((without, False), (together, True)):
        path.mkdir(parents=True)
        files.write(path, more=more)
    alone = len(files.units) == 1 and files.kind != "texts"
    before, after = (
        _load(path / os.fsdecode(next(iter(files.units))) if alone else path, files.options)
        for path in (without, together)
    )
    if isinstance(before, str) or isinstance(after, str):
        return [] if before == after else [f"{before} became {after}"]
    found = _moved(files, before, after, (str(without), str(together)))
    if files.keyed:
        found += _mixed(after)
    if files.kind == "texts" and not files.options:
        found += _places(files, together, after)
    return found


def _load(path: Path, options: dict[str, str]) -> LoadResult | str:
    try:
        return load(path, **options)  # type: ignore[arg-type]
    except (LoaderError, ConfigurationError) as error:
        return type(error).__name__


def _moved(files: Files, before: LoadResult, after: LoadResult, at: tuple[str, str]) -> list[str]:
    """Units that are there in one and not in the other, as a whole or as they were."""
    one, other = (Counter(_units(found.documents, files)) for found in (before, after))
    gone, new = (one - other).total(), (other - one).total()
    is_mail = files.kind == "mailbox" and not files.options
    # A stranger's mails are a thread each, and change nobody's.
    most_gone, most_new = (0, len(files.more)) if is_mail else (1, len(files.more))
    found = []
    if gone > min(most_gone, new) or new > most_new:  # one that went came again, with more in it
        found.append(f"{gone} units went and {new} came")
    if is_mail and len(after.report.joined) - len(before.report.joined) > len(files.more):
        found.append("a stranger's mails joined others")
    return found


def _units(documents: list[Document], files: Files) -> Iterable[object]:
    """Each unit by all that it holds."""
    held: defaultdict[str, Counter[object]] = defaultdict(Counter)
    for root, document in zip(roots(documents), documents, strict=True):
        # A text is called by its place, which is another for each of the two folders.
        unit = "" if files.kind == "texts" else document.unit
        held[root][unit, document.text, *sorted(document.metadata.items())] += 1
    return [frozenset(those.items()) for those in held.values()]


def roots(documents: list[Document]) -> list[str]:
    components = Components()
    names = [name_key(document.unit) for document in documents]
    connect(
        components,
        (
            (name, one.origin.keys, one.origin.offers)
            for name, one in zip(names, documents, strict=True)
        ),
    )
    return [components.find(name) for name in names]


def _mixed(found: LoadResult) -> list[str]:
    """People in two units, and units of two people."""
    units: defaultdict[str, set[str]] = defaultdict(set)
    for root, document in zip(roots(found.documents), found.documents, strict=True):
        told = document.metadata.get("mark", document.text)
        if person := re.match(r"(?:Subject: )?(p\d+)", told):
            units[person[1]].add(root)
    several = [person for person, those in units.items() if len(those) > 1]
    shared = [root for root, n in Counter(r for s in units.values() for r in s).items() if n > 1]
    return [f"{len(several)} people are several units"] * bool(several) + [
        f"{len(shared)} units are of several people"
    ] * bool(shared)


def _places(files: Files, folder: Path, found: LoadResult) -> list[str]:
    """Texts that are other units when they are loaded from elsewhere, moved or edited."""
    wrong = []
    names = {document.unit for document in found.documents}
    if {document.unit for document in load(folder.parent).documents} != names:
        wrong.append("from the folder above, texts are other units")
    for document in found.documents:
        for name in (*files.units, *(more[0] for more in files.more)):
            path = folder / os.fsdecode(name)
            if not path.name.startswith(document.metadata["file"].rpartition("/")[2][:3]):
                continue
            (alone,) = load(path).documents
            if alone.unit != document.unit:
                wrong.append("by itself, a text is another unit")
    if not found.documents:
        return wrong
    path = folder / os.fsdecode(files.more[0][0])
    (first,) = load(path).documents
    moved = path.rename(path.with_name("moved.txt"))
    (second,) = load(moved).documents
    if len(set(roots([first, second]))) > 1:
        wrong.append("moved, a text is another unit")
    moved.write_text("edited")
    (third,) = load(moved).documents
    if len(set(roots([second, third]))) > 1:
        wrong.append("edited, a text is another unit")
    return wrong
