"""No adapter shows a private document to anyone but the model.

Every adapter is driven in every mode with everything listening that its framework offers, and with
logs, warnings, prints, outputs, reprs and errors captured. A secret in the documents must reach the
model and no other place.
"""

from __future__ import annotations

import logging
import sys
import warnings

import pytest

from dpicl_rag.mechanisms.randomness import NotPrivateWarning, SeededRandomness
from tests.integrations.drives import DRIVES, watched
from tests.integrations.leak_probe import SECRET, Drive, LeakProbe, SpyModel, Stage

pytestmark = pytest.mark.usefixtures("frozen")


@pytest.mark.one_in(4)
@pytest.mark.parametrize("drive", DRIVES)
async def test_secret_reaches_the_model_and_nothing_else(drive: Drive, tiny_model, tmp_path):
    probe = LeakProbe()
    documents = [f"The patient {SECRET} has zingpocket {number}." for number in range(3)]
    # Repeatable: a random model could otherwise fail a test once in a while.
    with pytest.warns(NotPrivateWarning):
        coins = SeededRandomness(1)
    model, question = SpyModel(tiny_model), "What is the disease?"
    await watched(drive, Stage(model, documents, question, probe, tmp_path, coins))
    assert not probe.findings
    assert "output" in probe.places
    assert any(SECRET in prompt for prompt in model.prompts) or not drive.reads


@pytest.mark.parametrize(
    "spelling", [SECRET, SECRET.upper(), SECRET.encode(), SECRET.encode().hex(), {"a": [SECRET]}]
)
def test_probe_knows_the_secret_when_it_sees_it(spelling):
    probe = LeakProbe()
    probe.see("here", spelling)
    probe.see("there", "nothing")
    assert probe.findings == ["here"]


def test_probe_watches_logs_warnings_prints_and_errors():
    probe = LeakProbe()

    def tell():
        logging.getLogger("some.library").debug("read %s", SECRET)
        warnings.warn(SECRET, UserWarning, stacklevel=1)
        sys.stdout.write(SECRET)
        try:
            raise KeyError(SECRET)
        except KeyError as error:
            raise ValueError("refused") from error

    with pytest.raises(ValueError, match="refused"), probe.listening():
        tell()
    assert set(probe.findings) == {"log some.library", "warning", "stdout", "error"}
