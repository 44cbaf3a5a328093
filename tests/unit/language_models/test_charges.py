"""One unit moves an answer by no more than it is charged, in models that look at whole passes.

Sixty experts read short notes. The question leaves them just enough room, so that only the
newcomer's document crosses a limit of the model, or changes the scale of a quantised pass.
"""

import copy
import math
import warnings

import pytest
import torch

from dpicl_rag.auditing.near_ties import exact_rho
from dpicl_rag.errors import ModelError
from dpicl_rag.language_models.transformers import TransformersModel
from dpicl_rag.mechanisms.selection import ExponentialMechanism
from dpicl_rag.mechanisms.utilities import LogProb, LogRatio, Surplus

RHO = 0.102
LIMIT = 96
PREFIX, PUBLIC = "Answer from the note.\n\nNote: ", "(none)"
QUESTION = "\n\n" + "Read the note. " * 8 + "What is it cleaned with?\n\nIt is cleaned with warm"
SHORT = "the pump is cleaned with warm vinegar"
LONG = "The weather was fine, and nobody came to the depot. " * 20


def with_long_rope(model):
    """The same weights; all factors change where the longest row of a pass crosses the limit."""
    half = model.config.hidden_size // model.config.num_attention_heads // 2
    config = copy.deepcopy(model.config)
    config.rope_parameters = {
        "rope_type": "longrope",
        "rope_theta": config.rope_parameters["rope_theta"],
        "original_max_position_embeddings": LIMIT,
        "short_factor": [1.0] * half,
        "long_factor": [8.0] * half,
    }
    other = type(model)(config)
    other.load_state_dict(model.state_dict())
    return other


def quantised(model):
    """Dynamic int8: one scale for all tokens of a pass."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch moves this function to another package
        return torch.ao.quantization.quantize_dynamic(
            copy.deepcopy(model), {torch.nn.Linear}, torch.qint8
        )


def drawn_from(model, texts, mechanism):
    """Log-probabilities of the first token, float64 [vocabulary]."""
    prefix, question = model.tokenizer.encode(PREFIX), model.tokenizer.encode(QUESTION)
    room = len(question) + 1
    most = min(250, model.context_length - len(prefix) - room)
    inputs = [model.digest([text], most) for text in (PUBLIC, *texts)]
    rows = model.read(prefix, inputs, room=room)
    rows.extend(question[:-1])
    step = rows.extend(question[-1:])  # all rows in one pass
    return torch.log_softmax(mechanism.scores(step), dim=-1)


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("build", "utility"),
    [
        (with_long_rope, Surplus()),
        (with_long_rope, LogRatio(1.0)),
        (with_long_rope, LogProb(4.0)),
    ],
)
def test_a_newcomer_moves_an_answer_by_its_charge_at_most(build, utility, float32_model):
    mechanism = ExponentialMechanism(utility, math.sqrt(8 * RHO) / utility.range)
    assert mechanism.rho == pytest.approx(RHO)
    model = wrapped(build(float32_model._model), float32_model)
    corpus = [f"Note {n % 7}: {SHORT}." for n in range(60)]
    without = drawn_from(model, corpus, mechanism)
    joined = drawn_from(model, [*corpus, LONG], mechanism)
    assert 0 < exact_rho(without, joined) <= RHO * (1 + 1e-9)


@pytest.mark.heavy
def test_a_model_whose_scale_changes_with_what_it_reads_is_refused(float32_model):
    """Its rows moved by a rho of 4.4 where 0.102 was charged."""
    mechanism = ExponentialMechanism(LogProb(4.0), 0.2)
    with pytest.raises(ModelError, match="quantisation"):
        drawn_from(wrapped(quantised(float32_model._model), float32_model), [SHORT], mechanism)


def wrapped(inner, loaded):
    return TransformersModel(inner, loaded.tokenizer._tokenizer)


@pytest.fixture(scope="module")
def float32_model():
    from dpicl_rag.language_models.defaults import default_model

    return default_model("float32")
