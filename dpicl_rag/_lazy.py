"""Names of a package that are imported when first used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def importing(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package (PEP 562).

    Args:
        package: Its name.
        homes: By module of the package, the names that come from it, with spaces between them.
    """
    home_of = {name: home for home, names in homes.items() for name in names.split()}

    def getattr_(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{home_of[name]}"), name)

    def dir_() -> list[str]:
        return sorted(import_module(package).__all__)

    return getattr_, dir_
