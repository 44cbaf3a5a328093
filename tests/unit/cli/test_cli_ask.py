"""`ask` and `classify`: answers, what they spent, and what goes wrong."""

from __future__ import annotations

import inspect
import json
import re
import signal
import typing

import pytest

from dpicl_rag import configuration
from dpicl_rag.accounting import bounded_range_to_rho, epsilon_to_rho
from dpicl_rag.answering.decoding import decode
from dpicl_rag.cli import ask as room
from dpicl_rag.cli import data_folder
from dpicl_rag.errors import EngineUnavailableError
from dpicl_rag.language_models.transformers import TransformersModel
from dpicl_rag.language_models.transformers_rows import TransformersRows
from dpicl_rag.private_context_llm import PrivateContextLLM
from dpicl_rag.results import UNSUPPORTED
from dpicl_rag.retrieval import (
    NoisyThreshold,
    NoisyTopK,
    Threshold,
    TopK,
)
from tests.support.command_line import unwrapped
from tests.support.failing_engine import FailingEngine
from tests.support.tiny_model import build_tiny_model

ANSWER_FIELDS = [
    "kind",
    "answer",
    "epsilon",
    "delta",
    "rho",
    "tokens",
    "stopped_by",
    "supported",
    "from_memory",
    "recalled",
    "by",
    "agreeing",
    "agreeing_within",
    "parts",
    "released",
]

# Nothing is charged but draws.
PLAIN = ("--threshold", "0.5", "--unsupported", "ignore")


def test_json_is_one_object_with_the_fields_of_an_answer(cli, mail, endless):
    words = ("--max-tokens", "4", "--agreement", "off", "--json")
    result = cli("ask", "What is the code?", "--corpus", mail, *words)
    assert result.exit_code == 0
    assert result.stdout.count("\n") == 1
    answer = json.loads(result.stdout)
    assert list(answer) == ANSWER_FIELDS
    assert (answer["epsilon"], answer["delta"]) == (8.0, 1e-5)
    assert answer["rho"] == pytest.approx(epsilon_to_rho(8.0, 1e-5))
    assert answer["tokens"] == 4
    assert result.stderr == ""


def test_an_answer_is_shown_whole_and_ends_with_what_it_spent(cli, mail, monkeypatch):
    streams = []
    drain = room._drain

    def keep(stream, *rest, **options):
        streams.append(stream)
        drain(stream, *rest, **options)

    monkeypatch.setattr(room, "_drain", keep)
    words = ("--max-tokens", "8", "--epsilon", "1", "--agreement", "auto", "--quiet")
    result = cli("ask", "What is the code?", "--corpus", mail, *words)
    assert result.exit_code == 0
    (stream,) = streams
    assert stream.answer.supported is False
    shown, line, spent, unlimited = result.stdout.rstrip("\n").rsplit("\n", 3)
    assert line.startswith("not supported by the documents: what the model says by itself. For an")
    assert re.search(r"at epsilon 1 about \d+ units must state the same: ask for one fact", line)
    assert shown.strip() == room.console.printable(stream.answer.text).strip()
    assert spent.startswith("spent: epsilon 1, delta 1e-05, rho 0.0")
    assert spent.endswith(f"{stream.answer.tokens} tokens, stopped by {stream.answer.stopped_by}")
    assert unlimited.startswith("no budget is set, so nothing bounds all answers together")


def test_an_answer_without_a_word_says_that_documents_do_not_say(cli, mail):
    assert cli("budget", "set", "--corpus", mail, "--epsilon", "20").exit_code == 0
    result = cli("ask", "Who was it?", "--corpus", mail, "--epsilon", "1", "--quiet")
    said, helps, spent = result.stdout.rstrip("\n").split("\n")
    assert said == UNSUPPORTED
    assert helps.startswith("For an answer at epsilon 1 about ")
    assert spent.startswith("spent: ")  # and no word of a budget, which is set


def test_pieces_are_printed_as_they_come_after_the_prefix(cli, mail, monkeypatch, endless):
    written = []
    monkeypatch.setattr(room.console, "write_piece", written.append)
    words = ("--max-tokens", "8", "--prefix", "The code is", "--epsilon", "1")
    drawn = ("--agreement", "auto")
    assert cli("ask", "What is the code?", "--corpus", mail, *words, *drawn).exit_code == 0
    # Documents are read between the prefix and the first token: no bar may cut the line there.
    assert written[0].startswith("The code is")
    assert written[0] != "The code is"
    assert len(written) > 2
    assert written[-1].endswith("\n")


