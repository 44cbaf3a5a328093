"""Folders of runs, whatever is evaluated in them."""

from __future__ import annotations

import pytest

from dpicl_rag.errors import ConfigurationError
from dpicl_research.run_folder import Results, going_on, read_lines, read_settings

SETTINGS = {"queries": 2, "seeds": 3, "tasks": {"a": "1"}}


def settle(folder, **changes):
    with going_on(folder, {**SETTINGS, **changes}, free="seeds"):
        pass
    return read_settings(folder)


def test_a_run_goes_on_with_more_seeds_and_more_tasks(tmp_path):
    assert settle(tmp_path / "run") == SETTINGS
    grown = settle(tmp_path / "run", seeds=4, tasks={"b": "2"})
    assert grown == {**SETTINGS, "seeds": 4, "tasks": {"a": "1", "b": "2"}}
    with pytest.raises(ConfigurationError, match=r"other settings \(queries, a\)"):
        settle(tmp_path / "run", queries=1, tasks={"a": "other", "b": "2"})
    assert read_settings(tmp_path / "run") == grown


def test_places_with_a_result_are_left_out(tmp_path):
    file, told = tmp_path / "results.jsonl", []
    wanted = [(seed, query) for seed in range(2) for query in range(2)]
    first = Results(file, "seed", "query")
    for place in first.missing(wanted, lambda *at: told.append(at)):
        first.add(place, {"found": sum(place)})
        if len(told) == 2:
            break
    assert told == [(0, 4), (1, 4)]
    file.write_text(file.read_text() + '{"seed": 1, "qu')  # the run was killed in this line
    again = Results(file, "seed", "query")
    assert list(again.missing(wanted, None)) == [(1, 0), (1, 1)]
    again.add((1, 0), {"found": 1})
    assert [line["found"] for line in read_lines(file)] == [0, 1, 1]


@pytest.mark.parametrize("content", ["{", "[1]", "7", ""])
def test_a_damaged_folder_is_an_error_that_names_the_file(tmp_path, content):
    settle(tmp_path)
    (tmp_path / "settings.json").write_text(content)
    with pytest.raises(ConfigurationError, match=r"settings\.json cannot be read"):
        settle(tmp_path)
    (tmp_path / "results.jsonl").write_text('{"seed": 1}\n{"see\n')
    with pytest.raises(ConfigurationError, match="line 2: damaged"):
        Results(tmp_path / "results.jsonl", "seed")
    (tmp_path / "settings.json").unlink()
    with pytest.raises(ConfigurationError, match=r"results without their settings\.json"):
        settle(tmp_path)
