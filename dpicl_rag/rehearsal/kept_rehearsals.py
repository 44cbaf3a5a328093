"""Kept rehearsals: a file for each model and version of the items, in the user's cache folder.

That of the default model comes with the package, so that nobody waits for it.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from functools import cache
from importlib.resources import files
from pathlib import Path
from threading import Lock

from platformdirs import user_cache_path
from pydantic import TypeAdapter

from dpicl_rag.files.run_files import write_whole
from dpicl_rag.language_models.base import LanguageModel, Progress, speaks
from dpicl_rag.language_models.defaults import is_toy
from dpicl_rag.language_models.readers.no_writer import NoWriter
from dpicl_rag.rehearsal.rehearsal import Rehearsal
from dpicl_rag.rehearsal.rehearsal_items import items_version
from dpicl_rag.rehearsal.rehearsing import rehearse

_AS_JSON = TypeAdapter(Rehearsal)
_PACKAGED = TypeAdapter(dict[str, Rehearsal])
_known: dict[Path, Rehearsal] = {}
_one_at_a_time = Lock()


def rehearsal_of(model: LanguageModel, *, on_progress: Progress | None = None) -> Rehearsal:
    """The rehearsal of a model: as it is kept, or held now.

    Args:
        model: Any. One whose rows do not go on by themselves is asked nothing.
        on_progress: Called with how many questions are answered, and how many there are.

    Raises:
        EngineUnavailableError: The engine does not answer; nothing is kept.
    """
    if not speaks(model) or isinstance(model, NoWriter):
        return Rehearsal()
    if is_toy(model):
        return packaged_rehearsal()[1]
    file = _file_of(model)
    with _one_at_a_time:
        if file not in _known:
            _known[file] = _kept(file) or _held(model, file, on_progress)
        return _known[file]


@cache
def packaged_rehearsal() -> tuple[str, Rehearsal]:
    """The rehearsal of the default model, in float32, and the version of its items."""
    file = files("dpicl_rag.rehearsal").joinpath("default_model.json")
    [(version, found)] = _PACKAGED.validate_json(file.read_bytes()).items()
    return version, found


def _held(model: LanguageModel, file: Path, on_progress: Progress | None) -> Rehearsal:
    found = rehearse(model, on_progress)
    with suppress(OSError):  # then the next process rehearses again
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, _AS_JSON.dump_json(found, indent=1))
    return found


def _kept(file: Path) -> Rehearsal | None:
    """What is kept; None where there is nothing, or it is damaged."""
    with suppress(OSError, ValueError):
        found = _AS_JSON.validate_json(file.read_bytes())
        return found if found.told else None
    return None


def _file_of(model: LanguageModel) -> Path:
    key = hashlib.sha256(f"{items_version()} {model.fingerprint}".encode()).hexdigest()
    return user_cache_path("dpicl-rag") / "rehearsals" / f"{key}.json"