def test_the_settings_reach_the_answer(cli, mail, monkeypatch):
    seen = {}

    def begin(self, request, retriever, **_):
        seen.update(config=self.config, template=self.template, retriever=retriever)
        raise KeyboardInterrupt

    monkeypatch.setattr(PrivateContextLLM, "begin", begin)
    options = "--epsilon 2 --delta 1e-6 --max-tokens 7 --top-k 3 --accounting fixed --utility vote"
    words = [*options.split(), "--unit-tokens", "99", "--prefix", "So"]
    cli("ask", "What?", "--corpus", mail, *words)
    config = seen["config"]
    assert (config.epsilon, config.delta, config.max_tokens) == (2.0, 1e-6, 7)
    assert (config.accounting, config.utility, config.unit_tokens) == ("fixed", "vote", 99)
    assert seen["template"].answer_prefix == "So"
    assert seen["retriever"].bar == TopK(3)
    cli("ask", "What?", "--corpus", mail, "--threshold", "0.25")
    assert seen["retriever"].bar == Threshold(0.25)


@pytest.fixture(params=["ask", "classify"])
def search(request, cli, mail, monkeypatch):
    """Ask with some options; returns the retriever that was made, and the configuration."""

    def run(*words):
        seen = []

        def stop(self, question, retriever, *_, **__):
            seen[:] = retriever, self.config
            raise KeyboardInterrupt

        monkeypatch.setattr(PrivateContextLLM, "begin", stop)
        monkeypatch.setattr(PrivateContextLLM, "classify", stop)
        labels = ("--label", "yes", "--label", "no") if request.param == "classify" else ()
        assert cli(request.param, "What?", "--corpus", mail, *labels, *words).exit_code == 130
        return seen

    return run


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("words", "bar"),
    [
        ((), NoisyThreshold(64)),
        (("--units", "20"), NoisyThreshold(20)),
        (("--threshold", "0.5"), Threshold(0.5)),
        (("--threshold", "0"), Threshold(0.0)),
        (("--top-k", "3"), TopK(3)),
        (("--private-top-k", "6"), NoisyTopK(6)),
    ],
)
@pytest.mark.parametrize("sample", [None, 0.25])
def test_every_search_is_reached(search, words, bar, sample):
    found, _ = search(*words, *(() if sample is None else ("--sample", str(sample))))
    assert (found.bar, found.thin_to, found.rate) == (bar, None, sample or 1.0)


def test_delta_reaches_answers_and_labels(search):
    assert search("--delta", "1e-6")[1].delta == 1e-6
    assert search()[1].delta == 1e-5


def test_the_ledger_records_the_corpus_and_the_caller(cli, mail, spending, endless):
    words = ("--corpus", mail, "--caller", "ann", "--max-tokens", "2", "--agreement", "off")
    assert cli("ask", "What is the code?", *words).exit_code == 0
    assert spending(mail).spent == pytest.approx(epsilon_to_rho(8.0, 1e-5))
    assert spending("ann", "caller").questions == 1


def test_a_private_threshold_is_part_of_the_answer_and_paid_for(cli, mail, secret, spending):
    words = ("--corpus", mail, "--units", "2", "--max-tokens", "2", "--json")
    shown = cli("ask", "What is the code?", *words)
    assert shown.exit_code == 0, shown.output
    found = json.loads(shown.stdout)
    assert 0.04 < found["rho"] <= epsilon_to_rho(8.0, 1e-5) * (1 + 1e-9)
    assert spending(mail).spent == pytest.approx(found["rho"], rel=1e-6)
    assert secret not in shown.output


@pytest.mark.parametrize("way", ["--units", "--private-top-k"])
def test_a_label_after_a_private_search_pays_for_both(cli, mail, secret, spending, way):
    words = ("--label", "yes", "--label", "no", way, "2", "--delta", "1e-6", "--json")
    shown = cli("classify", "What is the code?", "--corpus", mail, *words)
    assert shown.exit_code == 0, shown.output
    found = json.loads(shown.stdout)
    assert found["delta"] == 1e-6
    assert found["rho"] > 0.05
    assert spending(mail).spent == pytest.approx(found["rho"], rel=1e-6)
    assert secret not in shown.output


