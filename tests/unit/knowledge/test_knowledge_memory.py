"""The memory of released answers: what is found again, by whom, and from what file."""

from __future__ import annotations

import sqlite3
import stat
import subprocess
import sys
import threading
import warnings
from contextlib import closing
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import pytest

from dpicl_rag.errors import ConfigurationError, KnowledgeError
from dpicl_rag.knowledge import AnswerMemory, Knowledge, NotRememberedWarning
from dpicl_rag.knowledge.answer_file import ALL, AnswerFile, MemoryScope
from dpicl_rag.ledger import Ledger
from dpicl_rag.results import PrivateAnswer
from tests.support.bucket_embedder import BucketEmbedder

QUESTION = "When does the canteen open?"
ROOT = Path(__file__).parents[3]


def released(text: str) -> PrivateAnswer:
    return PrivateAnswer(text, 4.0, 1e-5, 0.1, 5, "end", "mail")


def questions(memory: AnswerMemory) -> list[str]:
    return [entry.question for entry in memory.entries()]


class TestTheSameQuestion:
    def test_is_found_in_other_spelling(self, memory):
        memory.remember(QUESTION, "At seven.", epsilon=4.0, delta=1e-5)
        entry = memory.same("when does the  CANTEEN open")
        assert (entry.question, entry.answer) == (QUESTION, "At seven.")
        assert (entry.epsilon, entry.delta, entry.edited) == (4.0, 1e-5, False)
        assert abs((datetime.now(UTC) - entry.time).total_seconds()) < 3600
        assert memory.same("When does the canteen close?") is None

    def test_in_another_form_is_another_question(self, memory):
        memory.remember(QUESTION, "Um sieben.", form="german")
        assert memory.same(QUESTION, "german").answer == "Um sieben."
        assert memory.same(QUESTION, "english") is None
        memory.remember(QUESTION, "7:00")  # by hand: fits every form
        assert memory.same(QUESTION, "english").answer == "7:00"

    def test_asked_afresh_has_the_newer_answer(self, memory):
        memory.remember(QUESTION, "At seven.", epsilon=4.0)
        memory.remember("when does the canteen open", "At eight.", epsilon=2.0)
        (entry,) = memory.entries()
        assert (entry.answer, entry.epsilon) == ("At eight.", 2.0)
        assert entry.question == "when does the canteen open"

    def test_keeps_what_the_operator_wrote(self, memory):
        memory.remember(QUESTION, "At ten.")
        (entry,) = memory.entries()
        memory.edit(entry.id, " At half past seven. ")
        memory.remember(QUESTION, "At ten.", epsilon=8.0)
        (entry,) = memory.entries()
        assert (entry.answer, entry.edited) == ("At half past seven.", True)

    def test_that_was_cut_off_informs_and_is_asked_anew(self, memory):
        memory.remember(QUESTION, "At", whole=False)
        assert memory.same(QUESTION) is None
        assert memory.recall(QUESTION) == [f"Question: {QUESTION}\nAnswer: At"]
        memory.edit(memory.entries()[0].id, "At seven.")
        assert memory.same(QUESTION).answer == "At seven."


