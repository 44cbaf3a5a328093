"""``memory``: show, correct and clear the answers that were released before."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpicl_rag.cli import console, data_folder, options
from dpicl_rag.errors import KnowledgeError

if TYPE_CHECKING:
    from dpicl_rag.knowledge import Entry
    from dpicl_rag.knowledge.answer_file import AnswerFile

app = typer.Typer(
    help="Show, correct and clear the answers that were released before. They are public; who "
    "asked what may not be.",
    no_args_is_help=True,
)

EntryNumber = Annotated[
    int, typer.Argument(metavar="ID", help="Its number, as `memory show` has it.")
]
EntryCaller = Annotated[str | None, typer.Option(metavar="NAME", help="Who asked; all by default.")]


@app.command()
@console.reported()
def show(
    corpus: options.AnyCorpus = None,
    caller: EntryCaller = None,
    ledger: options.LedgerPath = None,
    as_json: options.AsJson = False,
) -> None:
    """Show questions and answers, the oldest first."""
    found: list[Entry] = []
    if data_folder.memory_path(ledger).exists():  # reading makes no file
        from dpicl_rag.knowledge.answer_file import MemoryScope

        with data_folder.open_answers(ledger) as answers:
            found = answers.entries(MemoryScope(corpus, caller))
    if as_json:
        console.write_json({"entries": [_public(entry) for entry in found]})
        return
    if found:
        _print(found)
    else:
        console.stdout().print("Nothing is remembered yet.")


@app.command()
@console.reported()
def edit(
    number: EntryNumber,
    answer: Annotated[str, typer.Argument(help="The right answer.")],
    ledger: options.LedgerPath = None,
) -> None:
    """Correct an answer. It is public knowledge from then on, and no drawn answer replaces it."""
    if not answer.strip():
        raise typer.BadParameter("the answer is empty; forget the entry instead")
    with _existing(ledger) as answers:
        answers.edit(number, answer.strip())
    typer.echo(f"entry {number} has the new answer")


@app.command()
@console.reported()
def forget(number: EntryNumber, ledger: options.LedgerPath = None) -> None:
    """Forget one answer. What it cost stays in the ledger."""
    with _existing(ledger) as answers:
        answers.forget(number)
    typer.echo(f"entry {number} is forgotten; what it cost stays in the ledger")


@app.command()
@console.reported()
def clear(
    corpus: options.AnyCorpus = None,
    caller: EntryCaller = None,
    ledger: options.LedgerPath = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Forget all answers of a corpus, of a caller, or of a caller about a corpus."""
    if corpus is None and caller is None:
        raise typer.BadParameter("give --corpus or --caller, or both", param_hint="--corpus")
    with _existing(ledger) as answers:
        if not yes:
            whose = [f"{kind} {name}" for kind, name in _given(corpus, caller)]
            typer.confirm(f"Forget all remembered answers of {' and '.join(whose)}?", abort=True)
        from dpicl_rag.knowledge.answer_file import MemoryScope

        count = answers.clear(MemoryScope(corpus, caller))
    typer.echo(f"forgot {count} {'answer' if count == 1 else 'answers'}")


def _existing(ledger: Path | None) -> AbstractContextManager[AnswerFile]:
    if not data_folder.memory_path(ledger).exists():
        raise KnowledgeError("nothing is remembered yet; `dpicl-rag ask` remembers its answers")
    return data_folder.open_answers(ledger)


def _given(corpus: str | None, caller: str | None) -> list[tuple[str, str]]:
    named = (("corpus", corpus), ("caller", caller))
    return [(kind, name) for kind, name in named if name is not None]


def _public(entry: Entry) -> dict[str, Any]:
    names = ("id", "corpus", "caller", "question", "answer", "epsilon", "delta")
    found = {name: getattr(entry, name) for name in names}
    end = {"whole": entry.whole, "edited": entry.edited}
    return {**found, "time": entry.time.isoformat(), **end}


def _print(found: Sequence[Entry]) -> None:
    titles = ("Id", "Corpus", "Caller", "Question", "Answer", "Cost", "Time (UTC)")
    table = console.table(*titles, right=["Id"])
    for entry in found:
        cost = "edited" if entry.edited else f"epsilon {entry.epsilon:g}"
        texts = (entry.corpus, entry.caller or "", entry.question, entry.answer)
        time = entry.time.strftime("%Y-%m-%d %H:%M")
        table.add_row(str(entry.id), *map(console.printable, texts), cost, time)
    console.stdout().print(table)
