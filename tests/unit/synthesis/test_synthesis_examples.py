"""`synthesise_examples`: what it refuses, what it charges, and what a kill leaves."""

import json
import math
import re
from collections import Counter
from pathlib import Path

import pytest
import torch

from dpicl_rag.accounting import Adjacency
from dpicl_rag.errors import BudgetExceededError, ConfigurationError
from dpicl_rag.ledger import Account, Ledger, Reservation
from dpicl_rag.mechanisms.randomness import Randomness, SeededRandomness
from dpicl_rag.synthesis import examples as examples_module
from dpicl_rag.synthesis import synthesis_run
from dpicl_rag.synthesis.examples import LabelledDocument, synthesise_examples
from dpicl_rag.synthesis.examples_plan import METHODS
from dpicl_rag.synthesis.pools import Batches, FreshSampleRows, fixed_size, poisson, pools
from dpicl_rag.synthesis.synthesis_run import read_run
from tests.support.speaking_model import SpeakingModel
from tests.support.tiny_model import build_tiny_model

LABELS = ["x", "y"]
SAMPLED = [method for method in METHODS if method != "exponential"]


def example(word, label="x", unit=None):
    return LabelledDocument(word, label, unit)


PRIVATE = [example(f"turn-{at % 3}", LABELS[at % 2], f"unit {at}") for at in range(12)]


def write(private=PRIVATE, labels=LABELS, **settings):
    given = {"epsilon": 2.0, "delta": 1e-2, "max_tokens": 3, "experts": 4} | settings
    return synthesise_examples(private, labels, model=SpeakingModel(5), **given)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"labels": None}, "public list"),
        ({"labels": "xy"}, "public list"),
        ({"labels": []}, "public list"),
        ({"labels": ["x", " "]}, "public list"),
        ({"labels": ["x", "x"]}, "twice"),
        ({"rate": "auto"}, "fixed beforehand"),
        ({"rate": True}, "fixed beforehand"),
        ({"rate": 0.0}, "rate"),
        ({"rate": 1.5}, "rate"),
        ({"method": "adaptive"}, "public rate"),
        ({"method": "few-shot", "adjacency": Adjacency.REPLACE_ONE}, "public rate"),
        ({"method": "exponential", "adjacency": Adjacency.REPLACE_ONE}, "add-or-remove"),
        ({"method": "exponential", "per_expert": 2}, "per_expert=1"),
        ({"method": "magic"}, "one of exponential"),
        ({"experts": 0}, "experts"),
        ({"labels_per_unit": 0}, "labels_per_unit"),
        ({"epsilon": 0}, "epsilon"),
        ({"delta": 0}, "delta"),
        (
            {
                "method": "few-shot-permute-and-flip",
                "adjacency": Adjacency.REPLACE_ONE,
                "rate": 0.5,
            },
            "no charge",
        ),
    ],
)
def test_what_is_refused_is_said_in_one_sentence(settings, words, tmp_path):
    with pytest.raises(ConfigurationError, match=words) as caught:
        write(folder=tmp_path / "run", **settings)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_a_seed_warns():
    with pytest.warns(UserWarning, match="not private"):
        Randomness.of(3)


@pytest.mark.parametrize("method", METHODS)
def test_a_small_or_empty_pool_is_no_error(method):
    for private in ([], PRIVATE[:1]):
        found = write(private, method=method, rate=0.5)
        assert [record.label for record in found.records] == LABELS
        assert all(record.tokens == 3 for record in found.records)


def test_what_does_not_fit_the_public_list_is_left_out_in_silence():
    private = [
        example("a b", "z", "one"),
        example("c", "y", "two"),
        example("d", "x", "two"),
        example("e\nf", "x", "three"),
        example(None, "x", "four"),
        example("g", "y"),
        example("g", "y"),
    ]
    one = pools(private, LABELS, 1)
    assert one["x"] == {"two": ("d",), "three": ("e f",)}
    assert sorted(one["y"].values()) == [("g",), ("g",)]
    both = pools(private, LABELS, 2)
    assert both["y"]["two"] == ("c",)
    # In another order of the public list, the unit keeps the other label.
    assert "two" in pools(private, LABELS[::-1], 1)["y"]


