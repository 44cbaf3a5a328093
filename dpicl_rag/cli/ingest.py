"""``ingest``: documents from disk into a corpus."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpicl_rag.cli import bring, console, data_folder, options, show_joins
from dpicl_rag.cli.asking import tell_toy
from dpicl_rag.cli.model_commands import chosen_model
from dpicl_rag.errors import ConfigurationError, LoaderError

if TYPE_CHECKING:
    from dpicl_rag.corpora import Corpus
    from dpicl_rag.corpora.adding import Ingested
    from dpicl_rag.loaders import LoadReport, LoadResult
    from dpicl_rag.loaders.shared_keys import Joins

_POSITIONS = 10
_KEEP = "document"

NewCorpus = Annotated[str, typer.Option("--corpus", metavar="NAME", help="Name of the corpus.")]


@console.reported("interrupted; run the same command again to go on")
def ingest(
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PATH...",
            help="Mailboxes, tables, documents or directories of these. Read are mbox, maildir, "
            ".eml, .emlx, CSV, TSV, JSON (Lines), text, Markdown and HTML; with the extra `files` "
            "PDF, Word, PowerPoint, Excel, OpenDocument, RTF, EPUB and .msg; each of them also as "
            ".gz. Or mail on a server: imaps://USER@HOST/FOLDER,FOLDER.",
        ),
    ] = None,
    corpus: NewCorpus = "",
    unit: Annotated[
        str | None,
        typer.Option(
            metavar="thread|sender|document|FIELD",
            help="What is protected as one: everything with the same value. By default the thread "
            "for mail and the document (a row, a file) for the others.",
        ),
    ] = None,
    text_field: options.TextField = None,
    key_field: Annotated[
        str | None,
        typer.Option(
            metavar="FIELD",
            help="Column of PATH that names a row, so that an edited row stays the unit that it "
            "was; id, _id, uuid, guid, record_id or row_id by default.",
        ),
    ] = None,
    spam: Annotated[
        bool,
        typer.Option("--spam", help="Read what Gmail labels as spam, trash or drafts, too."),
    ] = False,
    header: Annotated[
        str | None,
        typer.Option(
            metavar="LINE|NAME,NAME",
            help="Which line of the tables in PATH names the columns, or names for those of tables "
            "where none does; by default the first.",
        ),
    ] = None,
    no_header: Annotated[
        bool, typer.Option("--no-header", help="No line of these tables names the columns.")
    ] = False,
    delimiter: Annotated[
        str | None,
        typer.Option(metavar="SIGN", help="What stands between the fields of CSV, such as ';'."),
    ] = None,
    records: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The list that holds the records, in .json files that are one object each.",
        ),
    ] = None,
    anew: Annotated[
        bool,
        typer.Option(
            "--anew",
            help="Make a corpus whose unit nobody chose anew under --unit, from all its files; "
            "what its units have spent goes with their records.",
        ),
    ] = False,
    public: Annotated[
        bool,
        typer.Option(
            "--public",
            help="Every text is public: answers from other corpora may be informed by it at no "
            "cost (`ask --public NAME`). Chosen when the corpus is made.",
        ),
    ] = False,
    warm: Annotated[
        bool,
        typer.Option(
            "--warm",
            help="Let the language model read the documents now, so that answers begin sooner. "
            "What it keeps on disk, up to 8 GiB beside the corpus, is as private as they are.",
        ),
    ] = False,
    model: options.Model = None,
    path: options.StorePath = None,
    embedder: options.Embedding = None,
    device: options.EmbeddingDevice = None,
    ledger: options.LedgerPath = None,
    no_ledger: Annotated[
        bool,
        typer.Option("--no-ledger", help="Nothing pays for answers from this corpus."),
    ] = False,
    deletions: options.Deletions = False,
    token_command: options.TokenCommand = None,
    ca_file: options.CaFile = None,
    yes: Annotated[
        bool,
        typer.Option(
            "--yes",
            "-y",
            help="Do not ask about the unit of a new corpus, nor before many units that are there "
            "become one, and go on under the budget of a corpus that was here before.",
        ),
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Name every skipped record.")
    ] = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Read documents into a corpus. Running it again adds what is new and nothing twice.

    A corpus keeps its privacy unit: where a column of a new one looks like a person's and no --unit
    is given, it asks, and stores nothing where nobody answers.

    What arrives later and belongs to a unit that is there, such as a reply, joins it. A message
    that would make many units one is withheld and shown, unless you say that they shall be.

    The corpus remembers where its documents are: `dpicl-rag sync` brings it up to date. Of mail on
    a server only what is new is read, and what was deleted there is deleted here. Its password is
    in the keyring or in DPICL_RAG_IMAP_PASSWORD.
    """
    if not corpus:
        raise typer.BadParameter("name the corpus", param_hint="--corpus")
    if not sources:
        raise typer.BadParameter("name what is to be read", param_hint="PATH")
    from dpicl_rag.corpora.folder import require_corpus_name

    require_corpus_name(corpus)  # before what may take hours
    options.at_most_one({"--header": header, "--no-header": no_header or None})
    if anew and unit is None:
        raise typer.BadParameter("it goes only with --unit", param_hint="--anew")
    if not (no_ledger or yes):
        _require_own_budget(corpus, path, ledger)
    model = chosen_model(model, asks=not (public or yes or as_json or quiet))
    from dpicl_rag.corpora import Corpus
    from dpicl_rag.following.followed_files import FileSource
    from dpicl_rag.following.mail_account import is_address
    from dpicl_rag.loaders import load
    from dpicl_rag.loaders.columns import header_as_written

    names = False if no_header else header_as_written(header, delimiter)
    if any(map(is_address, sources)):
        tables = {"--anew": anew or None, "--text-field": text_field, "--key-field": key_field}
        tables |= {"--header": header, "--no-header": no_header or None, "--delimiter": delimiter}
        tables |= {"--records": records}
        for name in (name for name, value in tables.items() if value is not None):
            raise typer.BadParameter("it is not for mail on a server", param_hint=name)
        if not all(map(is_address, sources)):
            raise typer.BadParameter("give files and mail on servers in two calls")
        bring.ingest_mail(
            sources,
            bring.Following(corpus, path, ledger, no_ledger, yes, quiet, deletions, as_json),
            bring.MailAccess(token_command, ca_file),
            unit,
            lambda: Corpus.create(
                corpus, path, embedder=data_folder.load_embedder(embedder, device), public=public
            ),
            (lambda target: _warm(target, corpus, path, model, quiet=quiet)) if warm else None,
        )
        return

    def read(unit: str | None) -> LoadResult:
        with console.Bar("Reading", quiet=quiet, counts=True, logged=True) as bar:
            return load(
                sources,
                unit=unit,
                text_field=text_field,
                key_field=key_field,
                header=names,
                delimiter=delimiter,
                records=records,
                joins="allow" if yes else "ask",
                spam=spam,
                on_progress=bar.update,
            )

    loaded = read(unit)
    if not loaded.report.read and all(map(_is_delimited, map(Path, sources))):
        raise LoaderError(
            f"nothing to read in {', '.join(sources)}: a table names its columns in its "
            "first row, and has a row for each record after it"
        )
    if loaded.report.misread:
        raise LoaderError(f"{', '.join(sources)}: {loaded.report.misread}")
    if unit is None and not public and corpus not in Corpus.names(path):
        unit = _chosen_unit(loaded.report, yes=yes)
        loaded = loaded if unit is None else read(unit)
    with console.status("Opening the corpus", quiet=quiet):
        loaded_embedder = data_folder.load_embedder(embedder, device)
        target = Corpus.create(corpus, path, embedder=loaded_embedder, public=public)
    try:
        files = FileSource.at(sources, unit, text_field, key_field, spam, names, delimiter, records)
        documents, held = files.held(loaded.documents)
        with nullcontext() if no_ledger else data_folder.find_ledger(ledger) as book:

            def add(asked: Joins) -> Ingested:
                with console.Bar("Embedding", quiet=quiet, counts=True, logged=True) as bar:
                    return target.add(
                        documents,
                        bar.update,
                        ledger=book,
                        no_ledger=no_ledger,
                        joins=asked,
                        anew=anew,
                        held=held,
                    )

            added = show_joins.asking(add, target, yes=yes)
        ahead = _warm(target, corpus, path, model, quiet=quiet) if warm else None
    finally:
        target.close()
    count = len({document.unit for document in loaded.documents})
    if as_json:
        console.write_json(_summary(corpus, loaded.report, count, added, ahead))
        return
    counts = _counts(loaded.report, count, added, ahead)
    console.show_counts(counts, title=f"Corpus {corpus}")
    console.show(loaded.report.summary)
    _print_skipped(loaded.report, every=verbose)
    show_joins.show(added.joins)
    show_joins.show_withheld(added.withheld)


