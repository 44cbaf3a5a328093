"""``ask`` and ``classify``: private answers from a corpus."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from dpicl_rag.cli import console, options, stores
from dpicl_rag.methods.names import OverDocuments

if TYPE_CHECKING:
    from dpicl_rag.language_models.prefix_cache import PrefixCache
    from dpicl_rag.language_models.transformers import TransformersModel
    from dpicl_rag.private_context_llm import PrivateContextLLM
    from dpicl_rag.private_stream import PrivateStream
    from dpicl_rag.retrieval import Corpus, PrivateRetriever, Retriever

_RELEASED = "interrupted; what was released is paid for"

Question = Annotated[str, typer.Argument(help="The question. It is public.")]
Epsilon = Annotated[
    float, typer.Option(help="Privacy of one answer: less is more private. Above 0.")
]
Model = Annotated[
    str | None,
    typer.Option(
        metavar="MODEL",
        help="Language model: a Hugging Face id or a folder; the packaged one by default.",
        show_default=False,
    ),
]
# 0.5 is the default of ThresholdRetriever; None tells that --top-k may stand instead.
Threshold = Annotated[
    float | None,
    typer.Option(
        help="Use the units whose cosine with the question reaches this. Choose it without "
        "looking at the corpus; 0.5 by default.",
        show_default=False,
    ),
]
TopK = Annotated[
    int | None,
    typer.Option(
        help="Use the K closest units in place of a threshold. Costs twice as much, and rules out "
        "individual accounting.",
        show_default=False,
    ),
]
PrivateThreshold = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="UNITS",
        help="Let about this many units pass, by a threshold chosen from noisy counts. Their cost "
        "comes out of --epsilon.",
        show_default=False,
    ),
]
Accounting = Annotated[
    Literal["individual", "fixed"] | None,
    typer.Option(
        help="Charge each unit what it revealed, or all the same. Individual where it is sound, "
        "by default.",
        show_default=False,
    ),
]
Utility = Annotated[
    Literal["surplus", "log_ratio", "log_prob", "vote"] | None,
    typer.Option(
        help="What a document says about a token; surplus for answers and log_prob for labels by "
        "default.",
        show_default=False,
    ),
]
ChosenMethod = Annotated[
    OverDocuments | None,
    typer.Option(
        help="A published method, charged the same for every unit; see docs/methods.md. By "
        "default --utility and --accounting decide.",
        show_default=False,
    ),
]
UnitTokens = Annotated[int, typer.Option(help="Most tokens read of each unit.")]
Prefix = Annotated[
    str, typer.Option(help="Public words that every answer begins with. They cost nothing.")
]
Caller = Annotated[
    str | None,
    typer.Option(help="Who asks, for budgets per caller.", show_default=False),
]
NoLedger = Annotated[bool, typer.Option("--no-ledger", help="Record nothing, keep to no budget.")]


def load_model(model: str | None) -> TransformersModel:
    """A language model by name, or the packaged default.

    Raises:
        ModelError: It cannot be loaded.
    """
    if model is None:
        from dpicl_rag.language_models.defaults import default_model

        return default_model()
    from dpicl_rag.language_models.transformers import TransformersModel

    return TransformersModel.load(model)


@console.reported(_RELEASED)
def ask(
    question: Question,
    corpus: options.Name,
    epsilon: Epsilon = 8.0,
    delta: Annotated[
        float, typer.Option(help="Privacy of one answer, strictly between 0 and 1.")
    ] = 1e-5,
    model: Model = None,
    max_tokens: Annotated[int, typer.Option(help="Most tokens of the answer.")] = 32,
    threshold: Threshold = None,
    top_k: TopK = None,
    private_threshold: PrivateThreshold = None,
    accounting: Accounting = None,
    utility: Utility = None,
    unit_tokens: UnitTokens = 256,
    prefix: Prefix = "",
    caller: Caller = None,
    path: options.StorePath = None,
    embedder: options.Embedding = None,
    ledger: options.LedgerPath = None,
    no_ledger: NoLedger = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Answer a question from a corpus, and say what the answer spent."""
    with _asking(
        corpus,
        path=path,
        embedder=embedder,
        threshold=threshold,
        top_k=top_k,
        private_threshold=private_threshold,
        model=model,
        prefix=prefix,
        caller=caller,
        ledger=ledger,
        no_ledger=no_ledger,
        quiet=quiet,
        epsilon=epsilon,
        delta=delta,
        max_tokens=max_tokens,
        accounting=accounting,
        utility=utility,
        unit_tokens=unit_tokens,
    ) as (llm, retriever):
        with console.Bar("Reading the documents", quiet=quiet) as bar:
            with console.status("Searching the corpus", quiet=quiet):
                stream = llm.stream(question, retriever, on_progress=bar.update)
            with stream:
                _drain(stream, bar, prefix, silent=as_json)
        answer = stream.answer
    if as_json:
        console.write_json(
            {
                "answer": answer.text,
                "epsilon": answer.epsilon,
                "delta": answer.delta,
                "rho": answer.rho,
                "tokens": answer.tokens,
                "stopped_by": answer.stopped_by,
            }
        )
        return
    console.stdout().print(
        _spent(answer.epsilon, answer.delta, answer.rho, recorded=not no_ledger)
        + f"; {answer.tokens} tokens, stopped by {answer.stopped_by}",
        style="dim",
        soft_wrap=True,
    )


