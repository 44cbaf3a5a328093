"""A mailbox in four languages, asked as a user would: which answers are right, which are supported?

``python -m benchmarks.mailbox --model FOLDER --epsilons 4 2 --seeds 5`` asks the 24 questions of
``mailbox.toml`` with default settings and nothing remembered. 16 of them are told by 16 to 30
threads of 308; 8 by nobody or by one. What was asked before is not asked again: the answers stand
in the folder ``--out``.
"""

from __future__ import annotations

from benchmarks.asked_corpus import ask_all, asking_options, show
from benchmarks.mailbox.made_mailbox import make_mailbox, read_questions
from dpicl_rag import Corpus, load


def main() -> int:
    """Read the command line and run."""
    parser = asking_options(__doc__ or "", "runs/mailbox")
    parser.add_argument("--mailbox", type=int, default=0, help="seed of the mailbox")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    box = options.out / f"{options.mailbox}.mbox"
    make_mailbox(options.mailbox).write(box)
    corpus = Corpus.create(f"mailbox-{options.mailbox}", path=options.out / "corpora")
    corpus.add(load(box).documents)
    questions = read_questions()[: options.questions]
    show(ask_all(corpus, questions, options, str(options.mailbox)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
