"""Kept readings of yes and no: a file for each model, beside its rehearsal, for counts alone."""

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
from dpicl_rag.language_models.base import LanguageModel, Progress
from dpicl_rag.language_models.defaults import is_toy
from dpicl_rag.rehearsal.rehearsing_yes_or_no import rehearse_yes_or_no
from dpicl_rag.rehearsal.yes_or_no import YesOrNo, yes_or_no_version

_AS_JSON = TypeAdapter(YesOrNo)
_PACKAGED = TypeAdapter(dict[str, YesOrNo])
_known: dict[Path, YesOrNo] = {}
_one_at_a_time = Lock()


def yes_or_no_of(model: LanguageModel, *, on_progress: Progress | None = None) -> YesOrNo:
    """How a model is asked for yes or no: as it is kept, or rehearsed now.

    Args:
        model: Any.
        on_progress: Called with how many questions are answered, and how many there are.

    Raises:
        EngineUnavailableError: The engine does not answer; nothing is kept.
    """
    if is_toy(model):
        return packaged_yes_or_no()[1]
    key = hashlib.sha256(f"{yes_or_no_version()} {model.fingerprint}".encode()).hexdigest()
    file = user_cache_path("dpicl-rag") / "rehearsals" / f"{key}.json"
    with _one_at_a_time:
        if file not in _known:
            _known[file] = _kept(file) or _held(model, file, on_progress)
        return _known[file]


@cache
def packaged_yes_or_no() -> tuple[str, YesOrNo]:
    """That of the default model, in float32, and the version of its items."""
    file = files("dpicl_rag.rehearsal").joinpath("default_yes_or_no.json")
    [(version, found)] = _PACKAGED.validate_json(file.read_bytes()).items()
    return version, found


def _held(model: LanguageModel, file: Path, on_progress: Progress | None) -> YesOrNo:
    found = rehearse_yes_or_no(model, on_progress)
    with suppress(OSError):  # then the next process rehearses again
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, _AS_JSON.dump_json(found, indent=1))
    return found


def _kept(file: Path) -> YesOrNo | None:
    """What is kept; None where there is nothing, or it is damaged."""
    with suppress(OSError, ValueError):
        return _AS_JSON.validate_json(file.read_bytes())
    return None
