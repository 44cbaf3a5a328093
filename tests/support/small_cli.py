"""The command line with models that are small: ``python -m tests.support.small_cli COMMAND``."""

from __future__ import annotations

import os

from dpicl_rag.cli import data_folder, main
from dpicl_rag.language_models import defaults
from tests.support.bucket_embedder import BucketEmbedder
from tests.support.paced_model import PacedModel

SECONDS = float(os.environ.get("SECONDS_A_TOKEN", "0.02"))

if __name__ == "__main__":
    data_folder.load_embedder = lambda name, device=None: BucketEmbedder()
    defaults.default_model = lambda: PacedModel(open=True, seconds=SECONDS)
    main()
