"""Keys and values of documents after their public prefix, kept from one question to the next.

An expert reads one privacy unit after a public prefix, so its keys and values depend on nothing
else: not on the question, not on other documents. They are reused exactly. Ordinary RAG, with all
documents in one prompt, cannot do this.

What is kept is as private as the documents. It is looked up by content, and by what decides bits
(threads, processor, versions): whether an entry is there changes the time of an answer alone. So a
changed document, template, model or machine finds nothing, and no name of a unit is stored.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import tempfile
import threading
import warnings
from array import array
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
import xxhash
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from dpicl_rag.language_models.key_value_cache import Layers

# Raised whenever the same tokens leave other bits in an entry, so that no old one is found.
_VERSION = 3
_SUFFIX = f".v{_VERSION}.safetensors"
_ANY_VERSION = re.compile(r"[0-9a-f]{64}(\.v\d+)?\.safetensors")
_WRITING = ".writing-"
_CHECKSUM = "checksum"
_MACHINE = "read-on-"


class ReadAnewWarning(UserWarning):
    """A folder of entries was used before where numbers are added up in another order."""


class PrefixCache:
    """Least recently used entries go first, from memory and, with ``folder``, from disk.

    Safe for threads. With a folder, safe for several processes: a file appears whole or not at
    all, and one that is damaged, be it by a single bit, counts as absent. A folder that is deleted
    meanwhile, full or read-only is done without, in silence: documents that are new would be the
    only ones to fail, and what somebody deleted is not written again.

    Args:
        memory: Most bytes kept in memory; 0 keeps nothing there.
        folder: Where to keep entries on disk too; its files hold private content in readable
            form. None keeps nothing on disk.
        disk: Most bytes kept on disk.
    """

    def __init__(
        self, memory: int = 1 << 30, folder: str | Path | None = None, disk: int = 8 << 30
    ) -> None:
        self._memory = memory
        self._disk = disk
        self._folder = None if folder is None else Path(folder)
        self._on_disk = 0
        if self._folder is not None:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._remove_other_versions(self._folder)
            self._on_disk = sum(size for _, size, _ in self._files(self._folder))
        self._entries: OrderedDict[str, Layers] = OrderedDict()
        self._size = 0
        self._machines: set[str] = set()
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return "PrefixCache()"

    @staticmethod
    def key(fingerprint: str, common: Sequence[int], document: Sequence[int]) -> str:
        """Name of an entry.

        Args:
            fingerprint: Of the model, and of what decides in which order it adds up.
            common: Tokens of the public prefix.
            document: Tokens read after it; none for the prefix itself.
        """
        digest = hashlib.sha256(fingerprint.encode())
        for ids in (common, document):
            # The length first: two other cuts of the same tokens are another entry.
            digest.update(array("q", [len(ids), *ids]).tobytes())
        return digest.hexdigest()

    def used_on(self, machine: str) -> None:
        """Note which machine's entries are asked for; say once where they are of others.

        What is said follows from the machines alone that a folder was used on, never from which
        entries it has.

        Args:
            machine: What decides in which order numbers are added up.
        """
        with self._lock:
            if self._folder is None or machine in self._machines:
                return
            self._machines.add(machine)
        mark = self._folder / (_MACHINE + hashlib.sha256(machine.encode()).hexdigest())
        if mark.exists():
            return
        others = any(self._folder.glob(f"{_MACHINE}*"))
        with contextlib.suppress(OSError):
            mark.touch(mode=0o600)
        if others:
            warnings.warn(
                "documents are read anew: those kept were read with another number of threads, on "
                "another processor or with other versions, which decide the last bits; read ahead "
                "where and as you ask",
                ReadAnewWarning,
                stacklevel=2,
            )

    def get(self, key: str, device: torch.device) -> Layers | None:
        """An entry, or None. Its tensors must not be written to."""
        with self._lock:
            layers = self._entries.get(key)
            if layers is not None:
                self._entries.move_to_end(key)
        if layers is None and (layers := self._load(key)) is not None:
            self._remember(key, layers)
        if layers is None:
            return None
        return [(keys.to(device), values.to(device)) for keys, values in layers]

    def put(self, key: str, layers: Layers) -> None:
        """Keep an entry, in place of older ones where space is short."""
        self._remember(key, layers)
        self._save(key, layers)

    def clear(self) -> None:
        """Forget everything, on disk too."""
        with self._lock:
            self._entries.clear()
            self._size = self._on_disk = 0
            self._machines.clear()
        if self._folder is not None:
            marks = self._folder.glob(f"{_MACHINE}*")
            for file in (*marks, *(file for _, _, file in self._files(self._folder))):
                file.unlink(missing_ok=True)

    def _remember(self, key: str, layers: Layers) -> None:
        size = _bytes(layers)
        if size > self._memory:
            return
        with self._lock:
            if key in self._entries:
                return
            self._entries[key] = layers
            self._size += size
            while self._size > self._memory:
                _, oldest = self._entries.popitem(last=False)
                self._size -= _bytes(oldest)

    def _load(self, key: str) -> Layers | None:
        if self._folder is None:
            return None
        file = self._folder / (key + _SUFFIX)
        try:
            tensors = _sound(file)
            layers = [
                (tensors[f"keys.{i}"], tensors[f"values.{i}"]) for i in range(len(tensors) // 2)
            ]
        except (SafetensorError, KeyError, ValueError):
            with contextlib.suppress(OSError):
                file.unlink()
            return None
        except OSError:
            return None
        with contextlib.suppress(OSError):
            os.utime(file)  # read now: the last to go
        return layers

    def _save(self, key: str, layers: Layers) -> None:
        if self._folder is not None and _bytes(layers) <= self._disk:
            with contextlib.suppress(OSError, SafetensorError):
                self._write(self._folder, key, layers)

    def _write(self, folder: Path, key: str, layers: Layers) -> None:
        file = folder / (key + _SUFFIX)
        if file.exists():
            return
        tensors = {
            f"{name}.{i}": tensor.contiguous().cpu()
            for i, pair in enumerate(layers)
            for name, tensor in zip(("keys", "values"), pair, strict=True)
        }
        handle, name = tempfile.mkstemp(dir=folder, prefix=_WRITING)  # its owner's alone
        try:
            with os.fdopen(handle, "wb") as stream:  # the library has drafts of other names
                stream.write(save(tensors, metadata={_CHECKSUM: _checksum(tensors)}))
            os.replace(name, file)
        finally:
            Path(name).unlink(missing_ok=True)
        with self._lock:
            self._on_disk += _bytes(layers)
            if self._on_disk > self._disk:
                self._shrink(folder)

    def _shrink(self, folder: Path) -> None:
        """Delete the files that were read longest ago, to a tenth below the limit."""
        files = self._files(folder)
        self._on_disk = sum(size for _, size, _ in files)
        for _, size, file in sorted(files):
            if self._on_disk <= 0.9 * self._disk:
                return
            file.unlink(missing_ok=True)
            self._on_disk -= size

    @staticmethod
    def _remove_other_versions(folder: Path) -> None:
        for file in folder.glob("*.safetensors"):
            if _ANY_VERSION.fullmatch(file.name) and not file.name.endswith(_SUFFIX):
                with contextlib.suppress(OSError):
                    file.unlink()

    @staticmethod
    def _files(folder: Path) -> list[tuple[float, int, Path]]:
        """Time of the last read, size and path of each file; those of killed writers too."""
        found = []
        for file in (*folder.glob(f"*{_SUFFIX}"), *folder.glob(f"{_WRITING}*")):
            with contextlib.suppress(FileNotFoundError):  # another process may delete it
                state = file.stat()
                found.append((state.st_mtime, state.st_size, file))
        return found


def _sound(file: Path) -> dict[str, torch.Tensor]:
    """The tensors of an entry as they were written, mapped from its file.

    Raises:
        ValueError, SafetensorError: It is damaged.
        OSError: It cannot be read.
    """
    with safe_open(file, framework="pt") as entry:
        tensors = {name: entry.get_tensor(name) for name in entry.keys()}  # noqa: SIM118
        if (entry.metadata() or {}).get(_CHECKSUM) != _checksum(tensors):
            raise ValueError
    return tensors


def _checksum(tensors: Mapping[str, torch.Tensor]) -> str:
    # Against accidents: who can write here can also write what is not damaged. A CRC takes longer
    # than all else that an entry needs to be found again.
    digest = xxhash.xxh3_64()
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)} ".encode())
        digest.update(tensor.view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _bytes(layers: Layers) -> int:
    return sum(tensor.nbytes for pair in layers for tensor in pair)
