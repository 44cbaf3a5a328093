import torch

from benchmarks.shared_reading import KeptWords, SharedModel
from dpicl_rag.language_models.base import BlockRows
from dpicl_rag.mechanisms.step import DenseStep

DOCUMENTS = ["the code is 4471", "the code is 4471, says Ida", "lunch is at noon"]


def rows(model, texts, *tokens):
    """What the rows of some documents predict after each of several pieces."""
    inputs = [model.digest((text,), 64) for text in ("(none)", *texts)]
    read = model.read((5, 6, 7), inputs, room=32)
    steps = [read.extend(piece) for piece in tokens]
    assert all(len(step.public) for step in steps)  # somebody looks
    return steps


def same(steps, others):
    return all(
        torch.equal(a.public, b.public) and torch.equal(a.experts, b.experts)
        for a, b in zip(steps, others, strict=True)
    )


def near(steps, others):
    """Tokens of one piece, read as two, move last bits on some processors: pieces are public."""
    return all(
        torch.allclose(a.public, b.public, atol=1e-4)
        and torch.allclose(a.experts, b.experts, atol=1e-4)
        for a, b in zip(steps, others, strict=True)
    )


def same_experts(steps, others):
    """The public row is read alone, which moves its last bits; an expert's do not move."""
    pairs = list(zip(steps, others, strict=True))
    return near(steps, others) and all(torch.equal(a.experts, b.experts) for a, b in pairs)


def test_rows_are_those_of_the_model_whoever_has_asked_before(tiny_model):
    shared = SharedModel(tiny_model)
    runs = [
        (DOCUMENTS, ((1, 2, 3), (4,), (9,))),
        (DOCUMENTS[:1], ((1, 2, 3), (4,), (8,))),
        (DOCUMENTS[::-1], ((1, 2, 3), (4,), (9,), (7,))),
        ([], ((1, 2), (3,))),
    ]
    for texts, tokens in runs:
        assert near(rows(shared, texts, *tokens), rows(tiny_model, texts, *tokens))


def test_what_was_read_is_not_read_again_until_it_is_forgotten(tiny_model, monkeypatch):
    shared, read = SharedModel(tiny_model), []
    monkeypatch.setattr(tiny_model, "_read", spy(tiny_model._read, read))
    first = rows(shared, DOCUMENTS, (1, 2))
    assert len(read) == 2  # the public row and the experts
    assert same(rows(shared, DOCUMENTS[1:], (1, 2)), [subset(first[0], slice(1, None))])
    assert len(read) == 2
    shared.forget()
    assert same(rows(shared, DOCUMENTS, (1, 2)), first)
    assert len(read) == 4


def test_a_block_can_be_read_and_forgotten(tiny_model):
    shared = SharedModel(tiny_model)
    inputs = [shared.digest((text,), 64) for text in ("(none)", *DOCUMENTS)]
    read = shared.read((5, 6, 7), inputs, room=32)
    assert isinstance(read, BlockRows)
    steps = read.extend_each((1, 2, 3, 4), 2)
    assert same(steps, rows(shared, DOCUMENTS, (1, 2, 3), (4,)))
    read.rewind(4)
    assert same([read.extend((1, 2, 3))], steps[:1])


def test_who_needs_more_room_has_it(tiny_model):
    shared, tokens = SharedModel(tiny_model), (1, 2, 3, 4, 5)
    inputs = [shared.digest((text,), 64) for text in ("(none)", *DOCUMENTS)]
    for room in (2, 5):
        read = shared.read((5, 6, 7), inputs, room=room)
        assert same_experts([read.extend(tokens[:room])], rows(shared, DOCUMENTS, tokens[:room]))


def test_experts_that_favour_their_own_words_are_kept_apart(tiny_model):
    shared = SharedModel(tiny_model)
    plain = rows(shared, DOCUMENTS, (1, 2))
    biased = rows(shared.copying(2.0), DOCUMENTS, (1, 2))
    assert same_experts(biased, rows(tiny_model.copying(2.0), DOCUMENTS, (1, 2)))
    assert not near(biased, plain)


def said(model, texts, asked=None):
    """What the rows of some documents go on with."""
    inputs = [model.digest((text,), 64) for text in ("(none)", *texts)]
    read = model.read((5, 6, 7), inputs, room=32)
    return read.continue_each((1, 2, 3), 6, asked or [True] * len(texts))


def test_what_experts_said_is_read_from_a_file(tiny_model, tmp_path, monkeypatch):
    file, read = tmp_path / "words.jsonl", []
    first = said(SharedModel(tiny_model, KeptWords(file)), DOCUMENTS)
    assert first == said(tiny_model, DOCUMENTS)
    monkeypatch.setattr(tiny_model, "_read", spy(tiny_model._read, read))
    again = SharedModel(tiny_model, KeptWords(file))
    assert said(again, DOCUMENTS[::-1]) == first[::-1]
    assert not read
    new = said(again, [*DOCUMENTS[:1], "the door is green"])
    assert new[0] == first[0]
    assert len(read) == 1  # the new one
    assert len(file.read_text("utf-8").splitlines()) == 4


def test_half_a_line_of_a_killed_process_is_cut(tiny_model, tmp_path):
    file = tmp_path / "words.jsonl"
    first = said(SharedModel(tiny_model, KeptWords(file)), DOCUMENTS)
    whole = file.read_bytes()
    file.write_bytes(whole[:-20])
    assert said(SharedModel(tiny_model, KeptWords(file)), DOCUMENTS) == first
    assert file.read_bytes() == whole


def test_labels_are_as_likely_as_to_the_model_and_kept(tiny_model, tmp_path, monkeypatch):
    file, read = tmp_path / "words.jsonl", []
    first = likely(SharedModel(tiny_model, KeptWords(file)), DOCUMENTS)
    own = likely(tiny_model, DOCUMENTS)
    assert torch.equal(first.experts, own.experts)
    assert torch.allclose(first.public, own.public, atol=1e-4)  # read alone
    monkeypatch.setattr(tiny_model, "_read", spy(tiny_model._read, read))
    again = SharedModel(tiny_model, KeptWords(file))
    assert torch.equal(likely(again, DOCUMENTS).experts, own.experts)
    assert len(read) == 1  # the public row
    assert said(again, DOCUMENTS) == said(tiny_model, DOCUMENTS)
    some = [likely(one, DOCUMENTS[:2], (4, 5)).experts for one in (again, tiny_model)]
    assert torch.equal(*some)


def likely(model, texts, suffix=(1, 2, 3)):
    """How likely two labels are to the rows of some documents."""
    inputs = [model.digest((text,), 64) for text in ("(none)", *texts)]
    read = model.read((5, 6, 7), inputs, room=32)
    read.extend(suffix)
    return read.score([(8,), (9, 4)])


def test_words_are_kept_by_what_experts_read_and_favour(tiny_model, tmp_path):
    words = KeptWords(tmp_path / "words.jsonl")
    shared = SharedModel(tiny_model, words)
    plain = said(shared, DOCUMENTS)
    assert said(shared.copying(2.0), DOCUMENTS) == said(tiny_model.copying(2.0), DOCUMENTS)
    assert said(shared.copying(2.0), DOCUMENTS) != plain
    one, nothing, _ = said(shared, DOCUMENTS, [True, False, False])
    assert one == plain[0]
    assert nothing.tokens == ()


def spy(function, calls):
    def called(*arguments, **named):
        calls.append(arguments)
        return function(*arguments, **named)

    return called


def subset(step, some):
    return DenseStep(step.public, step.experts[some])
