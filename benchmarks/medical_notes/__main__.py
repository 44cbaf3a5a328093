"""Notes of a ward, worded ten ways: which answers are right, which are supported?

``python -m benchmarks.medical_notes --model FOLDER --epsilons 4 2 --seeds 5`` asks what ten
diseases are treated with, and which ten have given symptoms, with default settings and nothing
remembered. Names and symptoms are all that notes and questions share. ``--notes 16`` leaves so many
notes of each disease that is asked about, beside those of others. What was asked before is not
asked again: the answers stand in the folder ``--out``. The records are in ``DPICL_RAG_DATA``.
"""

from __future__ import annotations

from benchmarks.asked_corpus import ask_all, asking_options, show
from benchmarks.medical_notes.made_notes import make_notes
from dpicl_rag import Corpus


def main() -> int:
    """Read the command line and run."""
    parser = asking_options(__doc__ or "", "runs/medical_notes")
    parser.add_argument("--notes", type=int, help="that tell of each disease asked about")
    parser.add_argument("--corpus", type=int, default=0, help="seed of diseases and notes")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    made = make_notes(options.corpus, options.notes)
    name = f"{options.corpus}-{options.notes or 'all'}"
    corpus = Corpus.create(f"notes-{name}", path=options.out / "corpora")
    corpus.add(made.documents)
    show(ask_all(corpus, made.questions[: options.questions], options, name))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
