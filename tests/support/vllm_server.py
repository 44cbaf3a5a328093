"""A real vLLM with the default model, in a process of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import httpx
import pytest

from dpicl_rag.language_models.converted_models import DEFAULT
from dpicl_rag.language_models.openai_compatible.openai_model import OpenAICompatibleModel

_PYTHON = os.environ.get("DPICL_RAG_VLLM")
_STARTS_WITHIN = 600.0

NEEDS_VLLM = [
    pytest.mark.engine,
    pytest.mark.skipif(
        _PYTHON is None, reason="no vLLM here: run make test-engines, or set DPICL_RAG_VLLM"
    ),
]
"""Marks of a file of tests."""


class VLLM:
    """A server of the default model; a context manager that starts and ends it.

    Args:
        folder: For its log.
        *options: Of vLLM.

    Attributes:
        port: Its own, also of the next start.
        name: The model's.
    """

    name = "default"

    def __init__(self, folder: Path, *options: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._log, self._options = folder / f"vllm-{self.port}.log", options

    def __enter__(self) -> VLLM:
        self.start()
        self.wait()
        return self

    def __exit__(self, *error: object) -> None:
        self.kill()

    def start(self) -> None:
        """Begin to start; `wait` says when it is there."""
        command = [str(_PYTHON), "-m", "vllm.entrypoints.openai.api_server", "--enforce-eager"]
        command += ["--model", str(DEFAULT.folder()), "--max-model-len", "2048"]
        command += ["--served-model-name", self.name]
        command += ["--host", "127.0.0.1", "--port", str(self.port), *self._options]
        away = {"VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}
        environment = {**os.environ, **away}
        environment.pop("PYTHONPATH", None)
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, env=environment, stdout=log, stderr=log, start_new_session=True
            )

    def wait(self) -> None:
        """Until it answers."""
        end = time.monotonic() + _STARTS_WITHIN
        while time.monotonic() < end and self._process.poll() is None:
            try:
                if httpx.get(f"http://127.0.0.1:{self.port}/health", timeout=5).status_code == 200:
                    return
            except httpx.HTTPError:
                time.sleep(0.5)
        self.kill()
        pytest.fail(f"vLLM did not start:\n{self._log.read_text()[-2000:]}")

    def kill(self) -> None:
        """End it and all its processes at once, whatever they do."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        self._process.wait()

    @property
    def url(self) -> str:
        """Of the interface."""
        return f"http://127.0.0.1:{self.port}/v1"

    def model(self, deadline: float = 600.0) -> OpenAICompatibleModel:
        """A model that is connected to it."""
        query = f"tokenizer=default&deadline={deadline}"
        return OpenAICompatibleModel(f"openai+{self.url}?{query}")
