"""What every door gives back is what it gave: bodies, events, refusals, tools, metadata, JSON.

``responses/`` has it to be read, a file for each door, without times, ids and paths. What changes
on purpose is written anew by ``python -m tests.integrations.test_responses_of_every_door`` and
stands in the CHANGELOG. Of schemas a digest is kept for each path, and for each field.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integrations import responses_of_commands as commands
from tests.integrations import responses_of_frameworks as frameworks
from tests.integrations import responses_of_server as server
from tests.integrations.installation import BUDGET, Case, an_installation, kept

FOLDER = Path(__file__).with_name("responses")
WIDTH = 160
"""Of a line of a recorded response."""

DOORS: dict[str, dict[str, Case]] = {
    "server": server.SERVER,
    "tools": server.TOOLS,
    "openapi": {"schema": server.openapi},
    "commands": commands.COMMAND_LINE,
    "frameworks": frameworks.FRAMEWORKS,
    "server_budget_spent": server.POOR,
    "commands_budget_spent": commands.POOR,
}
CASES = [(door, name) for door, cases in DOORS.items() for name in cases]


def given_back(door: str, name: str) -> Any:
    """What a case gives back, as it is kept."""
    with an_installation(budget=1e-4 if "spent" in door else BUDGET) as installed:
        return kept(DOORS[door][name](installed), installed.folder)


def recorded(door: str) -> dict[str, Any]:
    return json.loads((FOLDER / f"{door}.json").read_text(encoding="utf-8"))


def laid_out(value: Any, behind: int = 0) -> str:
    """JSON whose parts are on a line of their own where they are short."""
    line = json.dumps(value, ensure_ascii=False)
    if len(line) + behind <= WIDTH or not isinstance(value, dict | list):
        return line
    if isinstance(value, list):
        parts, (begin, end) = [laid_out(one, behind + 1) for one in value], "[]"
    else:
        names = {f"{json.dumps(name)}: ": one for name, one in value.items()}
        parts, (begin, end) = (
            [name + laid_out(one, behind + 1) for name, one in names.items()],
            "{}",
        )
    inner = ",\n".join(f"{' ' * (behind + 1)}{part}" for part in parts)
    return f"{begin}\n{inner}\n{' ' * behind}{end}"


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("door", "name"), CASES, ids=[f"{door} {name}" for door, name in CASES])
def test_a_door_gives_back_what_it_gave(door, name):
    assert given_back(door, name) == recorded(door)[name]


def test_nothing_else_is_recorded():
    assert {file.stem for file in FOLDER.iterdir()} == DOORS.keys()
    assert {door: [*recorded(door)] for door in DOORS} == {door: [*DOORS[door]] for door in DOORS}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for each in DOORS:
        everything = {case: given_back(each, case) for case in DOORS[each]}
        text = laid_out(everything)
        (FOLDER / f"{each}.json").write_text(f"{text}\n", encoding="utf-8")
