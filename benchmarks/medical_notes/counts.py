"""Counts and tallies of a ward's notes: how many patients are told, and how many there are?

``python -m benchmarks.medical_notes.counts --model FOLDER --epsilon 4`` asks how many patients have
each of six diseases, how many are given each of six medicines, and tallies the notes by disease.
What is within a tenth of the truth or four units is *near*. The records are in ``DPICL_RAG_DATA``.
"""

from __future__ import annotations

from benchmarks.counted_corpus import Counts, count_all, counting_options
from benchmarks.medical_notes.made_notes import MadeNotes, make_notes

SUBJECT, ELSE = "What does the patient have?", "something else"
OF_EACH = 6


def counts_of(made: MadeNotes) -> Counts:
    """What is counted in some notes."""
    asked = list(made.asked.items())
    questions = {
        **{f"Does the patient have {name}?": made.telling[name] for name, _ in asked[:OF_EACH]},
        **{f"Is the patient given {given}?": made.given[given] for _, given in asked[-OF_EACH:]},
    }
    labels = {name: made.telling[name] for name, _ in asked[:OF_EACH]}
    labels[ELSE] = len(made.documents) - sum(labels.values())
    return Counts(questions, SUBJECT, labels, made.documents)


def main() -> int:
    """Read the command line, ask, and print."""
    parser = counting_options(__doc__ or "")
    parser.add_argument("--corpus", type=int, default=0, help="seed of diseases and notes")
    options = parser.parse_args()
    count_all(counts_of(make_notes(options.corpus)), options)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