def test_a_unit_budget_below_the_private_threshold_is_one_public_line(cli, mail):
    words = ("--corpus", mail, "--rho", "5", "--unit-rho", "0.01")
    assert cli("budget", "set", *words).exit_code == 0
    shown = cli("ask", "What is the code?", "--corpus", mail, "--units", "2")
    assert shown.exit_code == 1
    assert shown.stderr.startswith("error: the search costs a unit rho 0.03")
    assert "0.01" in shown.stderr


def test_a_plan_is_printed_before_anything_is_loaded_searched_or_paid(cli, mail, monkeypatch):
    monkeypatch.setattr("dpicl_rag.language_models.defaults.default_model", None)
    assert cli("budget", "set", "--corpus", mail, "--rho", "5").exit_code == 0
    before = data_folder.default_ledger().read_bytes()
    words = ("ask", "What is the code?", "--corpus", mail, "--epsilon", "4", "--plan")
    shown = cli(*words)
    assert shown.exit_code == 0
    for part in ("search", "support", "words", "whole", "epsilon 4, delta 1e-05"):
        assert part in shown.stdout
    assert "documents must say the same" in shown.stdout
    assert "the budget has rho 5 left" in shown.stdout
    numbers = json.loads(cli(*words, "--json").stdout)
    assert numbers["rho"] == pytest.approx(epsilon_to_rho(4.0, 0.75e-5))  # a quarter is the pool's
    assert numbers["answers_left"] == int(5 / numbers["rho"])
    parts = [numbers[f"{part}_rho"] for part in ("search", "support", "agreement", "tokens")]
    assert sum(parts) == pytest.approx(numbers["rho"])
    assert json.loads(cli(*words, "--json", "--no-ledger").stdout)["budget_left"] is None
    assert data_folder.default_ledger().read_bytes() == before


def test_without_a_ledger_nothing_is_recorded_and_the_line_says_so(cli, mail):
    result = cli("ask", "What?", "--corpus", mail, "--max-tokens", "2", "--no-ledger")
    assert "(not recorded)" in result.stdout
    assert not data_folder.default_ledger().exists()


def test_a_named_ledger_is_used_alone(cli, mail, home):
    own = home / "own.sqlite"
    result = cli("ask", "What?", "--corpus", mail, "--max-tokens", "2", "--ledger", str(own))
    assert result.exit_code == 0
    assert own.exists()
    assert not data_folder.default_ledger().exists()


def test_classify_prints_the_label_and_what_it_spent(cli, mail):
    words = ("--label", "yes", "--label", "no", "--epsilon", "2", "--threshold", "0.5")
    result = cli("classify", "Is there a code?", "--corpus", mail, *words)
    assert result.exit_code == 0
    label, spent, unlimited = result.stdout.splitlines()
    assert label in {"yes", "no"}
    assert spent == f"spent: epsilon 2, delta 0, rho {bounded_range_to_rho(2.0):.4g}"
    assert unlimited.startswith("no budget is set")


def test_classify_json(cli, mail):
    words = ("--label", "yes", "--label", "no", "--json")
    result = cli("classify", "Is there a code?", "--corpus", mail, *words)
    assert list(json.loads(result.stdout)) == ["label", "epsilon", "delta", "rho"]


def test_without_delta_set_apart_only_agreement_is_refused_in_one_line(cli, mail, home):
    none = ("--thresholds", "0")
    assert cli("budget", "set", "--corpus", mail, "--epsilon", "50", *none).exit_code == 0
    words = ("--max-tokens", "4", "--agreement", "only")
    result = cli("ask", "What is the code?", "--corpus", mail, *words)
    assert result.exit_code
    assert "--thresholds" in result.stderr
    assert "Traceback" not in result.output


def test_answers_by_agreement_take_delta_from_the_budget(cli, mail, home):
    given = ("--epsilon", "50", "--thresholds", "0.5")
    assert cli("budget", "set", "--corpus", mail, *given).exit_code == 0
    words = ("--max-tokens", "4", "--agreement", "only", "--json")
    found = json.loads(cli("ask", "What is the code?", "--corpus", mail, *words).stdout)
    assert found["answer"] == "The documents do not say."
    assert (found["by"], found["agreeing"], found["supported"]) == (None, None, False)
    (row,) = json.loads(cli("budget", "show", "--corpus", mail, "--json").stdout)["budgets"]
    # Of the half of delta that is set apart for thresholds an answer takes a two-hundredth at most.
    assert row["threshold_delta_spent"] <= 0.5e-5 / 200
    assert row["threshold_delta"] == pytest.approx(0.5e-5)


