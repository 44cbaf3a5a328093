"""How many right answers does the mailbox pay for, where no thread may lose more than epsilon 8?

``python -m benchmarks.mailbox.lifetime --model FOLDER`` puts a stream of questions to the mailbox,
under a ledger and with a memory, by the defaults. Some facts are asked for more often than others
(Zipf), each time in other words around the question. A fact is over after three answers in a row
that are not both right and supported. What was answered stands in a file, so an interrupted run
goes on where it was.
"""

from __future__ import annotations

import json
import random
import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.progress import track

from benchmarks.asked_corpus import Question, asking_options, kept_model
from benchmarks.lifetime import DELTA, LIFETIME, OVER
from benchmarks.mailbox.made_mailbox import make_mailbox, read_questions
from dpicl_rag import Corpus, Ledger, PrivateContextLLM, load
from dpicl_rag.knowledge import AnswerMemory
from dpicl_rag.languages.languages import language_of

# Around a question, by its language.
FRAMES = {
    "es": ("{}", "Buenos días. {}", "{} Gracias.", "Una pregunta rápida: {}", "Perdón, {}"),
    "de": ("{}", "Guten Tag! {}", "{} Danke.", "Eine kurze Frage: {}", "Bitte sagen Sie mir: {}"),
    "fr": ("{}", "Bonjour ! {}", "{} Merci.", "Une petite question : {}", "Dites-moi : {}"),
    "en": ("{}", "Good morning! {}", "{} Thank you.", "Quick question: {}", "Please tell me: {}"),
}


def stream(questions: Sequence[Question], count: int, seed: int) -> Iterator[tuple[Question, str]]:
    """Questions by Zipf's law, each in every frame of its language before any frame comes again."""
    draw = random.Random(seed)
    order = draw.sample(questions, len(questions))
    left: dict[str, list[str]] = defaultdict(list)
    for question in draw.choices(order, [1 / rank for rank in range(1, len(order) + 1)], k=count):
        frames = left[question.text]
        if not frames:
            frames += FRAMES[language_of(question.text).code]
            draw.shuffle(frames)
        yield question, frames.pop().format(question.text)


def main() -> int:
    """Read the command line and run."""
    parser = asking_options(__doc__ or "", "runs/mailbox-lifetime")
    parser.add_argument("--seed", type=int, default=0, help="of the stream and the noise")
    parser.set_defaults(epsilons=[2.0], questions=400)
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # a seed is not private
    folder = options.out / str(options.seed)
    folder.mkdir(parents=True, exist_ok=True)
    box = folder / "mail.mbox"
    make_mailbox(0).write(box)
    corpus = Corpus.create("mailbox", path=folder / "corpora")
    corpus.add(load(box).documents)
    ledger = Ledger(folder / "ledger")
    ledger.set_budget(corpus=corpus.name, epsilon=LIFETIME, delta=DELTA)
    model = kept_model(options)
    llm = PrivateContextLLM(
        model,
        ledger=ledger,
        knowledge=AnswerMemory(folder / "memory", corpus.name),
        epsilon=options.epsilons[0],
        delta=DELTA,
        seed=options.seed,
    )
    asked = [
        question for question in read_questions() if question.answerable and not question.turns
    ]
    found: dict[str, list[bool]] = defaultdict(list)
    kept = folder / "answers.jsonl"
    known = (
        [json.loads(line) for line in kept.read_text("utf-8").splitlines()] if kept.exists() else []
    )
    for line in known:
        found[line["question"]].append(line["useful"])
    wrong = sum(line["supported"] and not line["right"] for line in known)
    first = 1 + max((line["number"] for line in known), default=-1)
    questions = list(enumerate(stream(asked, options.questions, options.seed)))[first:]
    with kept.open("a", encoding="utf-8") as file:
        for number, (question, text) in track(questions, "asking", console=Console(stderr=True)):
            last = found[question.text][-OVER:]
            if len(last) == OVER and not any(last):
                continue
            model.forget()
            answer = llm.answer(text, corpus)
            right, supported = question.is_right(answer.text), bool(answer.supported)
            found[question.text].append(right and supported)
            wrong += supported and not right
            line = {
                "number": number,
                "question": question.text,
                "useful": right and supported,
                "right": right,
                "supported": supported,
                "by": answer.by,
                "rho": answer.rho,
                "text": answer.text,
            }
            print(json.dumps(line), file=file, flush=True)
    print(f"right and supported: {sum(map(sum, found.values()))} of {options.questions} questions")
    print(f"facts told at all: {sum(map(any, found.values()))} of {len(asked)}")
    print(f"asked before a fact was over: {sum(map(len, found.values()))}")
    print(f"supported and wrong: {wrong}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