ODD = [["x"], {"x"}, {}, None, math.nan, 1, True, b"x", ("x",)]
"""What a label may be that is no name."""


@pytest.mark.parametrize("label", ODD, ids=lambda label: type(label).__name__)
def test_a_label_that_is_no_name_costs_its_own_record_alone(label):
    odd = example("an example without a name", label, "odd")
    assert pools([odd, *PRIVATE, odd], LABELS, 1) == pools(PRIVATE, LABELS, 1)


@pytest.mark.parametrize("unit", [*ODD, "\ud800"], ids=lambda unit: type(unit).__name__)
def test_a_unit_that_is_no_name_moves_no_other(unit):
    alone = pools(PRIVATE, LABELS, 1)
    found = pools([*PRIVATE, example("whose?", "x", unit)], LABELS, 1)
    assert alone["y"] == found["y"]
    assert alone["x"].items() <= found["x"].items()
    assert len(found["x"]) <= len(alone["x"]) + 1


def test_nothing_shows_what_is_private():
    shown = repr(
        [
            example("secret", "x", "unit"),
            FreshSampleRows(list, list),
            Batches(
                {"x": {"unit": ("secret",)}},
                texts=1,
                rate=None,
                rho=1.0,
                labels_per_unit=1,
                worst=1.0,
                key=b"k",
                account=Account(1.0, 1),
            ),
        ]
    )
    assert "secret" not in shown
    assert "unit" not in shown


@pytest.mark.filterwarnings("ignore::dpicl_rag.mechanisms.randomness.NotPrivateWarning")
def test_every_token_has_a_sample_of_its_own():
    pool = {str(at): (f"turn-{at}",) for at in range(40)}

    def samples(sampler, coins):
        return [frozenset(sampler(pool, coins)) for _ in range(6)]

    for sampler in (poisson(0.5, None), poisson(0.5, 4), fixed_size(20, 0.5, None)):
        assert len(set(samples(sampler, Randomness()))) == 6
        # The plant: a sampler that is seeded anew at every token, as AdaDPSyn's code does.
        again = [frozenset(sampler(pool, SeededRandomness(0))) for _ in range(6)]
        assert len(set(again)) == 1


def test_the_run_takes_its_samples_token_by_token(monkeypatch):
    read = []
    right = examples_module.read

    def noted(model, prompt, inputs, *, room):
        read.append(tuple(inputs))
        return right(model, prompt, inputs, room=room)

    monkeypatch.setattr(examples_module, "read", noted)
    many = [example(f"turn-{at}", "x", str(at)) for at in range(60)]
    write(many, ["x"], method="few-shot", rate=0.5, max_tokens=5)
    assert len(read) == 5
    assert len(set(read)) == 5
    read.clear()
    write(many, ["x"], method="few-shot", max_tokens=5)  # all of them: read once for a text
    assert [len(inputs) for inputs in read] == [60]


def test_samples_of_a_fixed_size_never_take_more_than_their_share():
    coins = Randomness()
    for units in (0, 3, 8, 20):
        pool = {str(at): (str(at),) for at in range(units)}
        joined = Counter()
        runs = 400
        for _ in range(runs):
            members = fixed_size(4, 0.5, None)(pool, coins)
            assert len(members) <= min(4, units)
            joined.update(word for (word,) in members)
        share = min(0.5, 4 / max(units, 1))
        for count in joined.values():
            assert count / runs <= share + 5 * math.sqrt(share / runs)
    assert sum(map(len, fixed_size(4, 0.5, 2)({str(i): ("a",) for i in range(9)}, coins))) == 4


def test_rows_of_fresh_samples_are_those_of_one_reading():
    model = build_tiny_model()
    prompt, inputs = [5, 6, 7], [model.digest((text,), 50) for text in ("public", "one", "two")]
    fresh = FreshSampleRows(
        lambda: inputs[1:], lambda own: model.read(prompt, [inputs[0], *own], room=9)
    )
    once = model.read(prompt, inputs, room=9)
    for tokens in ([8, 9, 10], [11], [12]):
        one, other = fresh.extend(tokens), once.extend(tokens)
        assert torch.allclose(one.rows, other.rows, atol=1e-4)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("method", METHODS)
