"""``doctor``: versions, this machine, models, files and extras, and what is broken of them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from platformdirs import user_cache_path

from dpicl_rag.cli import console, data_folder, installation, options, processor, settings_file
from dpicl_rag.cli.finding import Finding
from dpicl_rag.errors import DPICLError, ModelError

_OTHERS = 0o077  # rights of group and others
_GB = 2**30

_Opener = Callable[[], AbstractContextManager[Any]]


@console.reported()
def doctor(
    probe: Annotated[
        bool, typer.Option("--probe", help="Load the model, and test how its rows are read here.")
    ] = False,
    model: options.Model = None,
    path: options.StorePath = None,
    ledger: options.LedgerPath = None,
    keys: options.KeysPath = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Look at versions, this machine, models, files and extras; end with 1 if one is broken.

    Nothing is asked, spent or fetched, and no document, name of a corpus or spend is shown. No
    model is loaded without --probe.
    """
    book = ledger or data_folder.default_ledger()
    found = {
        "versions": [*installation.version_findings(), *installation.dependency_findings()],
        "machine": [*processor.machine_findings()],
        "models": [*_models()],
        "rows": [*_rows(model, quiet)] if probe else [*_kept_rows()],
        "files": [*_files(book, keys or data_folder.default_keys(), path)],
        "extras": [*installation.extra_findings()],
    }
    broken = [one for those in found.values() for one in those if one.broken]
    if as_json:
        told = {title: [asdict(one) for one in those] for title, those in found.items()}
        console.write_json({"broken": len(broken), **told})
    else:
        for title, those in found.items():
            _show(title, those)
        console.show(f"broken: {', '.join(one.about for one in broken) or 'nothing'}")
    if broken:
        raise typer.Exit(1)


def _show(title: str, those: list[Finding]) -> None:
    console.show(title, style="bold")
    width = max((len(one.about) for one in those), default=0)
    for one in those:
        mark = "!" if one.broken else " "
        console.show(f"{mark} {one.about:{width}}  {' '.join(one.told.split())}")
        if one.remedy is not None:
            console.show(f"  {'':{width}}  -> {one.remedy}")


def _models() -> Iterator[Finding]:
    """Models that are known by name: here with the right hash, not here, or damaged."""
    from dpicl_rag.language_models.converted_models import DEFAULT, SMALL
    from dpicl_rag.retrieval.embeddings import DEFAULT as EMBEDDER

    named = {"language model": DEFAULT.pinned, "embedder": EMBEDDER, "small": SMALL.pinned}
    ready = {one.pinned.name: one for one in (DEFAULT, SMALL)}
    for about, pinned in named.items():
        converted = ready.get(pinned.name)
        try:
            if pinned.is_here:
                pinned.folder()
                told = f"{pinned.name}, whose hash is right"
            elif converted is not None and converted.is_here:
                told = f"{pinned.name}, made ready in {converted.place}"
            else:
                told = f"{pinned.name}, not here; fetched at first use"
            yield Finding(about, told)
        except ModelError as error:
            yield Finding(about, str(error), broken=True)


def _kept_rows() -> Iterator[Finding]:
    """What probes of models found on this machine, as they kept it; none is loaded."""
    folder = user_cache_path("dpicl-rag") / "probes"
    files = folder.iterdir() if folder.is_dir() else ()
    said = sorted({file.read_text("utf-8", "replace") for file in files})
    for name, found, claim in (one.rpartition(": ") for one in said):
        # Others are of sizes of products, which tell nobody anything.
        if found:
            yield Finding(name, claim)
    remedy = "dpicl-rag doctor --probe tests the model as all is now"
    yield Finding("probe", "not run", remedy=remedy)


def _rows(name: str | None, quiet: bool) -> Iterator[Finding]:
    """Whether a model's rows keep their bits in company, and what its rehearsal found."""
    from dpicl_rag.language_models.load_language_model import load_language_model
    from dpicl_rag.language_models.transformers import TransformersModel
    from dpicl_rag.rehearsal.kept_rehearsals import ANSWERS

    about = name or "default"
    try:
        with console.status("Probing the language model", quiet=quiet):
            model = load_language_model(name)
            shares = model.shares_passes() if isinstance(model, TransformersModel) else None
    except DPICLError as error:
        yield Finding(about, str(error), broken=True, remedy="name another model: --model NAME")
        return
    if shares is None:
        yield Finding(about, "read elsewhere: its engine answers for its rows")
    elif shares:
        yield Finding(about, "rows keep every bit in company: they share passes")
    else:
        yield Finding(about, "rows are read one at a time here: slower, with the same guarantee")
    kept = ANSWERS.kept(model)
    shown = f"dpicl-rag models show {name or ''}".strip()
    if kept is None:
        yield Finding("rehearsal", "not held yet", remedy=f"{shown} holds it, in minutes")
    else:
        yield Finding("rehearsal", kept.verdict)


def _files(ledger: Path, keys: Path, path: str | None) -> Iterator[Finding]:
    """Where files lie, whether their owner alone reads them, and whether they open."""
    from dpicl_rag.corpora.folder import beside, local_path
    from dpicl_rag.knowledge.answer_file import AnswerFile
    from dpicl_rag.ledger import Ledger
    from dpicl_rag.ledger.ledger_units import key_path
    from dpicl_rag.server.api_keys import KeyFile

    settings = settings_file.current().path
    yield Finding("settings", f"{settings}{'' if settings.exists() else ', not there'}")
    memory = data_folder.memory_path(ledger)
    opened: dict[str, tuple[Path, _Opener]] = {
        "ledger": (ledger, lambda: closing(Ledger(ledger))),
        "memory": (memory, lambda: closing(AnswerFile(memory))),
        "keys": (keys, lambda: closing(KeyFile(keys))),
    }
    for about, (file, opening) in opened.items():
        yield _database(about, file, opening)
    yield _private("unit key", key_path(ledger))
    folder = local_path(path)
    for about, place in (
        ("corpora", folder),
        ("read ahead", beside(folder, "read")),
        ("replies", beside(folder, "replies")),
    ):
        yield _private(about, place)
    yield Finding("cache", str(user_cache_path("dpicl-rag")))
    there = next(one for one in (folder, *folder.parents) if one.exists())
    free = shutil.disk_usage(there).free / _GB
    yield Finding(
        "disk",
        f"{free:.0f} GiB are free beside the corpora",
        remedy="free some space: a full disk ends every answer" if free < 1 else None,
    )


def _database(about: str, file: Path, opening: _Opener) -> Finding:
    """A file of ours that must open; one that is not there is not made."""
    found = _private(about, file)
    if found.broken or not file.exists():
        return found
    try:
        with opening():
            return found
    except DPICLError as error:
        return Finding(about, str(error), broken=True)


def _private(about: str, place: Path) -> Finding:
    """Where something private lies, and whether others can read it."""
    if not place.exists():
        return Finding(about, f"{place}, not there")
    if os.name != "posix":
        return Finding(about, f"{place}; see for yourself who may read it")
    if _is_open(place):
        remedy = f"chmod -R go-rwx '{place}'"
        return Finding(about, f"{place} can be read by others", broken=True, remedy=remedy)
    return Finding(about, f"{place}, its owner's alone")


def _is_open(place: Path) -> bool:
    """True where others may read a file, or a file below a folder that lets them in."""
    rights = place.stat().st_mode & _OTHERS
    if place.is_dir():
        return bool(rights) and any(map(_is_open, place.iterdir()))
    return bool(rights)
