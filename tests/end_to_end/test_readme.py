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