@console.reported(_RELEASED)
def classify(
    question: Question,
    corpus: options.Name,
    label: Annotated[
        list[str], typer.Option("--label", help="One of the labels; give it twice or more.")
    ],
    epsilon: Epsilon = 8.0,
    method: ChosenMethod = None,
    model: Model = None,
    threshold: Threshold = None,
    top_k: TopK = None,
    accounting: Accounting = None,
    utility: Utility = None,
    unit_tokens: UnitTokens = 256,
    prefix: Prefix = "",
    caller: Caller = None,
    path: options.StorePath = None,
    embedder: options.Embedding = None,
    ledger: options.LedgerPath = None,
    no_ledger: NoLedger = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Choose one of several labels by a corpus.

    One draw, purely epsilon-DP (delta is 0) but for votes-gaussian, whose delta is 1e-5.
    """
    if len(label) < 2:
        raise typer.BadParameter("give at least two labels", param_hint="--label")
    with (
        _asking(
            corpus,
            path=path,
            embedder=embedder,
            threshold=threshold,
            top_k=top_k,
            model=model,
            prefix=prefix,
            caller=caller,
            ledger=ledger,
            no_ledger=no_ledger,
            quiet=quiet,
            epsilon=epsilon,
            accounting=accounting,
            utility=utility,
            unit_tokens=unit_tokens,
        ) as (llm, retriever),
        console.Bar("Reading the documents", quiet=quiet) as bar,
    ):
        chosen = llm.classify(question, retriever, label, method=method, on_progress=bar.update)
    if as_json:
        console.write_json(
            {
                "label": chosen.label,
                "epsilon": chosen.epsilon,
                "delta": chosen.delta,
                "rho": chosen.rho,
            }
        )
        return
    out = console.stdout()
    out.print(console.printable(chosen.label), soft_wrap=True)
    spent = _spent(chosen.epsilon, chosen.delta, chosen.rho, recorded=not no_ledger)
    out.print(spent, style="dim", soft_wrap=True)


@contextmanager
def _asking(
    corpus: str,
    *,
    path: Path | None,
    embedder: str | None,
    threshold: float | None,
    top_k: int | None,
    model: str | None,
    prefix: str,
    caller: str | None,
    ledger: Path | None,
    no_ledger: bool,
    quiet: bool,
    private_threshold: int | None = None,
    **settings: Any,
) -> Iterator[tuple[PrivateContextLLM, Retriever | PrivateRetriever]]:
    """Everything a question needs, the quick checks before the slow steps."""
    if threshold is not None and top_k is not None:
        raise typer.BadParameter("give --threshold or --top-k, not both", param_hint="--top-k")
    if private_threshold is not None and (threshold is not None or top_k is not None):
        raise typer.BadParameter(
            "give it without --threshold and --top-k", param_hint="--private-threshold"
        )
    if no_ledger and ledger is not None:
        raise typer.BadParameter("give --ledger or --no-ledger, not both", param_hint="--ledger")
    from dpicl_rag.configuration import PrivacyConfig
    from dpicl_rag.prompts import PromptTemplate

    PrivacyConfig.create(**settings)
    with ExitStack() as stack:
        with console.status("Opening the corpus", quiet=quiet):
            opened = stack.enter_context(stores.open_corpus(corpus, path, embedder))
            retriever = _retriever(opened, threshold, top_k, private_threshold)
            book = None if no_ledger else stack.enter_context(stores.open_ledger(ledger))
        with console.status("Loading the language model", quiet=quiet):
            from dpicl_rag.private_context_llm import PrivateContextLLM

            llm = PrivateContextLLM(
                load_model(model),
                template=PromptTemplate(answer_prefix=prefix),
                ledger=book,
                corpus=corpus,
                caller=caller,
                prefix_cache=_prefix_cache(corpus, path),
                **settings,
            )
        yield llm, retriever


def _prefix_cache(corpus: str, path: Path | None) -> PrefixCache | None:
    """What was read ahead of this corpus, if anything was."""
    from dpicl_rag.language_models.prefix_cache import PrefixCache

    folder = stores.prefix_folder(corpus, path)
    return PrefixCache(folder=folder) if folder.is_dir() else None


def _retriever(
    corpus: Corpus, threshold: float | None, top_k: int | None, private_threshold: int | None
) -> Retriever | PrivateRetriever:
    from dpicl_rag.retrieval import PrivateThresholdRetriever, ThresholdRetriever, TopKRetriever

    if private_threshold is not None:
        return PrivateThresholdRetriever(corpus, private_threshold)
    if top_k is not None:
        return TopKRetriever(corpus, top_k)
    return (
        ThresholdRetriever(corpus) if threshold is None else ThresholdRetriever(corpus, threshold)
    )


def _drain(stream: PrivateStream, bar: console.Bar, prefix: str, *, silent: bool) -> None:
    """Read a stream to its end and print its pieces as they come, unless ``silent``."""
    waiting, begun = "", False
    for piece in stream:
        waiting += piece
        # The prefix comes before the documents are read: shown now, the bar would cut through it.
        if silent or waiting == prefix:
            continue
        bar.stop()
        text = waiting if begun else waiting.lstrip()
        console.write_piece(text)
        waiting, begun = "", begun or bool(text)
    bar.stop()
    if not silent:
        console.write_piece(f"{waiting}\n")


def _spent(epsilon: float, delta: float, rho: float, *, recorded: bool) -> str:
    note = "" if recorded else " (not recorded)"
    return f"spent: epsilon {epsilon:g}, delta {delta:g}, rho {rho:.4g}{note}"
