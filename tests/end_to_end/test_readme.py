"""The README is short, its examples are run, and the guides' tests run those of the frameworks."""

import mailbox
import re
from contextlib import closing
from email.message import EmailMessage
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
GUIDES = ("langchain.md", "llama_index.md")


def examples(text: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)


def first_example(guide: str) -> str:
    """The one that tests/integrations runs, as a demo."""
    return examples((ROOT / "docs" / guide).read_text(encoding="utf-8"))[0]


@pytest.mark.guard
@pytest.mark.heavy
@pytest.mark.usefixtures("default_model")  # where it was loaded and rehearsed already
def test_the_first_example_runs_and_prints_an_answer(capsys):
    names: dict[str, object] = {}
    exec(examples(TEXT)[0], names)
    answer = names["answer"]
    assert capsys.readouterr().out.strip().endswith(("end", "length"))
    assert answer.epsilon == 8
    assert 1 <= answer.tokens <= 16


@pytest.mark.guard
@pytest.mark.heavy
@pytest.mark.usefixtures("default_model")  # where it was loaded and rehearsed already
def test_the_second_example_answers_from_a_mailbox(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    with closing(mailbox.mbox("inbox.mbox")) as inbox:
        for name in ("Ada", "Bo", "Cleo", "Dov", "Elif", "Finn", "Gus", "Hana"):
            mail = EmailMessage()
            mail["From"], mail["To"] = f"{name}@example.org", "team@example.org"
            mail["Subject"] = f"Warehouse, says {name}"
            mail["Message-ID"] = f"<{name}@example.org>"
            mail.set_content("The warehouse opens at half past six in the morning.")
            inbox.add(mail)
    names: dict[str, object] = {}
    exec(examples(TEXT)[1], names)
    assert capsys.readouterr().out.strip()
    [status] = names["ledger"].status()
    assert status.name == "mail"
    assert 0 < status.spent <= 5.0
    names["ledger"].close()
    names["corpus"].close()


@pytest.mark.heavy
@pytest.mark.usefixtures("default_model")
@pytest.mark.parametrize("name", ["langchain_dpicl_rag", "llama_index_dpicl_rag"])
def test_the_example_of_an_adapter_answers(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    [example] = examples((ROOT / "integrations" / name / "README.md").read_text("utf-8"))
    exec(example, {})
    assert "Kelp Street" in capsys.readouterr().out


def test_every_example_is_python():
    for example in examples(TEXT):
        compile(example, "README.md", "exec")


def test_it_is_read_in_three_minutes():
    assert len(TEXT.splitlines()) <= 150


def test_prose_has_at_most_100_columns():
    prose = re.sub(r"^```.*?^```$", "", TEXT, flags=re.M | re.S)
    assert [line for line in prose.splitlines() if len(line) > 100] == []


def test_the_commands_are_make_targets():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for command in ("demo", "test"):
        assert f"make {command}" in TEXT
        assert f"\n{command}:" in makefile


@pytest.mark.parametrize("guide", GUIDES)
def test_the_framework_examples_are_those_that_the_guides_tests_run(guide):
    assert first_example(guide) in examples(TEXT)


def test_tables_and_diffs_stand_in_the_guides_alone():
    assert "```diff" not in TEXT
    assert not re.search(r"^\|", TEXT, re.M)


def test_every_link_leads_to_a_file():
    links = re.findall(r"\]\(([^)#]+)", TEXT)
    guides = {f"docs/{name}" for name in ("privacy.md", "methods.md", *GUIDES)}
    others = {"benchmarks/README.md", "CONTRIBUTING.md", "CHANGELOG.md"}
    assert guides | others <= set(links)
    assert [link for link in links if not (ROOT / link).is_file()] == []
