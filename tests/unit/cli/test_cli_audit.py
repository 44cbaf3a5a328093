from __future__ import annotations

import json
from functools import partial

import pytest

from dpicl_rag import auditing
from dpicl_rag.accounting import calibration
from dpicl_rag.accounting.stability import Stability
from dpicl_rag.auditing.attacks import QUESTIONS
from tests.support.tiny_model import build_tiny_model

QUICK = ("--units", "2", "--tokens", "2", "--runs", "4", "--max-tokens", "2")


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Little of what the command has no option for: parts are looked at in tests of their own."""
    less = {
        "audit_agreement": {"runs": 4},
        "audit_near_ties": {"copies": 4},
        "audit_extraction": {"questions": QUESTIONS[:1]},
    }
    for name, sizes in less.items():
        monkeypatch.setattr(auditing, name, partial(getattr(auditing, name), **sizes))


@pytest.fixture(autouse=True)
def short_context(monkeypatch):
    """A model of its own: the audit asks longer questions than others do."""
    model = build_tiny_model(max_position_embeddings=4096)
    monkeypatch.setattr("dpicl_rag.language_models.defaults.default_model", lambda: model)


@pytest.mark.heavy
def test_a_corpus_is_audited_and_the_figures_stand_in_order(cli, mail, secret):
    shown = cli("audit", "--corpus", mail, "--threshold", "-1", *QUICK)
    assert shown.exit_code == 0, shown.output
    assert "within the claim" in shown.output
    at = [shown.output.index(name) for name in ("claimed eps", "exact worst", "empirical lower")]
    assert at == sorted(at)
    assert secret not in shown.output


@pytest.mark.heavy
def test_json_has_the_figures_and_nothing_else(cli, mail, secret):
    # Without a threshold: the search that questions use, whose noise follows from their budget.
    shown = cli("audit", "--corpus", mail, "--json", "--question", f"The code is {secret}", *QUICK)
    found = json.loads(shown.stdout)
    assert found["holds"] is True
    assert found["claimed_epsilon"] == 8.0
    assert found["empirical_lower_bound"] <= found["exact_worst_case"] <= 8.0
    assert found["charge_used_by_worst_experts"] > 0.8
    assert 0.0 < found["near_tie_claim_used"] <= 1.0
    assert secret not in shown.output


@pytest.mark.heavy
def test_a_path_and_a_report(cli, home, secret):
    source = home / "notes.jsonl"
    source.write_text("".join(json.dumps({"text": f"{secret} {n}"}) + "\n" for n in range(3)))
    shown = cli("audit", str(source), "--out", str(home / "report"), *QUICK)
    assert shown.exit_code == 0, shown.output
    assert (home / "report" / "audit.png").stat().st_size > 1000
    assert secret not in (home / "report" / "audit.txt").read_text()


PARTS = ("synthetic", "agreement", "near_ties", "neighbours", "canary", "extraction", "channels")


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore::dpicl_rag.mechanisms.randomness.NotPrivateWarning")
def test_an_audit_that_is_stopped_says_what_it_has_and_goes_on(cli, mail, home, monkeypatch):
    """Interrupted in every part; the report is that of an audit which was not."""
    made = auditing.Subject
    monkeypatch.setattr(
        auditing,
        "Subject",
        lambda model, question, settings: made(model, question, {**settings, "seed": 3}),
    )
    words = ("audit", "--corpus", mail, *QUICK)
    assert cli(*words, "--out", str(home / "once")).exit_code == 0
    stopped = ("--out", str(home / "stopped"))
    ran = []
    for at, name in enumerate(PARTS):
        with monkeypatch.context() as patch:
            for part in PARTS:
                run = getattr(auditing, f"audit_{part}")
                patch.setattr(auditing, f"audit_{part}", part_that(run, part, name, ran))
            shown = cli(*words, *stopped)
        assert shown.exit_code == 130, shown.output
        assert "goes on after the last part" in shown.stderr
        assert ("unfinished" in shown.stdout) == bool(at)
        assert "within the claim" not in shown.output
    shown = cli(*words, *stopped)
    assert shown.exit_code == 0, shown.output
    assert "going on after 6 of 7 parts" in shown.stderr
    assert ran == list(PARTS[:-1])
    for name in ("audit.txt", "summary.json"):
        assert (home / "stopped" / name).read_text() == (home / "once" / name).read_text()
    assert (home / "stopped" / "audit.png").exists()


def part_that(run, part, stops, ran):
    def audited(*given, **options):
        if part == stops:
            raise KeyboardInterrupt
        ran.append(part)
        return run(*given, **options)

    return audited


@pytest.mark.heavy
def test_an_audit_of_another_question_begins_anew(cli, mail, home, monkeypatch):
    out = ("--out", str(home / "report"))
    with monkeypatch.context() as patch:
        patch.setattr(auditing, "audit_near_ties", part_that(None, "x", "x", []))
        assert cli("audit", "--corpus", mail, *QUICK, *out).exit_code == 130
    assert (home / "report" / "audit.txt").exists()
    shown = cli("audit", "--corpus", mail, "--question", "What is the code?", *QUICK, *out)
    assert shown.exit_code == 0, shown.output
    assert "going on" not in shown.output
    assert json.loads((home / "report" / "summary.json").read_bytes())["whole"]


@pytest.fixture
def own_calibrations():
    """What is calibrated by a fault is kept for no other test, nor the other way round."""
    kept = [one for one in vars(calibration).values() if hasattr(one, "cache_clear")]
    for one in kept:
        one.cache_clear()
    yield
    for one in kept:
        one.cache_clear()


@pytest.mark.heavy
@pytest.mark.usefixtures("own_calibrations")
def test_a_claim_that_does_not_hold_is_an_exit_status(cli, mail, monkeypatch):
    honest = Stability.factor
    monkeypatch.setattr(Stability, "factor", lambda self, adjacency: honest(self, adjacency) / 2)
    monkeypatch.setattr("dpicl_rag._validate.count", lambda name, value: value)
    shown = cli(
        "audit", "--corpus", mail, "--threshold", "-1", "--accounting", "fixed", "--json", *QUICK
    )
    assert shown.exit_code == 1
    assert json.loads(shown.stdout)["holds"] is False


@pytest.mark.parametrize("words", [(), ("notes.jsonl", "--corpus", "mail")])
def test_a_path_or_a_corpus_is_needed(cli, words):
    shown = cli("audit", *words)
    assert shown.exit_code == 2
    assert "--corpus" in shown.output


@pytest.mark.parametrize("option", ["--threshold", "--path", "--embedder"])
def test_what_goes_with_a_corpus_is_refused_beside_a_path(cli, option):
    shown = cli("audit", "notes.jsonl", option, "0.5")
    assert shown.exit_code == 2
    assert f"{option}: it goes only with --corpus" in " ".join(shown.output.split())


def test_a_store_of_the_environment_is_no_option(cli, home, monkeypatch):
    monkeypatch.setenv("DPICL_RAG_STORE", str(home / "store"))
    shown = cli("audit", str(home / "none.jsonl"))
    assert shown.exit_code == 1
    assert "does not exist" in shown.output


def test_a_bad_setting_is_one_line(cli, mail):
    shown = cli("audit", "--corpus", mail, "--epsilon", "0")
    assert shown.exit_code == 1
    assert shown.output.count("\n") == 1


def test_an_unknown_corpus_is_one_line(cli):
    shown = cli("audit", "--corpus", "nothing")
    assert shown.exit_code == 1
    assert "no corpus named" in shown.output
