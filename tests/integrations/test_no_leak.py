"""No adapter shows a private document to anyone but the model.

Every adapter is driven in every mode with everything listening that its framework offers, and with
logs, warnings, prints, outputs, reprs and errors captured. A secret in the documents must reach the
model and no other place.
"""

from __future__ import annotations

import inspect
import logging
import sys
import warnings

import pytest

from tests.integrations.langchain.drives import DRIVES as LANGCHAIN
from tests.integrations.leak_probe import SECRET, Drive, LeakProbe, SpyModel, Stage
from tests.integrations.llama_index.drives import DRIVES as LLAMA_INDEX

DRIVES = [
    *(pytest.param(drive, id=f"LangChain {drive.name}") for drive in LANGCHAIN),
    *(pytest.param(drive, id=f"LlamaIndex {drive.name}") for drive in LLAMA_INDEX),
]


@pytest.mark.parametrize("drive", DRIVES)
async def test_secret_reaches_the_model_and_nothing_else(drive: Drive, tiny_model, tmp_path):
    probe = LeakProbe()
    documents = [f"The patient {SECRET} has zingpocket {number}." for number in range(3)]
    stage = Stage(SpyModel(tiny_model), documents, "What is the disease?", probe, tmp_path)
    with probe.watching():
        output = drive.run(stage)
        if inspect.isawaitable(output):
            output = await output
        probe.see("output", output)
    assert not probe.findings
    assert "output" in probe.places
    assert any(SECRET in prompt for prompt in stage.model.prompts) or not drive.reads


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

    with pytest.raises(ValueError, match="refused"), probe.watching():
        tell()
    assert set(probe.findings) == {"log some.library", "warning", "stdout", "error"}