def _require_own_budget(corpus: str, path: str | None, ledger: Path | None) -> None:
    """Refuse a new corpus that would take over a budget which answers of another have used.

    Raises:
        ConfigurationError: It would.
    """
    from dpicl_rag.corpora import Corpus

    if corpus in Corpus.names(path):
        return
    with data_folder.find_ledger(ledger) as book:
        every = [] if book is None else book.status()
    if any((one.kind, one.name) == ("corpus", corpus) and one.spent for one in every):
        raise ConfigurationError(
            f"answers of a corpus {corpus!r} were paid for, and it is not in this store; choose "
            "another name or, where this is that corpus again, go on under what is left of its "
            "budget with --yes"
        )


def _chosen_unit(report: LoadReport, *, yes: bool) -> str | None:
    """The unit of a corpus that is new, where nobody has chosen one; None is the default.

    Raises:
        ConfigurationError: A column looks like a person's, and nobody is there to ask.
    """
    if not report.persons:
        return None
    if yes:
        console.note(
            f"warning: {report.doubt}; someone who is in several units is protected less "
            f"(--unit {report.persons[0]} protects the same {report.persons[0]} as one)"
        )
        return None
    keep = "--yes" if "thread" in report.unit else "--unit document"
    if not sys.stdin.isatty():
        raise ConfigurationError(
            f"{report.doubt}, and a corpus keeps its unit; nothing was stored. Choose --unit "
            f"{report.persons[0]} (the same {report.persons[0]} is protected as one) or {keep} "
            f"({report.unit} is)"
        )
    console.note(report.summary)
    console.note(f"What is protected as one? A corpus keeps its unit, and {report.doubt}.")
    console.note(f"A column's name: everything of the same value. {_KEEP}: {report.unit}.")
    while True:
        unit: str = typer.prompt(f"Unit ({', '.join([*report.persons, _KEEP])})", err=True)
        if unit in (*report.persons, _KEEP):
            return None if unit == _KEEP else unit


