"""Every drive of both frameworks, as parameters."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from tests.integrations.langchain.drives import DRIVES as LANGCHAIN
from tests.integrations.leak_probe import Drive, Stage
from tests.integrations.llama_index.drives import DRIVES as LLAMA_INDEX

DRIVES = [
    *(pytest.param(drive, id=f"LangChain {drive.name}") for drive in LANGCHAIN),
    *(pytest.param(drive, id=f"LlamaIndex {drive.name}") for drive in LLAMA_INDEX),
]


async def watched(drive: Drive, stage: Stage) -> None:
    """Run a drive while its probe listens, and show the probe what it returns."""
    with stage.probe.listening():
        output: Any = drive.run(stage)
        if inspect.isawaitable(output):
            output = await output
        stage.probe.see("output", output)