class TestNearQuestions:
    def test_come_nearest_first_and_no_more_than_asked_for(self, open_memory):
        memory = open_memory(neighbours=2, least=0.1)
        for question in ("canteen open lunch", "canteen open", "printer paper", "canteen"):
            memory.remember(question, "Yes.")
        assert [e.question for e in memory.nearest("canteen open")] == [
            "canteen open",
            "canteen open lunch",
        ]

    def test_are_as_near_as_the_public_line(self, open_memory):
        open_memory().remember("canteen open lunch", "Yes.")
        cosine = float(
            BucketEmbedder().embed(["canteen open lunch"])[0]
            @ BucketEmbedder().embed(["canteen open"])[0]
        )
        assert open_memory(least=cosine - 1e-6).recall("canteen open") == [
            "Question: canteen open lunch\nAnswer: Yes."
        ]
        assert open_memory(least=cosine + 1e-6).recall("canteen open") == []

    def test_of_equals_the_newest_is_first(self, memory):
        memory.remember("open canteen", "Old.", form="a")
        memory.remember("canteen open", "New.", form="b")
        assert [e.answer for e in memory.nearest("canteen open")] == ["New.", "Old."]

    def test_an_edited_entry_is_recalled_as_it_is_now(self, memory):
        memory.remember(QUESTION, "At ten.")
        memory.edit(memory.entries()[0].id, "At seven.")
        assert memory.recall(QUESTION) == [f"Question: {QUESTION}\nAnswer: At seven."]

    def test_vectors_are_kept_and_those_of_another_model_are_made_anew(self, open_memory):
        class Counting(BucketEmbedder):
            def __init__(self, fingerprint: str, turn: int = 1) -> None:
                self.fingerprint, self.turn, self.texts = fingerprint, turn, []

            def embed(self, texts, *, query=False):
                self.texts += texts
                return super().embed(texts, query=query)[:, :: self.turn]

        one, other = Counting("one"), Counting("other", -1)
        memory = open_memory(embedder=one)
        memory.remember("canteen open", "Yes.")
        for _ in range(2):
            assert len(memory.nearest("canteen")) == 1
        assert one.texts == ["canteen open", "canteen", "canteen"]
        assert [e.answer for e in open_memory(embedder=other).nearest("canteen")] == ["Yes."]
        assert other.texts == ["canteen open", "canteen"]
        # A replaced question loses the vector of the older spelling.
        memory.remember("Canteen  open", "No.")
        memory.nearest("canteen")
        assert one.texts[-2:] == ["Canteen  open", "canteen"]

    def test_an_empty_memory_embeds_nothing(self, open_memory):
        class Refuses(BucketEmbedder):
            def embed(self, texts, *, query=False):
                raise AssertionError

        assert open_memory(embedder=Refuses()).recall(QUESTION) == []


class TestScope:
    def test_a_caller_reads_its_own_entries(self, open_memory):
        ann, bob, nobody = open_memory(caller="ann"), open_memory(caller="bob"), open_memory()
        ann.remember("What does my lawyer cost?", "400.")
        for memory in (bob, nobody, open_memory("other", caller="ann")):
            assert memory.same("What does my lawyer cost?") is None
            assert memory.recall("What does my lawyer cost?") == memory.entries() == []
        assert ann.same("What does my lawyer cost?").caller == "ann"

    def test_a_shared_memory_reads_all_callers_and_writes_its_own(self, open_memory):
        ann, bob = open_memory(caller="ann"), open_memory(caller="bob", shared=True)
        ann.remember(QUESTION, "At seven.")
        assert bob.same(QUESTION).answer == "At seven."
        assert len(bob.recall(QUESTION)) == 1
        entry = bob.entries()[0]
        with pytest.raises(KnowledgeError, match=f"no entry {entry.id}"):
            bob.edit(entry.id, "Never.")
        with pytest.raises(KnowledgeError, match="memory show"):
            bob.forget(entry.id)
        assert bob.clear() == 0
        bob.remember(QUESTION, "At eight.")
        assert {(e.caller, e.answer) for e in bob.entries()} == {
            ("ann", "At seven."),
            ("bob", "At eight."),
        }
        assert [e.answer for e in ann.entries()] == ["At seven."]

    def test_answers_from_some_documents_are_not_those_from_others(self, open_memory):
        hers, all_of_it = open_memory(where={"owner": "ann"}), open_memory()
        hers.remember(QUESTION, "At seven.")
        assert all_of_it.same(QUESTION) is None
        assert open_memory(where={"owner": "bob"}).recall(QUESTION) == []
        assert open_memory(where={"owner": "ann"}).same(QUESTION).answer == "At seven."

    def test_forget_and_clear(self, memory):
        for number in range(3):
            memory.remember(f"Question {number}?", "Yes.")
        first = memory.entries()[0].id
        memory.forget(first)
        assert questions(memory) == ["Question 1?", "Question 2?"]
        assert memory.clear() == 2
        assert questions(memory) == []
        memory.remember(QUESTION, "Yes.")
        assert memory.entries()[0].id > first + 2  # numbers that were shown are not used again