def test_an_empty_corpus_is_answered_by_the_ordinary_path(cli, home):
    from dpicl_rag.corpora import Corpus

    Corpus.create("empty", embedder=data_folder.load_embedder(None)).close()
    result = cli("ask", "What is the code?", "--corpus", "empty", "--max-tokens", "3", "--json")
    assert result.exit_code == 0, result.output
    assert list(json.loads(result.stdout)) == ANSWER_FIELDS


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--epsilon", "0"], "epsilon"),
        (["--epsilon", "-1"], "epsilon"),
        (["--epsilon", "inf"], "epsilon"),
        (["--delta", "0"], "delta"),
        (["--delta", "1"], "delta"),
        (["--max-tokens", "0"], "max_tokens"),
        (["--threshold", "2"], "threshold"),
        (["--top-k", "2", "--accounting", "individual"], "individual"),
        (["--sample", "0"], "rate must"),
        (["--sample", "1.5"], "rate must"),
    ],
)
def test_a_bad_setting_is_one_line(cli, mail, words, told):
    result = cli("ask", "What is the code?", "--corpus", mail, *words)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert told in result.stderr


def test_an_unknown_corpus_names_those_there_are(cli, mail):
    result = cli("ask", "What?", "--corpus", "mial")
    assert result.exit_code == 1
    assert result.stderr.startswith("error: no corpus named 'mial'; there are: mail")


def test_settings_are_checked_before_the_model_is_loaded(cli, mail, monkeypatch):
    monkeypatch.setattr(
        "dpicl_rag.language_models.defaults.default_model", lambda: pytest.fail("loaded")
    )
    assert cli("ask", "What?", "--corpus", mail, "--epsilon", "0").exit_code == 1
    assert cli("ask", "What?", "--corpus", "mial").exit_code == 1


def test_a_question_longer_than_the_context(cli, mail, spending):
    result = cli("ask", "why " * 2000, "--corpus", mail)
    assert result.exit_code == 1
    assert result.stderr.startswith("error: ")
    assert "context" in result.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["--top-p", "0.9"],
        ["--temperature", "1"],
        ["--top-k", "2", "--threshold", "0.5"],
        ["--top-k", "2", "--units", "5"],
        ["--threshold", "0.5", "--units", "5"],
        ["--threshold", "0", "--private-top-k", "5"],
        ["--top-k", "2", "--private-top-k", "5"],
        ["--units", "5", "--private-top-k", "5"],
        ["--top-k", "0"],
        ["--private-top-k", "0"],
        ["--sample", "half"],
        ["--accounting", "none"],
    ],
)
def test_a_wrong_option_is_a_usage_error(cli, mail, words):
    result = cli("ask", "What?", "--corpus", mail, *words)
    assert result.exit_code == 2
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--top-k", "2", "--threshold", "0"], "give --threshold or --top-k, not both"),
        (
            ["--private-top-k", "2", "--units", "2"],
            "give --units or --private-top-k, not both",
        ),
        (["--shared", "--no-memory"], "give --shared or --no-memory, not both"),
        (["--shared", "--no-ledger"], "give --shared or --no-ledger, not both"),
    ],
)
def test_options_that_exclude_each_other_are_named(cli, mail, words, told):
    shown = cli("ask", "What?", "--corpus", mail, *words).stderr
    assert told in unwrapped(shown)


def test_one_label_is_a_usage_error(cli, mail):
    assert cli("classify", "What?", "--corpus", mail, "--label", "yes").exit_code == 2


def test_a_budget_that_cannot_pay_refuses_before_the_model_reads(cli, mail, monkeypatch):
    assert cli("budget", "set", "--corpus", mail, "--rho", "1e-6").exit_code == 0
    monkeypatch.setattr(TransformersModel, "read", lambda *_, **__: pytest.fail("read"))
    result = cli("ask", "What?", "--corpus", mail, "--accounting", "fixed")
    assert result.exit_code == 1
    assert result.stderr.startswith("error: the budget of corpus 'mail' cannot pay")


