"""``sync``: bring a corpus up to date with where its documents are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpicl_rag.cli import bring, console, data_folder, options
from dpicl_rag.errors import ConfigurationError, CorpusError, DPICLError, LoaderError

if TYPE_CHECKING:
    from dpicl_rag.corpora.holdings import StoredSource
    from dpicl_rag.following.mail_account import MailAccount
    from dpicl_rag.following.outcome import Brought


@console.reported("interrupted; run the same command again to go on")
def sync(
    corpus: Annotated[str, typer.Argument(metavar="NAME", help="Name of the corpus.")],
    drop: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH-OR-ADDRESS",
            help="Follow this no more, and delete what stands nowhere else. Paths that were "
            "ingested together are named together.",
        ),
    ] = None,
    deletions: options.Deletions = False,
    token_command: options.TokenCommand = None,
    ca_file: options.CaFile = None,
    path: options.StorePath = None,
    embedder: options.Embedding = None,
    device: options.EmbeddingDevice = None,
    ledger: options.LedgerPath = None,
    no_ledger: Annotated[
        bool, typer.Option("--no-ledger", help="Nothing pays for answers from this corpus.")
    ] = False,
    yes: Annotated[
        bool,
        typer.Option("--yes", "-y", help="Do not ask before many units that are there become one."),
    ] = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Read what is new or was edited where the documents are, and delete what is gone there.

    A corpus remembers the files, folders and mailboxes that it was ingested from, and how. What
    units have spent stays in the ledger. Where more than half of a source is gone nothing of it is
    deleted without --deletions. A Chroma collection is asked in place and needs no sync.
    """
    from dpicl_rag.corpora import Corpus
    from dpicl_rag.stores.chroma import CollectionAddress

    if CollectionAddress.of(corpus) is not None:
        raise ConfigurationError(
            "a Chroma collection is asked in place, as it is at that moment; it needs no sync"
        )
    how = bring.Following(corpus, path, ledger, no_ledger, yes, quiet, deletions, as_json)
    with console.status("Opening the corpus", quiet=quiet):
        target = Corpus.open(corpus, path, embedder=data_folder.load_embedder(embedder, device))
    brought: list[Brought] = []
    failed: list[str] = []
    with bring.opened(target, how) as bringing:
        if drop:
            brought.append(_dropped(bringing, drop))
        sources = target.followed.sources()
        if not sources and not drop:
            raise CorpusError(
                f"corpus {corpus!r} follows no source yet; ingest its documents once more and it "
                "does"
            )
        for source in sources:
            try:
                brought.append(_brought(bringing, source, bring.MailAccess(token_command, ca_file)))
            except DPICLError as error:
                if len(sources) == 1:
                    raise
                failed.append(str(error))
    bring.show(how, brought, failed=failed)
    for line in failed:
        console.complain(f"error: {line}")
    if failed:
        raise typer.Exit(1)


def _brought(bringing: bring.Bringing, source: StoredSource, access: bring.MailAccess) -> Brought:
    from dpicl_rag.following import mail_account
    from dpicl_rag.following.followed_files import FileSource
    from dpicl_rag.following.mail_account import MailAccount

    if source.kind == mail_account.KIND:
        with access.session(MailAccount.of(source), quiet=bringing.how.quiet) as session:
            return bringing.mail(session)
    files = FileSource.of(source)
    for path in map(Path, files.paths):
        if not path.exists():
            every = " ".join(f"--drop {one}" for one in files.paths)
            raise LoaderError(
                f"{path} is not there, and nothing of it was deleted; mount it or put it back, or "
                f"follow it no more: `dpicl-rag sync {bringing.how.corpus} {every}`"
            )
    return bringing.files(files)


def _dropped(bringing: bring.Bringing, names: Sequence[str]) -> Brought:
    """Follow sources no more, and delete what stands nowhere else."""
    from dpicl_rag.following.followed_files import FileSource
    from dpicl_rag.following.mail_account import MailAccount, accounts_of, is_address
    from dpicl_rag.following.outcome import Brought

    followed = bringing.target.followed
    sources = {one.id: one for one in followed.sources()}
    paths = [name for name in names if not is_address(name)]
    files = [FileSource.at(paths)] if paths else []
    accounts = accounts_of([name for name in names if is_address(name)])
    named = {one.id: one.name for one in files} | {one.id: one.name for one in accounts}
    for id, name in named.items():
        if id not in sources:
            there = [_name(source) for source in sources.values()]
            raise CorpusError(f"{name} is not followed; there are: {'; '.join(there) or 'none'}")
    deleted = 0
    for one in files:
        ids = [held.id for held in followed.held(one.id)]
        bringing.forget_reading(followed.units_at(ids))
        deleted += followed.release(ids)
        followed.leave(one.id)
    for account in accounts:
        before = MailAccount.of(sources[account.id])
        left = before.without(account.folders)
        if left.folders:
            followed.follow(left.source)
        deleted += followed.release(
            held.id for held in followed.held(account.id) if held.part not in left.folders
        )
        if not left.folders:
            followed.leave(account.id)
    return Brought(", ".join(names), 0, 0, 0, (), 0, deleted)


def _name(source: StoredSource) -> str:
    from dpicl_rag.following import mail_account
    from dpicl_rag.following.followed_files import FileSource
    from dpicl_rag.following.mail_account import MailAccount

    if source.kind != mail_account.KIND:
        return FileSource.of(source).name
    account: MailAccount = MailAccount.of(source)
    return f"{account.name}/{','.join(account.folders)}"