class TestBadInput:
    @pytest.mark.parametrize("text", ["\ud800 lone", "nul \0 byte", "'; DROP TABLE entry; --"])
    def test_any_text_is_text(self, memory, text):
        memory.remember(text, text)
        assert memory.same(text) is not None
        assert len(memory.recall(text)) == 1

    @pytest.mark.parametrize(("question", "answer"), [("", "a"), (" \n", "a"), ("q", "  ")])
    def test_an_empty_text_is_refused(self, memory, question, answer):
        with pytest.raises(ConfigurationError, match="one is empty"):
            memory.remember(question, answer)

    @pytest.mark.parametrize(
        "options",
        [
            {"corpus": ""},
            {"corpus": None},
            {"caller": ""},
            {"caller": 3},
            {"neighbours": 0},
            {"least": 1.5},
        ],
    )
    def test_a_wrong_parameter_is_refused(self, open_memory, options):
        with pytest.raises(ConfigurationError):
            open_memory(**options)

    def test_an_empty_correction_is_refused(self, memory):
        memory.remember(QUESTION, "Yes.")
        with pytest.raises(ConfigurationError, match="forget the entry"):
            memory.edit(1, " ")

    def test_a_failure_to_keep_is_one_warning(self, memory):
        memory.close()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(3):
                memory.keep(QUESTION, "", released("Yes."), False)
        (warning,) = caught
        assert warning.category is NotRememberedWarning
        assert "was not remembered: the memory" in str(warning.message)
        assert "is closed" in str(warning.message)

    @pytest.mark.filterwarnings("error")
    def test_a_warning_that_is_an_error_costs_no_answer(self, memory):
        memory.close()
        memory.keep(QUESTION, "", released("Yes."), False)

    def test_an_answer_without_words_is_not_kept(self, memory):
        with pytest.warns(NotRememberedWarning, match="one is empty"):
            memory.keep(QUESTION, "", released("  "), False)
        assert memory.entries() == []


class TestTheFile:
    def test_is_its_owners_alone(self, memory, path):
        memory.remember(QUESTION, "Yes.")
        for file in path.parent.iterdir():
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700

    def test_is_read_by_a_later_process(self, open_memory):
        open_memory().remember(QUESTION, "Yes.")
        assert open_memory().same(QUESTION).answer == "Yes."

    @pytest.mark.parametrize("content", [b"text", b"SQLite format 3\0" + b"\xff" * 4096])
    def test_a_damaged_one_is_one_clear_line(self, open_memory, path, content):
        path.parent.mkdir()
        path.write_bytes(content)
        with pytest.raises(KnowledgeError, match=r"^the memory .* restore it from a backup.*\)?$"):
            open_memory()
        assert path.read_bytes() == content

    def test_a_ledger_is_no_memory_and_a_memory_no_ledger(self, open_memory, path, tmp_path):
        Ledger(path).close()
        with pytest.raises(KnowledgeError, match="another program"):
            open_memory()
        other = tmp_path / "memory.sqlite"
        AnswerMemory(other, "mail").close()
        with pytest.raises(Exception, match="another program"):
            Ledger(other)

    @pytest.mark.parametrize("change", ["epsilon = -1", "released = 'now'", "vector = 7"])
    def test_values_outside_their_range_are_found_on_opening(self, open_memory, path, change):
        memory = open_memory()
        memory.remember(QUESTION, "Yes.")
        memory.close()
        with sqlite3.connect(path) as connection:
            connection.execute("PRAGMA ignore_check_constraints = ON")
            connection.execute(f"UPDATE entry SET {change}")
        connection.close()
        with pytest.raises(KnowledgeError, match="damaged"):
            open_memory()

    def test_a_locked_one_can_be_read_and_says_why_it_cannot_be_written(self, open_memory, path):
        open_memory().remember(QUESTION, "Yes.")
        memory = open_memory(busy_timeout=0.05)
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        assert memory.same(QUESTION).answer == "Yes."
        assert len(memory.recall(QUESTION)) == 1  # its vector cannot be kept, and is made again
        with pytest.raises(KnowledgeError, match="another process holds it"):
            memory.remember(QUESTION, "No.")
        other.execute("ROLLBACK")
        other.close()
        memory.remember(QUESTION, "No.")

    def test_a_folder_is_no_memory(self, tmp_path):
        with pytest.raises(KnowledgeError, match="cannot be opened"):
            AnswerMemory(tmp_path, "mail")


WRITER = """
import sys
from dpicl_rag.knowledge import AnswerMemory
from tests.support.bucket_embedder import BucketEmbedder
path, name = sys.argv[1:]
with AnswerMemory(path, "mail", embedder=BucketEmbedder(), busy_timeout=120) as memory:
    for number in range(25):
        memory.remember(f"of {name}: {number}", name)
        memory.remember(f"of all: {number}", name)
        memory.recall("of all")
"""