def test_a_budget_that_runs_out_midway_ends_the_answer(cli, mail, spending, endless):
    whole = epsilon_to_rho(8.0, 1e-5)
    assert cli("budget", "set", "--corpus", mail, "--rho", str(whole * 0.55)).exit_code == 0
    words = ("--accounting", "fixed", "--max-tokens", "8", "--json", *PLAIN)
    answer = json.loads(cli("ask", "What?", "--corpus", mail, *words).stdout)
    assert (answer["tokens"], answer["stopped_by"]) == (4, "budget")
    assert answer["rho"] == pytest.approx(whole / 2, rel=1e-6)
    assert spending(mail).spent == pytest.approx(whole / 2, rel=1e-6)


@pytest.fixture
def endless(monkeypatch, tiny_model):
    """No token ends an answer."""
    monkeypatch.setattr(tiny_model.tokenizer, "stop_tokens", frozenset())


@pytest.fixture
def drawn(monkeypatch, endless):
    """Tokens drawn so far, across all answers."""
    tokens = []

    def counted(*args, **kwargs):
        for token in decode(*args, **kwargs):
            tokens.append(token)
            yield token

    monkeypatch.setattr("dpicl_rag.answering.decoding.decode", counted)
    return tokens


def ask_of_twelve_tokens(cli, mail):
    words = ("--accounting", "fixed", "--max-tokens", "12", *PLAIN)
    return cli("ask", "What is the code?", "--corpus", mail, *words)


def assert_charged(status, tokens):
    paid = epsilon_to_rho(8.0, 1e-5) * tokens / 12
    assert status.spent == pytest.approx(paid, rel=1e-6)
    assert status.reserved == 0.0
    assert status.questions == 1


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_in_the_model_charges_what_was_released(cli, mail, monkeypatch, spending, drawn):
    extend = TransformersRows.extend

    def interrupted(self, token_ids):
        if len(drawn) == 3:
            signal.raise_signal(signal.SIGINT)
        return extend(self, token_ids)

    monkeypatch.setattr(TransformersRows, "extend", interrupted)
    result = ask_of_twelve_tokens(cli, mail)
    assert result.exit_code == 130
    assert result.stderr == "interrupted; what was released is paid for\n"
    assert_charged(spending(mail), 3)


@pytest.mark.parametrize(("stop", "status"), [(KeyboardInterrupt, 130), (BrokenPipeError, 1)])
def test_a_stop_while_printing_charges_what_was_released(
    cli, mail, monkeypatch, spending, drawn, stop, status
):
    def interrupted(text):
        if len(drawn) >= 2:
            raise stop

    monkeypatch.setattr(room.console, "write_piece", interrupted)
    result = ask_of_twelve_tokens(cli, mail)
    assert result.exit_code == status
    assert 2 <= len(drawn) < 12
    assert_charged(spending(mail), len(drawn))


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_while_documents_are_read_charges_nothing(cli, mail, monkeypatch, spending):
    def interrupted(*_, **__):
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(TransformersModel, "read", interrupted)
    assert ask_of_twelve_tokens(cli, mail).exit_code == 130
    assert (spending(mail).spent, spending(mail).reserved) == (0.0, 0.0)


def test_an_unexpected_error_tells_its_type_and_no_text(cli, mail, secret, monkeypatch):
    def fail(self, request, documents, **_):
        texts = [document.text for document in documents.retrieve(request.asked())]
        raise RuntimeError(f"cannot read {texts} {secret}")

    monkeypatch.setattr(PrivateContextLLM, "begin", fail)
    words = ("ask", "The code is", "--corpus", mail, "--threshold", "-1")
    plain = cli(*words)
    assert plain.exit_code == 1
    assert plain.output.startswith("internal error (RuntimeError); run with --debug")
    assert plain.output.count("\n") == 1
    debug = cli("--debug", *words)
    assert debug.exit_code == 1
    assert "in fail" in debug.output
    assert secret not in plain.output + debug.output


@pytest.mark.parametrize(
    ("name", "theirs"),
    [("utility", configuration.UtilityName), ("accounting", configuration.Accounting)],
)
def test_the_choices_are_those_of_the_library(name, theirs):
    mine = inspect.signature(room.ask).parameters[name].annotation
    optional = typing.get_args(mine)[0]
    assert set(typing.get_args(typing.get_args(optional)[0])) == set(typing.get_args(theirs))


