"""Paths that ``load`` is given: one, or several of which none lies in another."""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

from dpicl_rag.errors import ConfigurationError, LoaderError
from dpicl_rag.loaders.sources import shown


def existing_paths(given: object) -> list[Path]:
    """Paths that are there, in the order given.

    Args:
        given: A path, or several.

    Raises:
        LoaderError: One does not exist or cannot be read, or lies in another: what is read twice
            would be two units.
        ConfigurationError: What is given is no path.
    """
    one = isinstance(given, str | os.PathLike)
    if not one and (isinstance(given, bytes) or not isinstance(given, Iterable)):
        raise _no_path(given)
    paths = [_path(item) for item in ([given] if one else list(given))]  # type: ignore[call-overload]
    if not paths:
        raise ConfigurationError("load was given no path; name a file or a directory")
    for path in paths:
        _require(path)
    # In this order, what holds a path comes before it.
    places = sorted((path.resolve(), at) for at, path in enumerate(paths))
    for (holder, first), (inner, second) in pairwise(places):
        if inner.is_relative_to(holder):
            raise LoaderError(
                f"{shown(paths[second])} is named twice, as itself and by {shown(paths[first])}; "
                "name it once"
            )
    return paths


def _path(item: object) -> Path:
    if isinstance(item, str | os.PathLike):
        path = os.fspath(item)
        if isinstance(path, str):
            return Path(path)
    raise _no_path(item)


def _no_path(item: object) -> ConfigurationError:
    return ConfigurationError(
        f"load takes the path of a file or a directory, or a list of paths, not "
        f"{type(item).__name__}; hand documents that are there over to Corpus.add"
    )


def _require(path: Path) -> None:
    try:
        if path.is_dir():
            next(path.iterdir(), None)
        elif path.is_file():
            path.open("rb").close()
        else:
            raise LoaderError(f"{shown(path)} does not exist, or is neither a file nor a directory")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no valid path"
        raise LoaderError(f"{shown(path)} cannot be read: {reason}") from None
