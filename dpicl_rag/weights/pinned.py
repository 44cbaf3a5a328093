"""A default model: its files from a package that may be installed, else from the hub."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dpicl_rag._packaged import INSTALL_MODELS, located, verified_path
from dpicl_rag.errors import ModelError
from dpicl_rag.weights import hub


@dataclass(frozen=True, slots=True)
class Pinned:
    """The files of a model: the same bits in a package and on the hub.

    Attributes:
        name: Of the model.
        package: Import name of the package that brings it.
        inside: Folder of the files in the package; empty for the package's own.
        repository: Id on the Hugging Face hub.
        revision: The commit there.
        files: Sha256 by path, the weights first.
    """

    name: str
    package: str
    inside: str
    repository: str
    revision: str
    files: Mapping[str, str]

    @property
    def sha256(self) -> str:
        """Hash of the weights."""
        return next(iter(self.files.values()))

    def folder(self) -> Path:
        """Folder of the files. What is downloaded is kept in the hub's cache.

        Raises:
            ModelError: The weights are damaged, or the model can be had in neither place; names
                the command.
        """
        weights = next(iter(self.files))
        packaged = f"{self.inside}/{weights}".lstrip("/")
        if located(self.package, packaged) is not None:
            return verified_path(self.package, packaged, self.sha256).parent
        try:
            return hub.fetched(self.repository, self.revision, self.files)
        except ConnectionError as error:
            raise ModelError(
                f"the default model {self.name} is not installed, and the Hugging Face hub cannot "
                f"be reached for it: run `{INSTALL_MODELS}`, or name a model that is here "
                "(--model and --embedder, or the argument model)"
            ) from error