def test_a_real_model_writes_with_every_method(method):
    private = [
        LabelledDocument(f"text number {at} about {LABELS[at % 2]}", LABELS[at % 2])
        for at in range(10)
    ]
    found = synthesise_examples(
        *(private, LABELS),
        **{"method": method, "epsilon": 4.0, "rate": 0.5, "experts": 3, "max_tokens": 4},
        **{"candidates": 20, "model": build_tiny_model(), "texts_per_label": 2},
    )
    assert [record.label for record in found.records] == [*LABELS, *LABELS]
    assert all(1 <= record.tokens <= 4 for record in found.records)
    assert (found.epsilon, found.delta) == (4.0, 1e-5)
    assert (found.rho is None) == (method != "exponential")


# The ledger.


@pytest.fixture
def ledger(tmp_path):
    with Ledger(tmp_path / "ledger.sqlite") as opened:
        opened.set_budget(corpus="mail", epsilon=2.0, delta=1e-2)
        yield opened


def spent(ledger):
    (status,) = ledger.status()
    return status.spent, status.remaining


@pytest.mark.parametrize("method", ["few-shot", "few-shot-permute-and-flip", "difference"])
@pytest.mark.parametrize("labels_per_unit", [1, 2])
def test_a_ledger_is_charged_for_as_many_labels_as_a_unit_has(ledger, method, labels_per_unit):
    found = write(method=method, ledger=ledger, corpus="mail", labels_per_unit=labels_per_unit)
    assert all(record.tokens == 3 for record in found.records)
    used, left = spent(ledger)
    # A budget of the same epsilon pays for the run, and for nothing more.
    assert used == pytest.approx(found.rho, abs=2e-9)
    assert left < 0.01 * used
    with pytest.raises(BudgetExceededError):
        write(method=method, ledger=ledger, corpus="mail", labels_per_unit=labels_per_unit)


def test_units_pay_for_what_they_reveal(ledger):
    found = write(ledger=ledger, corpus="mail", texts_per_label=2)
    used, _ = spent(ledger)
    assert 0 < used <= found.rho + 1e-9


def test_samples_have_no_charge_in_a_ledger(ledger):
    with pytest.raises(ConfigurationError, match="counts zCDP"):
        write(method="few-shot", rate=0.5, ledger=ledger, corpus="mail")


# A kill.


class Killed(Exception):
    pass


def killed_after(tokens, folder):
    def tell(done, texts):
        if sum(len(record.tokens) for record in read_run(folder).records.values()) == tokens:
            raise Killed

    return tell


@pytest.mark.one_in(5)
@pytest.mark.parametrize("method", ["exponential", "few-shot", "difference"])
@pytest.mark.parametrize("tokens", [0, 1, 3, 4, 7, 11])
def test_a_killed_run_goes_on_and_pays_for_nothing_twice(method, tokens, tmp_path, ledger):
    settings = {
        "method": method,
        "texts_per_label": 2,
        "folder": tmp_path / "run",
        "ledger": ledger,
        "corpus": "mail",
    }
    with pytest.raises(Killed):
        write(on_progress=killed_after(tokens, tmp_path / "run"), **settings)
    before = read_run(tmp_path / "run").records
    told = []
    found = write(on_progress=lambda *told_now: told.append(told_now), **settings)
    after = read_run(tmp_path / "run").records
    assert len(after) == 4
    for number, record in before.items():
        assert after[number].tokens == record.tokens
        if record.stopped_by is None:
            assert after[number].stopped_by == "interrupted"
    assert told[-1] == (4, 4)
    assert spent(ledger)[0] <= found.rho + 2e-9
    # What is finished costs nothing more, and needs no budget.
    again = write(**settings)
    assert again.records == found.records


class Kills:
    """Ends a run before or after a write to the journal or a commit to the ledger."""

    def __init__(self, at):
        self._at = at
        self._seen = 0

    def around(self, act):
        def acted(*given, **named):
            self._tick()
            act(*given, **named)
            self._tick()

        return acted

    def _tick(self):
        self._seen += 1
        if self._seen == self._at:
            raise Killed


