"""A synthetic corpus, and ordinary RAG over it: what DP-SynRAG proposes, with our synthesis."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.leaderboard.method import Asked, Method, Setting, Told
from dpicl_rag import Corpus
from dpicl_rag.accounting import rho_to_epsilon
from dpicl_rag.synthesis.public_records import ordinary_answer


class SyntheticRAG(Method):
    """Asks a finished run of ``benchmarks.synthesis``; one budget pays for all answers."""

    name = "synthetic corpus, ordinary RAG"
    source = "Mori et al. 2025, arXiv 2510.06719 (DP-SynRAG); records by docs/synthesis.md"

    def charge(self, setting: Setting, epsilon: float, delta: float) -> float:
        """What the run's folder says; nothing without one."""
        folder = _run(setting, epsilon)
        if folder is None:
            return 0.0
        plan = json.loads((folder / "run" / "plan.json").read_text("utf-8"))
        return rho_to_epsilon(plan["charges"]["rho"], plan["settings"]["delta"])

    def answer(self, setting: Setting, asked: Asked) -> Told | None:
        """See `Method.answer`."""
        folder = _run(setting, asked.epsilon)
        if folder is None:
            return None
        if self.charge(setting, asked.epsilon, asked.delta) > asked.epsilon * (1 + 1e-6):
            raise ValueError(f"{folder} is a run of another epsilon")
        corpus = Corpus.open("synthetic", folder / "store")
        try:
            text = ordinary_answer(
                *(corpus, asked.question, setting.model),
                template=setting.template,
                records=1,
                max_tokens=setting.max_tokens,
                stop=setting.stop,
            )
        finally:
            corpus.close()
        return Told(text, bool(text))


def _run(setting: Setting, epsilon: float) -> Path | None:
    """A finished run at this epsilon."""
    folder = None if setting.released is None else setting.released / f"{epsilon:g}"
    return folder if folder is not None and (folder / "store").exists() else None


METHOD = SyntheticRAG()
