"""Model files from an installed package or the Hugging Face hub, checked by hash."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dpicl_rag._packaged import INSTALL_MODELS, located, verified_path
from dpicl_rag.errors import ModelError

# Its client would tell the hub what is installed here and which program runs it.
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
_PATIENCE = 3.0  # seconds until a hub that says nothing is out of reach


def answers_for(name: str, revision: str | None = None) -> bool:
    """Test for a hub that can be asked for a model; if not, the model is in its cache.

    One request without a second try. Loaders of models try for most of a minute, and then say no
    more.

    Args:
        name: Id of a model on the hub.
        revision: Of the model; its newest if None.

    Raises:
        ModelError: The hub has no such model, or it is out of reach and the cache lacks the model.
    """
    import huggingface_hub as hub
    from huggingface_hub import errors

    try:
        hub.get_hf_file_metadata(
            hub.hf_hub_url(name, "config.json", revision=revision), timeout=_PATIENCE
        )
    except errors.GatedRepoError:
        raise ModelError(
            f"the Hugging Face hub gives {name} only to those who accepted its licence there: "
            "accept it, then run `hf auth login`"
        ) from None
    except (errors.RepositoryNotFoundError, errors.HFValidationError):
        raise ModelError(
            f"the Hugging Face hub has no model {name!r}: give an id such as "
            "Qwen/Qwen2.5-1.5B-Instruct, or a folder as ./FOLDER"
        ) from None
    except errors.HfHubHTTPError:
        return True  # it is there; whoever loads the model meets what it says
    except Exception:
        if not isinstance(hub.try_to_load_from_cache(name, "config.json", revision=revision), str):
            raise ModelError(
                f"the model {name!r} is no folder here, and the Hugging Face hub cannot be "
                "reached: give a folder with a saved model, or leave the model out for the default"
            ) from None
        return False
    return True


def cached(repository: str, file: str, revision: str) -> bool:
    """Whether a file of the hub is in its cache here; asks nobody."""
    import huggingface_hub as hub

    return isinstance(hub.try_to_load_from_cache(repository, file, revision=revision), str)


def fetched(repository: str, revision: str, files: Mapping[str, str]) -> Path:
    """Folder with files of a model: from the hub's cache, or downloaded there.

    No token is sent. ``HF_ENDPOINT``, ``HF_HOME`` and ``HF_HUB_OFFLINE`` are honoured.

    Args:
        repository: Id on the hub.
        revision: A whole commit.
        files: The sha256 that is expected, by path.

    Raises:
        ConnectionError: A file is not in the cache and cannot be downloaded.
        ModelError: A file is another than expected.
    """
    import huggingface_hub as hub

    try:
        # A download tries for most of a minute; a hub out of reach is found out at once.
        for file in [file for file in files if not cached(repository, file, revision)][:1]:
            url = hub.hf_hub_url(repository, file, revision=revision)
            hub.get_hf_file_metadata(url, token=False, timeout=_PATIENCE)
        paths = {
            file: Path(hub.hf_hub_download(repository, file, revision=revision, token=False))
            for file in files
        }
    except Exception as error:
        raise ConnectionError(repository) from error
    for file, sha256 in files.items():
        with paths[file].open("rb") as stream:
            found = hashlib.file_digest(stream, "sha256").hexdigest()
        if found != sha256:
            raise ModelError(
                f"{file} of {repository} from the hub has sha256 {found} where {sha256} was "
                f"expected, and is not loaded: delete {paths[file].resolve()} and try again"
            )
    first = next(iter(files))
    return paths[first].parents[first.count("/")]


@dataclass(frozen=True, slots=True)
class Pinned:
    """The files of a model: on the hub, and perhaps the same bits in a package.

    Attributes:
        name: Of the model.
        repository: Id on the Hugging Face hub.
        revision: The commit there.
        files: Sha256 by path, the weights first.
        package: Import name of the package that brings it, if one does.
        inside: Folder of the files in the package; empty for the package's own.
    """

    name: str
    repository: str
    revision: str
    files: Mapping[str, str]
    package: str | None = None
    inside: str = ""

    @property
    def sha256(self) -> str:
        """Hash of the weights."""
        return next(iter(self.files.values()))

    @property
    def is_packaged(self) -> bool:
        """Whether an installed package brings the weights."""
        return self.package is not None and located(self.package, self._packaged) is not None

    @property
    def is_here(self) -> bool:
        """Whether `folder` finds all files without a network."""
        return self.is_packaged or all(
            cached(self.repository, file, self.revision) for file in self.files
        )

    @property
    def _packaged(self) -> str:
        return f"{self.inside}/{next(iter(self.files))}".lstrip("/")

    def folder(self) -> Path:
        """Folder of the files. What is downloaded is kept in the hub's cache.

        Raises:
            ModelError: The weights are damaged, or the model can be had in neither place; names
                the command.
        """
        if self.package is not None and self.is_packaged:
            return verified_path(self.package, self._packaged, self.sha256).parent
        try:
            return fetched(self.repository, self.revision, self.files)
        except ConnectionError as error:
            if self.package is None:
                raise ModelError(
                    f"the model {self.name} is not here yet, and the Hugging Face hub cannot be "
                    "reached for it: try again with a network, give a folder with a saved model, "
                    "or leave the model out for the default"
                ) from error
            raise ModelError(
                f"the default model {self.name} is not installed, and the Hugging Face hub cannot "
                f"be reached for it: run `{INSTALL_MODELS}`, or name a model that is here "
                "(--model and --embedder, or the argument model)"
            ) from error
