import json
import shutil
import stat
from dataclasses import replace

import pytest

from dpicl_rag.errors import ConfigurationError
from dpicl_rag.synthesis.synthesis_run import Drawn, SynthesisPlan, open_run, read_run

PLAN = SynthesisPlan({"topics": 3, "template": ["a", "b"]}, {"keys": 0.1, "text": 0.9})


def write_two(folder):
    with open_run(folder, PLAN) as run:
        run.released("keys", lambda: {"fever": 31})
        for record, tokens in ((0, (7, 8)), (4, (9,))):
            run.begin(record)
            for token in tokens:
                run.add(record, token)
            run.close(record, "end")
    return {0: Drawn((7, 8), "end"), 4: Drawn((9,), "end")}


def test_a_run_is_read_back(tmp_path):
    drawn = write_two(tmp_path / "run")
    kept = read_run(tmp_path / "run")
    assert kept.records == drawn
    assert kept.released == {"keys": {"fever": 31}}
    assert (kept.settings, kept.charges) == (
        {"topics": 3, "template": ["a", "b"]},
        dict(PLAN.charges),
    )


def refused(folder, begin=lambda run: None, error=ConfigurationError):
    def write():
        with open_run(folder, PLAN) as run:
            begin(run)
            raise error

    with pytest.raises(error):
        write()


@pytest.mark.parametrize(
    "begin",
    [lambda run: run.begin(0), lambda run: run.released("keys", dict)],
    ids=["text", "keys"],
)
def test_what_is_refused_before_anything_is_drawn_leaves_no_folder(tmp_path, begin):
    run = tmp_path / "runs" / "run"
    refused(run)
    assert not (tmp_path / "runs").exists()
    refused(run, begin)
    # What was drawn stays, whatever is refused later.
    before = sorted(file.name for file in run.iterdir())
    assert len(before) > 2
    refused(run)
    assert sorted(file.name for file in run.iterdir()) == before


def test_an_interrupted_run_keeps_its_folder(tmp_path):
    refused(tmp_path / "run", error=KeyboardInterrupt)
    assert (tmp_path / "run" / "plan.json").exists()


def test_released_numbers_are_drawn_once(tmp_path):
    for _ in range(2):
        write_two(tmp_path / "once") if not (tmp_path / "once").exists() else None
    with open_run(tmp_path / "once", PLAN) as run:
        assert run.released("keys", lambda: pytest.fail("drawn again")) == {"fever": 31}


def test_a_cut_within_or_behind_any_line_loses_no_whole_one_and_the_run_goes_on(tmp_path):
    drawn = write_two(tmp_path / "run")
    journal = (tmp_path / "run" / "journal.jsonl").read_bytes()
    ends = [at + 1 for at, byte in enumerate(journal) if byte == ord("\n")]
    for cut in sorted({0, *(end + by for end in ends for by in (-9, -1, 0)), *ends[:-1]}):
        folder = tmp_path / f"cut-{cut}"
        shutil.copytree(tmp_path / "run", folder)
        (folder / "journal.jsonl").write_bytes(journal[:cut])
        with open_run(folder, PLAN) as run:
            found = run.records
            for number, record in found.items():
                assert record.stopped_by in ("end", "interrupted")
                assert record.tokens == drawn[number].tokens[: len(record.tokens)]
                with pytest.raises(ConfigurationError, match="drawn once"):
                    run.begin(number)
            whole = journal[:cut].count(b'"token"') - (not journal[:cut].endswith(b"\n"))
            assert sum(len(record.tokens) for record in found.values()) >= whole
            run.begin(9)
            run.add(9, 1)
        # The lock is free and the line that was added is whole.
        with open_run(folder, PLAN) as run:
            assert run.records == {**found, 9: Drawn((1,), "interrupted")}
        assert read_run(folder).records == {**found, 9: Drawn((1,), "interrupted")}
        shutil.rmtree(folder)


def test_a_torn_last_line_is_dropped_and_damage_elsewhere_is_refused(tmp_path):
    write_two(tmp_path / "run")
    journal = tmp_path / "run" / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:-1]) + b"\x00\x00\n")
    with open_run(tmp_path / "run", PLAN) as run:
        assert run.records[4] == Drawn((9,), "interrupted")
    journal.write_bytes(b"".join([*lines[:2], b"{]\n", *lines[3:]]))
    with (
        pytest.raises(ConfigurationError, match="line 3: damaged"),
        open_run(tmp_path / "run", PLAN),
    ):
        pass


def test_another_plan_is_refused(tmp_path):
    write_two(tmp_path / "run")
    for other in (
        replace(PLAN, settings={**PLAN.settings, "topics": 4}),
        replace(PLAN, charges={"keys": 0.2, "text": 0.9}),
    ):
        with (
            pytest.raises(ConfigurationError, match="holds another plan"),
            open_run(tmp_path / "run", other),
        ):
            pass


def test_a_plan_that_was_changed_by_hand_is_refused(tmp_path):
    write_two(tmp_path / "run")
    file = tmp_path / "run" / "plan.json"
    plan = json.loads(file.read_text())
    file.write_text(json.dumps({**plan, "charges": {"keys": 0.0}}))
    with pytest.raises(ConfigurationError, match=r"plan.json is damaged"):
        read_run(tmp_path / "run")


def test_only_one_process_runs_in_a_folder(tmp_path):
    with (
        open_run(tmp_path / "run", PLAN),
        pytest.raises(ConfigurationError, match="another synthesis is running"),
        open_run(tmp_path / "run", PLAN),
    ):
        pass


def test_the_key_is_its_owners_stays_and_is_missed(tmp_path):
    write_two(tmp_path / "run")
    file = tmp_path / "run" / "run.key"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with open_run(tmp_path / "run", PLAN) as run:
        assert run.key == file.read_bytes()
    file.unlink()
    with pytest.raises(ConfigurationError, match="missing"), open_run(tmp_path / "run", PLAN):
        pass


def test_a_folder_without_a_run_says_so(tmp_path):
    with pytest.raises(ConfigurationError, match="holds no run"):
        read_run(tmp_path)


def test_without_a_folder_nothing_is_kept():
    with open_run(None, PLAN) as run:
        run.begin(0)
        run.add(0, 5)
        run.close(0, "length")
        assert run.records == {0: Drawn((5,), "length")}
        assert len(run.key) == 32
