"""The README's example is run as it stands there."""

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"


def blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.model
def test_the_first_example_runs_and_prints_an_answer(capsys):
    names: dict[str, object] = {}
    exec(blocks()[0], names)
    answer = names["answer"]
    assert capsys.readouterr().out.strip().endswith(("end", "length"))
    assert answer.epsilon == 8
    assert 1 <= answer.tokens <= 16


def test_every_example_is_python():
    for block in blocks():
        compile(block, str(README), "exec")


def test_the_two_commands_are_make_targets():
    makefile = (README.parent / "Makefile").read_text(encoding="utf-8")
    for command in ("demo", "test", "check"):
        assert f"make {command}" in README.read_text(encoding="utf-8")
        assert f"\n{command}:" in makefile


@pytest.mark.parametrize("guide", ["langchain.md", "llama_index.md"])
def test_the_framework_sections_are_those_that_the_guides_tests_run(guide):
    """The guides' first example, diff and table are run by tests/integrations."""
    text = (README.parent / "docs" / guide).read_text(encoding="utf-8")
    readme = README.read_text(encoding="utf-8")
    example = re.search(r"^```python\n.*?^```$", text, re.M | re.S)
    diff = re.search(r"^```diff\n.*?^```$", text, re.M | re.S)
    table = re.search(r"^## What \w+ tells by itself\n.*?(\|.*?)\n\n## ", text, re.M | re.S)
    assert example[0] in readme
    assert diff[0] in readme
    assert table[1] in readme
