"""A run on disk: its settings in one file, and results as lines of JSON in others.

A killed run goes on where it stopped: what was written is kept, and a line that was cut off is
dropped. The folder holds benchmark data and is no private store.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.files.run_files import alone_in, cut_tail, whole_lines, write_line, write_whole
from dpicl_rag.language_models.base import Progress

Place = tuple[Any, ...]
"""Values that say what a line is the result of, such as a seed and a query."""

_SETTINGS = "settings.json"


@contextmanager
def going_on(
    folder: Path, settings: Mapping[str, Any], *, free: str, file: str = _SETTINGS
) -> Iterator[None]:
    """Begin a run in a folder, or go on with the one that is there; nobody else does meanwhile.

    Args:
        folder: Made if it is not there.
        settings: What results depend on. To a mapping in it runs may add entries.
        free: The setting in which runs may differ.
        file: Where settings are kept.

    Raises:
        ConfigurationError: The folder holds a run with other settings, a damaged one, or one that
            another process is computing.
    """
    with alone_in(folder, "another evaluation is running there"):
        found = json.loads(json.dumps(settings))
        if (folder / file).exists():
            before, differing = read_settings(folder, file), []
            for name, now in list(found.items()):
                was = before.get(name)
                if isinstance(was, dict) and isinstance(now, dict) and name != free:
                    differing += [key for key in now if was.get(key, now[key]) != now[key]]
                    found[name] = {**was, **now}
                elif name != free and was != now:
                    differing.append(name)
            if differing:
                raise ConfigurationError(
                    f"{folder}: holds a run with other settings ({', '.join(differing)}); give "
                    "another --out, or the same settings to go on with it"
                )
        elif any(folder.glob("*.jsonl")):
            raise ConfigurationError(
                f"{folder}: holds results without their {file}; give another --out"
            )
        write_whole(folder / file, (json.dumps(found, indent=2) + "\n").encode())
        yield


def read_settings(folder: Path, file: str = _SETTINGS) -> dict[str, Any]:
    """The settings of a run, finished or not.

    Raises:
        ConfigurationError: The folder holds none, or a damaged one.
    """
    try:
        return dict(json.loads((folder / file).read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise ConfigurationError(f"{folder}: holds no run of `dpicl-rag evaluate`") from None
    except (OSError, ValueError, TypeError) as error:
        raise ConfigurationError(f"{folder}: its {file} cannot be read") from error


def read_lines(file: Path, parse: Callable[[Any], Any] = dict) -> list[Any]:
    """The whole lines of a file, each as ``parse`` reads it.

    Raises:
        ConfigurationError: A line is damaged; names it.
    """
    found = []
    for number, line in enumerate(whole_lines(file)[0], start=1):
        try:
            found.append(parse(json.loads(line)))
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigurationError(
                f"{file}, line {number}: damaged; give another --out"
            ) from error
    return found


class Results:
    """A file of results that a run adds to; ``names`` say which place each is the result of.

    Attributes:
        done: Places with a result.
        reached: How many of those that are wanted.
    """

    def __init__(self, file: Path, *names: str) -> None:
        cut_tail(file, whole_lines(file)[1])
        self._file = file
        self._names = names
        self.done = set(read_lines(file, lambda line: tuple(line[name] for name in names)))
        self.reached = 0

    def add(self, place: Place, found: Mapping[str, Any]) -> None:
        """Write a result; it is on the disk when this returns."""
        write_line(self._file, {**dict(zip(self._names, place, strict=True)), **found})
        self.done.add(place)

    def missing(self, wanted: Sequence[Place], on_progress: Progress | None) -> Iterator[Place]:
        """The places without a result. Add one before the next place is asked for."""
        tell = on_progress or (lambda _done, _total: None)
        self.reached = sum(place in self.done for place in wanted)
        if not self.reached:
            tell(0, len(wanted))
        for place in wanted:
            if place not in self.done:
                yield place
                self.reached += 1
                tell(self.reached, len(wanted))