@pytest.mark.one_in(3)
@pytest.mark.guard
@pytest.mark.heavy
@pytest.mark.parametrize("method", ["exponential", "few-shot"])
def test_a_kill_beside_any_write_or_commit_loses_no_charge(method, tmp_path, monkeypatch):
    settings = {"method": method, "texts_per_label": 2, "max_tokens": 2, "corpus": "mail"}
    right = synthesis_run.write_line, Reservation.commit

    def killed(folder, ledger, at):
        """Whether the run was killed, at an event that it had."""
        kills = Kills(at)
        monkeypatch.setattr(synthesis_run, "write_line", kills.around(right[0]))
        monkeypatch.setattr(Reservation, "commit", kills.around(right[1]))
        try:
            write(folder=folder, ledger=ledger, **settings)
        except Killed:
            return True
        finally:
            monkeypatch.setattr(synthesis_run, "write_line", right[0])
            monkeypatch.setattr(Reservation, "commit", right[1])
        return False

    for at in range(1, 200):
        folder = tmp_path / str(at)
        with Ledger(folder / "ledger.sqlite") as ledger:
            ledger.set_budget(corpus="mail", epsilon=2.0, delta=1e-2)
            if not killed(folder / "run", ledger, at):
                break
            seen = read_run(folder / "run").records
            lanes = [sum(len(seen[n].tokens) for n in seen if n % 2 == lane) for lane in (0, 1)]
            paid = spent(ledger)[0]
            found = write(folder=folder / "run", ledger=ledger, **settings)
            if method == "few-shot":  # 4 tokens side by side, each a fourth of the budget
                a_token = found.rho / 4
                assert round(paid / a_token) - max(lanes) in (0, 1)
            assert paid - 1e-9 <= spent(ledger)[0] <= found.rho + 2e-9
            assert all(record.stopped_by is not None for record in found.records)
    assert 20 < at < 199


def test_the_guides_example_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("dpicl_rag.language_models.defaults.default_model", SpeakingModel)
    guide = Path(__file__).parents[3] / "docs" / "synthesis.md"
    examples = re.findall(r"^```python\n(.*?)^```$", guide.read_text(), re.M | re.S)
    (code,) = (code for code in examples if "synthesise_examples" in code)
    exec(code, {"run_folder": tmp_path / "run"})
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [
        *("World", "Business"),
        *("World", "Business"),
    ]


def test_another_plan_in_the_folder_is_refused(tmp_path):
    write(method="few-shot", folder=tmp_path / "run")
    with pytest.raises(ConfigurationError, match="another plan"):
        write(method="few-shot", folder=tmp_path / "run", experts=5)


def test_the_folder_says_nothing_of_the_private_texts(tmp_path):
    secret = [example(f"secret{at} turn-1", "x", f"who{at}") for at in range(7)]
    write(secret, method="few-shot", rate=0.5, folder=tmp_path / "run")
    for file in (tmp_path / "run").iterdir():
        content = file.read_bytes()
        assert b"secret" not in content
        assert b"who" not in content
    settings = json.loads((tmp_path / "run" / "plan.json").read_text())["settings"]
    assert 7 not in settings.values()


def test_batches_are_a_units_own_and_disjoint():
    def batches(units):
        pool = dict.fromkeys(units, ("text",))
        return Batches(
            {"x": pool},
            texts=3,
            rate=0.7,
            rho=1.0,
            labels_per_unit=1,
            worst=0.1,
            key=b"key",
            account=Account(1.0, len(pool)),
        )

    units = [f"unit {at}" for at in range(200)]
    all_of_them, without = batches(units), batches(units[1:])
    found = [set(all_of_them.members("x", text)) for text in range(3)]
    assert not found[0] & found[1] | found[0] & found[2] | found[1] & found[2]
    assert 110 <= sum(map(len, found)) <= 170
    for text in range(3):
        assert set(without.members("x", text)) == found[text] - {units[0]}