def _is_delimited(source: Path) -> bool:
    name = source.name.lower().removesuffix(".gz")
    return source.is_file() and name.endswith((".csv", ".tsv"))


def _warm(target: Corpus, corpus: str, path: str | None, model: str | None, *, quiet: bool) -> int:
    from dpicl_rag.documents import Document
    from dpicl_rag.language_models.prefix_cache import PrefixCache, ReadAnewWarning
    from dpicl_rag.private_context_llm import PrivateContextLLM

    cache = PrefixCache(memory=0, folder=data_folder.prefix_folder(corpus, path))
    loading = console.status("Loading the language model", quiet=quiet)
    with console.told(ReadAnewWarning), loading:
        llm = PrivateContextLLM(model, prefix_cache=cache)
    tell_toy(llm.model)
    documents = [Document(record.text, record.unit) for record in target.records()]
    with console.Bar("Reading ahead", quiet=quiet, logged=True) as bar:
        return llm.warm(documents, on_progress=bar.update)


def _summary(
    corpus: str, report: LoadReport, units: int, added: Ingested, read: int | None
) -> dict[str, Any]:
    return {
        "corpus": corpus,
        "read": report.read,
        "loaded": report.loaded,
        "skipped": [{"position": item.position, "reason": item.reason} for item in report.skipped],
        "joined_by_subject": [list(pair) for pair in report.joined],
        "columns": list(report.columns),
        "unit": report.unit,
        "text": list(report.text),
        "not_read": list(report.unread),
        "persons": list(report.persons),
        "units": units,
        "chunks": added.passages + added.known,
        "new": added.passages,
        "already_there": added.known,
        "forgotten": added.forgotten,
        "left": added.left,
        "joins": [show_joins.view(join) for join in added.joins],
        "withheld": [show_joins.view(join) for join in added.withheld],
        **({} if read is None else {"read_ahead": read}),
    }


def _counts(report: LoadReport, units: int, added: Ingested, read: int | None) -> dict[str, int]:
    told = {
        "forgotten before, left out": added.forgotten,
        "units that left the corpus": added.left,
    }
    return {
        "records read": report.read,
        "  loaded": report.loaded,
        "  skipped": len(report.skipped),
        "privacy units": units,
        "passages": added.passages + added.known,
        "  embedded now": added.passages,
        "  already there": added.known,
        **{label: count for label, count in told.items() if count},
        **({} if read is None else {"units read ahead": read}),
    }


def _print_skipped(report: LoadReport, *, every: bool) -> None:
    if report.columns:
        there = f"No record has a column that was asked for; there are: {', '.join(report.columns)}"
        console.show(there)
    joined = [f"{one} and {other}" for one, other in report.joined]
    _print_list("In one thread by their subjects alone:", joined, every=every)
    skipped = [f"{item.position}: {item.reason}" for item in report.skipped]
    _print_list("Skipped:", skipped, every=every)


def _print_list(title: str, items: Sequence[str], *, every: bool) -> None:
    if not items:
        return
    shown = items if every else items[:_POSITIONS]
    console.show(title)
    for item in shown:
        console.show(f"  {item}")
    if left := len(items) - len(shown):
        console.show(f"  and {left:,} more; --verbose names them all")
