"""Methods of the leaderboard: each file here that has a ``METHOD`` is one."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from benchmarks.leaderboard.method import Method


def all_methods() -> dict[str, Method]:
    """By their names, in the order of files: a file that is put into this folder joins."""
    modules = (import_module(f"{__name__}.{one.name}") for one in iter_modules(__path__))
    found = [module.METHOD for module in modules if hasattr(module, "METHOD")]
    return {method.name: method for method in found}
