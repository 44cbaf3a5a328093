"""Kept rehearsals: a file for each model and version of the items, in the user's cache folder.

Those of the default model come with the package, so that nobody waits for them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from threading import RLock
from typing import Any, Generic, TypeVar

from platformdirs import user_cache_path
from pydantic import TypeAdapter

from dpicl_rag.files.run_files import write_whole
from dpicl_rag.language_models.base import LanguageModel, Progress, speaks
from dpicl_rag.language_models.defaults import is_toy
from dpicl_rag.language_models.readers.no_writer import NoWriter, UnloadedModel
from dpicl_rag.rehearsal.labelling import Labelling, labelling_version, rehearse_labelling
from dpicl_rag.rehearsal.rehearsing import Rehearsal, rehearsal_version, rehearse
from dpicl_rag.rehearsal.yes_or_no import YesOrNo, rehearse_yes_or_no, yes_or_no_version

_known: dict[Path, Any] = {}
_rehearsing: dict[Path, RLock] = {}  # two threads rehearse two models at once, and one once

T = TypeVar("T")


@dataclass(frozen=True)
class _Kept(Generic[T]):
    """Rehearsals of a kind."""

    kind: type[T]
    file: str
    version: Callable[[], str]
    held: Callable[[LanguageModel, Progress | None], T]
    whole: Callable[[T], object] = lambda _: True

    @cached_property
    def packaged(self) -> tuple[str, T]:
        """The version of the items, and the default model's, in float32."""
        of_versions = TypeAdapter(dict[str, self.kind])  # type: ignore[name-defined]
        read = files("dpicl_rag.rehearsal").joinpath(self.file).read_bytes()
        [(version, found)] = of_versions.validate_json(read).items()
        return version, found

    def of(self, model: LanguageModel, on_progress: Progress | None) -> T:
        """As it is packaged or kept, or held now."""
        if is_toy(model):
            return self.packaged[1]
        file = self._file(model)
        with _rehearsing.setdefault(file, RLock()):
            if file not in _known:
                _known[file] = self._kept(file) or self._held(model, file, on_progress)
            found: T = _known[file]
            return found

    def kept(self, model: LanguageModel) -> T | None:
        """As it is packaged or kept; None where it was never held. Asks no model."""
        return self.packaged[1] if is_toy(model) else self._kept(self._file(model))

    def _file(self, model: LanguageModel) -> Path:
        key = hashlib.sha256(f"{self.version()} {model.fingerprint}".encode()).hexdigest()
        return user_cache_path("dpicl-rag") / "rehearsals" / f"{key}.json"

    def _held(self, model: LanguageModel, file: Path, on_progress: Progress | None) -> T:
        found = self.held(model, on_progress)
        with suppress(OSError):  # then the next process rehearses again
            file.parent.mkdir(parents=True, exist_ok=True)
            write_whole(file, TypeAdapter(self.kind).dump_json(found, indent=1))
        return found

    def _kept(self, file: Path) -> T | None:
        """What is kept; None where there is nothing, or it is damaged."""
        with suppress(OSError, ValueError):
            found = TypeAdapter(self.kind).validate_json(file.read_bytes())
            return found if self.whole(found) else None
        return None


ANSWERS = _Kept(Rehearsal, "default_model.json", rehearsal_version, rehearse, lambda it: it.told)
YES_OR_NO = _Kept(YesOrNo, "default_yes_or_no.json", yes_or_no_version, rehearse_yes_or_no)
LABELLING = _Kept(Labelling, "default_labelling.json", labelling_version, rehearse_labelling)


def rehearsal_of(model: LanguageModel, *, on_progress: Progress | None = None) -> Rehearsal:
    """The rehearsal of a model: as it is kept, or held now.

    Args:
        model: Any. One whose rows do not go on by themselves is asked nothing.
        on_progress: Called with how many questions are answered, and how many there are.

    Raises:
        EngineUnavailableError: The engine does not answer; nothing is kept.
    """
    if isinstance(model, UnloadedModel):
        return ANSWERS.kept(model) or Rehearsal()
    if not speaks(model) or isinstance(model, NoWriter):
        return Rehearsal()
    return ANSWERS.of(model, on_progress)


def keep_name(name: str, model: LanguageModel) -> None:
    """Note what a name stands for, so that plans know a model that was asked without loading it.

    Args:
        name: A Hugging Face id, a folder, or an address.
        model: That was loaded by it.
    """
    if (known := unloaded(name)) and known.fingerprint == model.fingerprint:
        return
    file = _name_file(name)
    with suppress(OSError):  # then plans do not know it
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, model.fingerprint.encode())


def unloaded(name: str) -> UnloadedModel | None:
    """The place of a model by its name, as it was when it was last asked; None if it never was."""
    with suppress(OSError, ValueError):
        return UnloadedModel(_name_file(name).read_bytes().decode())
    return None


def _name_file(name: str) -> Path:
    whole = str(Path(name).resolve()) if Path(name).is_dir() else name
    key = hashlib.sha256(whole.encode()).hexdigest()
    return user_cache_path("dpicl-rag") / "rehearsals" / "names" / key


def yes_or_no_of(model: LanguageModel, *, on_progress: Progress | None = None) -> YesOrNo:
    """How a model is asked for yes or no; see `rehearsal_of`."""
    return YES_OR_NO.of(model, on_progress)


def labelling_of(model: LanguageModel, *, on_progress: Progress | None = None) -> Labelling:
    """How a model is asked for labels; see `rehearsal_of`."""
    return LABELLING.of(model, on_progress)