def test_a_question_is_near_by_the_part_that_asks(path):
    with AnswerMemory(path, "mail", embedder=BucketEmbedder(), least=0.9) as memory:
        memory.remember("When do you open?", "6:40.")
        assert memory.nearest("I pass your warehouse every morning on my way. When do you open?")
        assert not memory.nearest("I pass your warehouse every morning on my way.")


def test_what_was_drawn_informs_where_nothing_else_does(path):
    with AnswerMemory(path, "mail", embedder=BucketEmbedder()) as memory:
        memory.remember("When do you open?", "At 6:40pm.", drawn=True)
        assert [entry.answer for entry in memory.nearest("When do you open?")] == ["At 6:40pm."]
        memory.remember("When do you open today?", "6:40.")
        assert [entry.answer for entry in memory.nearest("When do you open?")] == ["6:40."]
        # The same question is answered from it all the same.
        assert memory.same("When do you open?").answer == "At 6:40pm."
        memory.edit(1, "At 6:40.")
        assert len(memory.nearest("When do you open?")) == 2
        memory.remember("Where is it?", "There.", drawn=True)
        memory.remember("Where is it?", "Here.")
        assert not memory.same("Where is it?").drawn


def test_a_file_that_was_lent_stays_open(path):
    with closing(AnswerFile(path)) as answers:
        for key in ("one", "two"):
            with AnswerMemory(answers, "mail", key=key, embedder=BucketEmbedder()) as memory:
                memory.remember(QUESTION, key)
        assert [entry.answer for entry in answers.newest(ALL, 1)] == ["two"]
        assert len(answers.entries()) == 2
    with pytest.raises(KnowledgeError):
        answers.entries()


def test_the_most_asked_come_first_each_question_once(path):
    with closing(AnswerFile(path, clock=count(1).__next__)) as answers:
        for caller in ("ann", "bob"):
            with AnswerMemory(answers, "mail", caller=caller) as memory:
                memory.remember("Rare?", "rare")
                memory.remember("Often?", f"of {caller}")
                memory.remember("Cut off?", "It was", whole=False)
                memory.remember("How many?", "About 9.", numbers="{}")
                for question in ("Often?", "Cut off?", "How many?"):
                    entry = next(one for one in memory.entries() if one.question == question)
                    memory.count_asked(entry)
        memory.remember("New?", "new")
        memory.remember("New?", "newer")
        found = [entry.answer for entry in answers.most_asked(MemoryScope("mail"), 3)]
        assert found == ["of bob", "newer", "rare"]
        own = answers.most_asked(MemoryScope("mail", "ann"), 1)
        assert [entry.answer for entry in own] == ["of ann"]


@pytest.mark.skipif(sys.platform == "win32", reason="disks cannot be made full there")
def test_a_full_disk_is_seen_before_an_answer_is_lost(path):
    from tests.support.full_disk import full_disk

    with closing(AnswerFile(path)) as answers:
        answers.check()
        with full_disk(), pytest.raises(KnowledgeError):
            answers.check()
        answers.check()


@pytest.mark.heavy
def test_processes_that_write_at_once_lose_nothing(open_memory, path):
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path), f"w{n}"], cwd=ROOT, stderr=-1)
        for n in range(4)
    ]
    for writer in writers:
        assert writer.communicate(timeout=120)[1] == b""
    entries = open_memory().entries()
    assert {entry.question for entry in entries} == {
        f"of {name}: {number}" for name in ("w0", "w1", "w2", "w3", "all") for number in range(25)
    }
    assert len(entries) == 125  # of two answers to one question one stays
    assert all(e.answer in e.question for e in entries if "all" not in e.question)


def test_threads_share_a_memory(memory):
    def work(name: str) -> None:
        for number in range(20):
            memory.remember(f"{name} {number}", name)
            assert memory.same(f"{name} {number}").answer == name
            memory.nearest(name)

    threads = [threading.Thread(target=work, args=(f"t{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(memory.entries()) == 80


def test_it_is_knowledge_and_names_no_entry(memory):
    memory.remember(QUESTION, "Yes.")
    assert isinstance(memory, Knowledge)
    assert repr(memory) == "AnswerMemory('mail', caller=None)"
