"""The default model's rehearsal comes with the package, and is just what it does.

``python -m tests.unit.rehearsal.test_packaged_rehearsal`` records it anew, where the items, the
worked examples or what is read of them have changed.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
import torch

from dpicl_rag.language_models import defaults
from dpicl_rag.rehearsal import kept_rehearsals, rehearsal_of
from dpicl_rag.rehearsal.kept_rehearsals import ANSWERS
from dpicl_rag.rehearsal.rehearsing import rehearsal_version, rehearse
from tests.support.rehearsed_model import RehearsedModel, knowing


def test_it_is_of_these_items():
    assert ANSWERS.packaged[0] == rehearsal_version(), __doc__


def test_the_default_model_is_a_toy_and_nobody_waits_for_that(monkeypatch):
    model = RehearsedModel(knowing, "the default")
    monkeypatch.setattr(defaults, "_toys", {"the default"})
    found = rehearsal_of(model)
    assert found.is_toy
    assert not found.knows_silence
    assert found.verdict.startswith("a toy")
    assert model.asked == []


@pytest.mark.heavy
def test_the_default_model_does_just_that():
    assert rehearse(defaults.default_model("float32")) == ANSWERS.packaged[1]


@pytest.mark.heavy
@pytest.mark.skipif(
    not torch.ops.mkldnn._is_mkldnn_bf16_supported(),
    reason="this processor has no products of 16 bits: it takes more than ten minutes",
)
def test_in_16_bits_it_is_a_toy_too():
    found = rehearse(defaults.default_model("bfloat16"))
    assert found.is_toy
    assert not found.knows_silence


if __name__ == "__main__":
    found = {rehearsal_version(): asdict(rehearse(defaults.default_model("float32")))}
    file = Path(kept_rehearsals.__file__).with_name("default_model.json")
    file.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
