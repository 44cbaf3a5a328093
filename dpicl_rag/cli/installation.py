"""The installed packages: versions, what is missing for which extra, and the line that mends it."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from importlib import metadata
from importlib.util import find_spec

from packaging.requirements import Requirement

from dpicl_rag.cli.finding import Finding

NAME = "dpicl-rag"
_SIBLINGS = ("langchain-dpicl-rag", "llama-index-dpicl-rag", "dpicl-research")
_TOLD = (
    "torch",
    "transformers",
    "sentence-transformers",
    "langchain-core",
    "llama-index-core",
    "mcp",
)
_WITHIN = {"all", "dev"}  # all others together, and what only a checkout needs


def version_findings() -> Iterator[Finding]:
    """Versions of this package, of its siblings and of what it stands on."""
    own = metadata.version(NAME)
    yield Finding(NAME, own)
    yield Finding("python", platform.python_version())
    for name in _TOLD:
        yield Finding(name, _version(name) or "not installed")
    for name in _SIBLINGS:
        found = _version(name)
        if found is not None and found != own:
            remedy = f"pip install '{name}=={own}'"
            yield Finding(name, f"{found}, and {NAME} is {own}", broken=True, remedy=remedy)
        elif found is not None:
            yield Finding(name, found)


def dependency_findings() -> Iterator[Finding]:
    """Packages without which nothing works: those that are missing, or of another version."""
    for about, told in _amiss(_needed(None)):
        yield Finding(about, told, broken=True, remedy=f"pip install --upgrade {NAME}")


def extra_findings() -> Iterator[Finding]:
    """Every extra: there, or what it lacks and the line that installs it; siblings that lack."""
    for extra in metadata.metadata(NAME).get_all("Provides-Extra") or ():
        if extra in _WITHIN:
            continue
        amiss = dict(_amiss(_needed(extra)))
        if not amiss:
            yield Finding(extra, "installed")
            continue
        lacks = ", ".join(f"{name} {told}" for name, told in amiss.items())
        yield Finding(extra, lacks, remedy=f"pip install '{NAME}[{extra}]'")
    for name in _SIBLINGS:
        if find_spec(name.replace("-", "_")) is None:
            yield Finding(name, "not installed", remedy=f"pip install {name}")


def _needed(extra: str | None) -> Iterator[Requirement]:
    """What an extra adds, and the extras that it has in it; of None what is always needed."""
    for line in metadata.requires(NAME) or ():
        one = Requirement(line)
        always = one.marker is None or one.marker.evaluate({"extra": ""})
        if extra is None:
            if always:
                yield one
        elif not always and one.marker is not None and one.marker.evaluate({"extra": extra}):
            if one.name == NAME:
                for within in sorted(one.extras):
                    yield from _needed(within)
            else:
                yield one


def _amiss(needed: Iterator[Requirement]) -> Iterator[tuple[str, str]]:
    for one in needed:
        found = _version(one.name)
        if found is None:
            yield one.name, "is missing"
        elif not one.specifier.contains(found, prereleases=True):
            yield one.name, f"is {found}, and {one.specifier} is needed"


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
