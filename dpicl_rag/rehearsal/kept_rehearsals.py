"""Kept rehearsals: a file for each model and version of the items, in the user's cache folder.

That of the default model comes with the package, so that nobody waits for it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from threading import Lock
from typing import TypeVar

from platformdirs import user_cache_path
from pydantic import TypeAdapter

from dpicl_rag.files.run_files import write_whole
from dpicl_rag.language_models.base import LanguageModel, Progress, speaks
from dpicl_rag.rehearsal.rehearsal import Rehearsal
from dpicl_rag.rehearsal.rehearsal_items import items_version
from dpicl_rag.rehearsal.yes_or_no import YesOrNo, yes_or_no_version

T = TypeVar("T", Rehearsal, YesOrNo)

_known: dict[Path, Rehearsal | YesOrNo] = {}
_one_at_a_time = Lock()


def rehearsal_of(model: LanguageModel, *, on_progress: Progress | None = None) -> Rehearsal:
    """The rehearsal of a model: as it is kept, or held now.

    Args:
        model: Any. One whose rows do not go on by themselves is asked nothing.
        on_progress: Called with how many questions are answered, and how many there are.

    Raises:
        EngineUnavailableError: The engine does not answer; nothing is kept.
    """
    if not speaks(model):
        return Rehearsal()

    def hold() -> Rehearsal:
        from dpicl_rag.rehearsal.rehearsing import rehearse

        return rehearse(model, on_progress)

    return _kept_or_held(Rehearsal, model, items_version(), hold)


def yes_or_no_of(model: LanguageModel, *, on_progress: Progress | None = None) -> YesOrNo:
    """How a model is asked for yes or no: as it is kept, or rehearsed now, for counts alone.

    Args:
        model: Any.
        on_progress: As of `rehearsal_of`.

    Raises:
        EngineUnavailableError: The engine does not answer; nothing is kept.
    """

    def hold() -> YesOrNo:
        from dpicl_rag.rehearsal.rehearsing_yes_or_no import rehearse_yes_or_no

        return rehearse_yes_or_no(model, on_progress)

    return _kept_or_held(YesOrNo, model, yes_or_no_version(), hold)


def _kept_or_held(kind: type[T], model: LanguageModel, version: str, hold: Callable[[], T]) -> T:
    key = hashlib.sha256(f"{version} {model.fingerprint}".encode()).hexdigest()
    file, as_json = user_cache_path("dpicl-rag") / "rehearsals" / f"{key}.json", TypeAdapter(kind)
    with _one_at_a_time:
        if file not in _known:
            found = packaged(kind, model, version) or _read(file, as_json)
            if found is None:
                found = hold()
                with suppress(OSError):  # then the next process rehearses again
                    file.parent.mkdir(parents=True, exist_ok=True)
                    write_whole(file, as_json.dump_json(found, indent=1))
            _known[file] = found
        known = _known[file]
        assert isinstance(known, kind)
        return known


def packaged(kind: type[T], model: LanguageModel, version: str) -> T | None:
    """What is known of the default model, by the version of the items; None of any other.

    In 16 bits it may say a word or two otherwise: the verdict is the same.
    """
    from dpicl_rag.language_models.defaults import is_toy

    if not is_toy(model):
        return None
    file = files("dpicl_rag.rehearsal").joinpath("default_model.json")
    found = json.loads(file.read_bytes()).get(version)
    return None if found is None else TypeAdapter(kind).validate_python(found)


def _read(file: Path, as_json: TypeAdapter[T]) -> T | None:
    """What is kept; None where there is nothing, or it is damaged."""
    with suppress(OSError, ValueError):
        found = as_json.validate_json(file.read_bytes())
        return None if isinstance(found, Rehearsal) and not found.told else found
    return None
