"""The command line with a small model that can count, and prints as libraries may."""

from __future__ import annotations

import os

from dpicl_rag.cli import data_folder, main
from dpicl_rag.language_models import defaults
from tests.support.around import Around
from tests.support.bucket_embedder import BucketEmbedder
from tests.support.tiny_model import build_tiny_model


class NoisyModel(Around):
    def read(self, *arguments, **options):
        print("noise of Python", flush=True)  # noqa: T201
        os.write(1, b"noise of a library in C\n")
        return self._model.read(*arguments, **options)


if __name__ == "__main__":
    data_folder.load_embedder = lambda name: BucketEmbedder()
    defaults.default_model = lambda: NoisyModel(build_tiny_model())
    main()
