"""Whether labels of a model may be tallied follows from what it says of public documents."""

import torch

from dpicl_rag.mechanisms.step import DenseStep
from dpicl_rag.rehearsal import labelling_of
from dpicl_rag.rehearsal.kept_rehearsals import LABELLING
from dpicl_rag.rehearsal.labelling import FORMS, labelling_version, listing, rehearse_labelling
from dpicl_rag.rehearsal.rehearsal_items import label_sets
from dpicl_rag.rehearsal.rehearsal_items import labelled_documents as documents
from tests.support.tiny_model import build_tiny_model


class Labeller:
    """A model that says the label so many places behind the one that fits."""

    context_length = 4096
    fingerprint = "labeller"

    def __init__(self, behind):
        self.tokenizer = build_tiny_model().tokenizer
        self.behind, self.asked = behind, []

    def digest(self, passages, most):
        return passages[0]

    def read(self, prefix, inputs, *, room, on_progress=None):
        return _Rows(self, inputs)


class _Rows:
    def __init__(self, model, inputs):
        self.model, self.inputs = model, inputs

    def extend(self, tokens):
        text = self.model.tokenizer.decode(tokens)
        [self.set] = [one for one in label_sets() if listing(one.question, one.fitting) in text]
        self.model.asked.append(self.set)

    def score(self, continuations):
        rows = torch.zeros(len(self.inputs), len(continuations))
        for row, text in zip(rows, self.inputs, strict=True):
            for at, names in enumerate(self.set.fitting.values()):
                if text in [documents()[name] for name in names]:
                    row[(at + self.model.behind) % len(row)] = 5.0
        rows = rows.log_softmax(dim=-1)
        return DenseStep(rows[0], rows[1:])


def test_a_model_that_is_always_right_may_tally():
    found, told = Labeller(0), []
    labels = rehearse_labelling(found, lambda *part: told.append(part))
    assert labels.countable
    assert min(labels.reading.yes.mean, labels.reading.no.mean) > 0.98
    assert told[-1] == (len(told), len(told)) == (len(found.asked), len(told))


def test_a_model_that_never_is_may_not():
    labels = rehearse_labelling(Labeller(1))
    assert not labels.countable
    assert labels.reading.yes.mean < 0.02


def test_a_document_fits_one_label_of_a_set_and_no_worked_example_is_asked():
    for one in label_sets():
        names = [name for some in one.fitting.values() for name in some]
        assert len(set(names)) == len(names)
        assert all(one.fitting.values())
        assert set(names) <= set(documents())
    assert not {shown.document for shown in FORMS["worked"].examples} & set(documents().values())


def test_the_default_model_is_known_and_may_not(default_model):
    assert LABELLING.packaged[0] == labelling_version()
    assert not labelling_of(default_model).countable
