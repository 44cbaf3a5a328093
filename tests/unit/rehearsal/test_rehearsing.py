"""What a model does with public items, and the verdict that follows."""

from __future__ import annotations

import pytest

from dpicl_rag.errors import MissingDependencyError
from dpicl_rag.language_models.prefix_cache import PrefixCache
from dpicl_rag.language_models.transformers_rows import shared_pass
from dpicl_rag.languages.languages import says_nothing
from dpicl_rag.rehearsal import Rehearsal, rehearsing
from dpicl_rag.rehearsal.rehearsal_items import rehearsal_items
from dpicl_rag.rehearsal.rehearsing import rehearse
from tests.support.rehearsed_model import RehearsedModel, knowing, mute, talking

ITEMS = rehearsal_items()
TOLD = [item for item in ITEMS if item.right]
NEAR = [item for item in ITEMS if item.near]
FAR = [item for item in ITEMS if not (item.right or item.near)]


def test_a_model_that_is_silent_where_it_should_be_knows_silence():
    model = RehearsedModel(knowing)
    found = rehearse(model)
    assert (found.told, found.right) == (len(TOLD),) * 2
    assert (found.far, found.silent) == (len(FAR),) * 2
    assert (found.near, found.silent_near) == (len(NEAR),) * 2
    assert found.knows_silence
    assert not found.is_toy
    assert found.verdict == (
        "answers 42 of 42, stays silent on 21 of 21 documents about something else, and on "
        "21 of 21 that come near: may answer"
    )
    assert {item for item, shown in model.asked if shown} == set(ITEMS)
    assert max(model.together) <= 4


def test_who_answers_enough_is_asked_by_default_at_first_alone():
    model = RehearsedModel(knowing)
    assert rehearse(model).right_by_default is None
    assert [item for item, shown in model.asked if not shown] == TOLD[:8]


def test_who_answers_too_little_is_asked_by_default_too():
    model = RehearsedModel(
        lambda item, shown: mute(item, shown) if item in TOLD[::2] else knowing(item, shown)
    )
    found = rehearse(model)
    assert (found.right, found.right_by_default) == (len(TOLD) // 2, len(TOLD))
    assert (found.silent, found.silent_near) == (len(FAR), len(NEAR))
    assert not found.knows_silence
    assert not found.is_toy
    assert found.verdict.startswith(f"answers {len(TOLD)} of {len(TOLD)}, but")
    assert [item for item, shown in model.asked if not shown] == TOLD


def test_each_language_is_counted_by_itself():
    def script(item, shown):
        return "?" if item.language == "de" else knowing(item, shown)

    found = rehearse(RehearsedModel(script))
    assert list(found.by_language) == ["en", "de", "fr", "es", "it"]
    assert found.by_language["de"].right == found.by_language["de"].silent == 0
    assert found.by_language["de"].is_toy
    assert found.by_language["fr"].knows_silence
    assert found.right == sum(one.right for one in found.by_language.values()) == 34
    assert found.silent == sum(one.silent for one in found.by_language.values())


def test_a_model_that_always_talks_does_not_know_silence():
    found = rehearse(RehearsedModel(talking))
    assert (found.right, found.silent, found.silent_near) == (len(TOLD), 0, 0)
    assert not found.knows_silence
    assert not found.is_toy
    assert f"but stays silent on 0 of {len(FAR)}" in found.verdict


def test_who_talks_of_what_is_near_is_no_worse_than_words_would_be():
    found = rehearse(
        RehearsedModel(lambda item, shown: (talking if item.near else knowing)(item, shown))
    )
    assert (found.silent, found.silent_near) == (len(FAR), 0)
    assert found.knows_silence


def test_a_model_that_says_nothing_at_all_does_not_know_silence():
    found = rehearse(RehearsedModel(mute))
    assert (found.right, found.silent) == (0, len(FAR))
    assert not found.knows_silence
    assert not found.is_toy


@pytest.mark.parametrize(
    ("right", "by_default", "silent", "knows"),
    [
        (28, 28, 16, True),
        (28, None, 16, True),
        (27, 27, 20, False),
        (28, 28, 15, False),
        (27, 40, 20, False),
    ],
)
def test_the_verdict_has_two_lines(right, by_default, silent, knows):
    assert Rehearsal(40, right, by_default, 20, silent).knows_silence is knows


@pytest.mark.parametrize(("right", "by_default", "toy"), [(27, 27, True), (28, 0, False)])
def test_a_toy_misreads_however_it_is_asked(right, by_default, toy):
    found = Rehearsal(40, right, by_default, 20, 20)
    assert found.is_toy is toy
    assert found.verdict.startswith("a toy: answers 27 of 40") is toy


def test_a_hopeless_model_is_asked_eight_questions():
    seen = []
    model = RehearsedModel(lambda item, shown: "the moon")
    found = rehearse(model, lambda done, total: seen.append((done, total)))
    assert model.asked == [(item, False) for item in TOLD[:8]]
    assert (found.told, found.far, found.near) == (8, 0, 0)
    assert found.verdict == "a toy: answers 0 of 8"
    assert seen == [(at, len(TOLD) + len(ITEMS)) for at in range(1, 9)]


def test_progress_comes_to_its_end():
    seen = []
    rehearse(RehearsedModel(mute), lambda done, total: seen.append(done / total))
    assert seen[-1] == 1.0
    assert len(seen) == len(TOLD) + len(ITEMS)


def test_what_does_not_fit_the_context_is_not_answered():
    model = RehearsedModel(knowing, context_length=120)
    found = rehearse(model)
    assert found.is_toy
    assert model.together == []


@pytest.mark.parametrize("joint", [True, False])
def test_a_random_model_is_a_toy_and_shares_no_pass_with_answers(tiny_model, monkeypatch, joint):
    def refused(*_):
        raise AssertionError("an answer's pass is asked for")

    def missing():
        raise MissingDependencyError

    if not joint:  # joint passes are a context of their own, too
        monkeypatch.setattr(rehearsing, "JointPasses", missing)
    token = shared_pass.set(refused)
    try:
        assert rehearse(tiny_model).verdict == "a toy: answers 0 of 8"
    finally:
        shared_pass.reset(token)


@pytest.mark.heavy
def test_without_greenlet_each_question_is_asked_by_itself(tiny_model, monkeypatch):
    def answers():
        found = {}
        monkeypatch.setattr(rehearsing, "_read", lambda *given: found.update(read(*given)) or found)
        rehearse(tiny_model)
        return found

    def missing():
        raise MissingDependencyError

    read = rehearsing._read
    together = answers()
    monkeypatch.setattr(rehearsing, "JointPasses", missing)
    assert answers() == together
    assert len(together) == 8


def test_public_documents_take_no_place_in_the_cache(tiny_model, tmp_path):
    rehearse(tiny_model.with_cache(PrefixCache(folder=tmp_path)))
    assert list(tmp_path.rglob("*.safetensors")) == []


@pytest.mark.parametrize(
    ("said", "silent"),
    [
        ("NOTHING", True),
        ("NOTHING.", True),
        ("**NOTHING**", True),
        ("NOTHING is said about it", True),
        ("Nothing is broken", False),
        ("The answer is NOTHING", False),
        ("NOTHINGNESS", False),
        ("", False),
    ],
)
def test_silence_is_one_word_in_capitals(said, silent):
    assert says_nothing(said) is silent
