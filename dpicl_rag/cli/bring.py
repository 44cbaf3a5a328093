"""Bringing corpora up to date with their sources: what `ingest` of mail and `sync` share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpicl_rag.cli import console, data_folder, show_joins

if TYPE_CHECKING:
    from dpicl_rag.corpora import Corpus
    from dpicl_rag.corpora.adding import Ingested
    from dpicl_rag.corpora.holdings import Held
    from dpicl_rag.documents import Document
    from dpicl_rag.following.followed_files import FileSource
    from dpicl_rag.following.mail_account import MailAccount, MailSession
    from dpicl_rag.following.outcome import Brought
    from dpicl_rag.language_models.base import Progress
    from dpicl_rag.ledger import Ledger
    from dpicl_rag.loaders.shared_keys import Joins

_SKIPPED = 10


@dataclass(frozen=True)
class Following:
    """A corpus that is brought up to date, and how; options as of the commands."""

    corpus: str
    path: str | None
    ledger: Path | None
    no_ledger: bool
    yes: bool
    quiet: bool
    deletions: bool
    as_json: bool


@dataclass(frozen=True)
class MailAccess:
    """Access to mail accounts; options as of the commands."""

    token_command: str | None
    ca_file: Path | None

    def session(self, account: MailAccount, *, quiet: bool) -> MailSession:
        """Open a session."""
        from dpicl_rag.following.mail_account import MailSession, credential_of

        credential = credential_of(account, self.token_command)
        with console.status(f"Opening {account.name}", quiet=quiet):
            return MailSession(account, credential, self.ca_file)


@dataclass(frozen=True)
class Bringing:
    """An open corpus and its ledger."""

    target: Corpus
    book: Ledger | None
    how: Following

    def mail(self, session: MailSession) -> Brought:
        """Bring the corpus up to date with an account."""
        from dpicl_rag.following.followed_mail import bring_mail

        with self._bar("Looking at new mail") as looking, self._bar("Reading mail") as bar:
            return bring_mail(
                self.target,
                session,
                partial(self._add, looking, bar, None),
                **self._way(),
                on_headers=looking.update,
                on_progress=bar.update,
            )

    def files(self, source: FileSource) -> Brought:
        """Bring the corpus up to date with files and folders."""
        from dpicl_rag.following.followed_files import bring_files

        with self._bar("Reading") as reading, self._bar("Embedding") as embedding:
            add = partial(self._add, reading, embedding, embedding.update)
            return bring_files(self.target, source, add, **self._way(), on_progress=reading.update)

    def forget_reading(self, units: set[str]) -> None:
        """Delete what models and readers have read of units."""
        data_folder.forget_units_read(self.target, self.how.path, units)

    def _bar(self, label: str) -> console.Bar:
        return console.Bar(label, quiet=self.how.quiet, counts=True, logged=True)

    def _way(self) -> dict[str, Any]:
        joins = "allow" if self.how.yes else "ask"
        given = {"joins": joins, "deletions": self.how.deletions}
        return {**given, "before_deleting": self.forget_reading}

    def _add(
        self,
        looking: console.Bar,
        bar: console.Bar,
        on_progress: Progress | None,
        documents: Sequence[Document],
        held: Held,
    ) -> Ingested:
        """Add documents, after those that were looked at."""
        looking.stop()

        def add(asked: Joins) -> Ingested:
            return self.target.add(
                documents,
                on_progress,
                joins=asked,
                held=held,
                ledger=self.book,
                no_ledger=self.how.no_ledger,
            )

        return show_joins.asking(add, self.target, yes=self.how.yes, before=bar.stop)


@contextmanager
def opened(target: Corpus, how: Following) -> Iterator[Bringing]:
    """Find the ledger, and close both with the block."""
    ledger = nullcontext() if how.no_ledger else data_folder.find_ledger(how.ledger)
    with closing(target), ledger as book:
        yield Bringing(target, book, how)


def ingest_mail(
    addresses: Sequence[str],
    how: Following,
    access: MailAccess,
    unit: str | None,
    create: Callable[[], Corpus],
    warm: Callable[[Corpus], int] | None,
) -> None:
    """Read mail on servers into a corpus, and follow it from now on."""
    from dpicl_rag.following.mail_account import accounts_of

    first, *others = accounts_of(addresses, unit)
    with access.session(first, quiet=how.quiet) as session:
        with console.status("Opening the corpus", quiet=how.quiet):
            target = create()
        with opened(target, how) as bringing:
            brought = [bringing.mail(session)]
            for account in others:
                with access.session(account, quiet=how.quiet) as session:
                    brought.append(bringing.mail(session))
            ahead = None if warm is None else warm(target)
    show(how, brought, read_ahead=ahead)


def show(
    how: Following,
    brought: Sequence[Brought],
    *,
    failed: Sequence[str] = (),
    read_ahead: int | None = None,
) -> None:
    """Print what came of it, for the owner of the documents."""
    if how.as_json:
        console.write_json(
            {
                "corpus": how.corpus,
                "sources": [_view(one) for one in brought],
                "failed": list(failed),
                **({} if read_ahead is None else {"read_ahead": read_ahead}),
            }
        )
        return
    for one in brought:
        console.show(one.source)
        console.show_counts(
            {
                "there now": one.there,
                "  known before": one.known,
                "read": one.read,
                "  skipped": len(one.skipped),
                "passages embedded": one.passages,
                "gone there, deleted here": one.deleted,
            }
        )
        for item in one.skipped[:_SKIPPED]:
            console.show(f"  {item.position}: {item.reason}")
        if (left := len(one.skipped) - _SKIPPED) > 0:
            console.show(f"  and {left:,} more; --json names them all")
        show_joins.show(one.joins)
        show_joins.show_withheld(one.withheld)


def _view(brought: Brought) -> dict[str, Any]:
    return {
        "source": brought.source,
        "there": brought.there,
        "read": brought.read,
        "known": brought.known,
        "skipped": [{"position": one.position, "reason": one.reason} for one in brought.skipped],
        "new": brought.passages,
        "deleted": brought.deleted,
        "joins": [show_joins.view(join) for join in brought.joins],
        "withheld": [show_joins.view(join) for join in brought.withheld],
    }