def test_the_defaults_are_those_of_the_library():
    fields = configuration.PrivacyConfig.model_fields
    parameters = inspect.signature(room.ask).parameters
    for name in ("epsilon", "delta", "max_tokens", "unit_tokens"):
        option = typing.get_args(parameters[name].annotation)[1]
        assert (parameters[name].default, float(option.show_default)) == (
            None,
            fields[name].default,
        ), name
    units = typing.get_args(parameters["units"].annotation)[1]
    assert f"{fields['units'].default} by default" in units.help


@pytest.mark.usefixtures("endless")
def test_an_engine_that_stops_answering_is_one_line_after_the_answer(cli, mail, monkeypatch):
    monkeypatch.setattr(data_folder, "open_prefixes", lambda *_: None)

    def ask(calls, *words):
        engine = FailingEngine(build_tiny_model(), calls)
        engine.tokenizer.stop_tokens = frozenset()
        monkeypatch.setattr("dpicl_rag.language_models.defaults.default_model", lambda: engine)
        drawn = ("--max-tokens", "6", "--agreement", "auto")
        return cli("ask", "What is the code?", "--corpus", mail, *drawn, *words)

    assert ask(99, *PLAIN).exit_code == 0  # its calls rehearse the model
    result = ask(4, "--json", *PLAIN)
    answer = json.loads(result.stdout)
    assert (answer["tokens"], answer["stopped_by"]) == (2, "unavailable")
    assert result.exit_code == 1
    assert result.stderr == f"error: {EngineUnavailableError()}\n"
    result = ask(4, *PLAIN)
    assert result.exit_code == 1
    assert "2 tokens, stopped by unavailable" in result.stdout
    assert result.stderr == f"error: {EngineUnavailableError()}\n"
    assert ask(0, *PLAIN).exit_code == 1


def test_a_question_opens_its_corpus_once(cli, mail, endless, monkeypatch):
    opened = []
    right = data_folder.open_corpus

    def counted(*given):
        opened.append(given)
        return right(*given)

    monkeypatch.setattr(data_folder, "open_corpus", counted)
    result = cli("ask", "What is the code?", "--corpus", mail, "--max-tokens", "2", *PLAIN)
    assert result.exit_code == 0
    assert len(opened) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((" ", "--corpus", "mail"), "the question is empty"),
        (("What?", "--corpus", "mail", "--public", "absent"), "no corpus named 'absent'"),
        (("What?", "--corpus", "mail", "--public", "mail"), "private"),
        (("What?", "--corpus", "mail", "--max-tokens", "0"), "max_tokens"),
    ],
)
def test_a_plan_refuses_what_the_answer_refuses(cli, mail, words, said):
    for way in ((), ("--plan",)):
        refused = cli("ask", *words, *way)
        assert refused.exit_code == 1, refused.output
        assert said in refused.stderr


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("How many people write of a code?", "count"),
        ("What do people write about?", "survey"),
        ("Do people write about codes or about keys?", "tally"),
        ("What did Ada write?", "person"),
        ("What is the code?", "answer"),
    ],
)
def test_a_plan_says_what_is_done_before_anything_is_paid(cli, mail, question, kind):
    told = cli("ask", question, "--corpus", mail, "--plan", "--json")
    assert json.loads(told.stdout)["kind"] == kind
    assert told.stderr == ""
    (line,) = cli("ask", question, "--corpus", mail, "--plan").stderr.splitlines()
    assert line.startswith("about one person" if kind == "person" else f"{kind}: ")


def test_any_question_is_asked_by_one_command(cli, mail):
    found = cli("ask", "What do people write about?", "--corpus", mail, "--json")
    assert json.loads(found.stdout)["kind"] == "survey"
    assert json.loads(found.stdout)["rho"] == pytest.approx(epsilon_to_rho(8.0, 1e-5))
    free = cli("ask", "What did Ada write?", "--corpus", mail)
    assert free.stdout.startswith("That is about one person")
    assert free.stderr.startswith("about one person: no document is asked, and it is free")
    refused = cli("ask", "How many people write of a code?", "--corpus", mail, "--units", "3")
    assert refused.exit_code == 1
    assert "leave --units out" in refused.stderr
