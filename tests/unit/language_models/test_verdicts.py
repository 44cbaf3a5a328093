import torch

from dpicl_rag.language_models.hardware import faster_dtype, machine
from dpicl_rag.language_models.verdicts import Verdicts


def attempts(*answers):
    """Gives these answers, one a call."""
    left = list(answers)
    return left, lambda: left.pop(0)


def test_it_is_tried_once(tmp_path):
    for verdicts in (Verdicts(), Verdicts(tmp_path)):
        left, attempt = attempts(True, False)
        assert verdicts.holds("a", attempt)
        assert verdicts.holds("a", attempt)
        assert not verdicts.holds("b", attempt)
        assert left == []


def test_what_holds_outlives_the_process_and_what_does_not_is_tried_again(tmp_path):
    folder = tmp_path / "verdicts"
    _, attempt = attempts(True, False)
    first = Verdicts(folder)
    first.holds("good", attempt)
    first.holds("bad", attempt)
    left, attempt = attempts(True)
    second = Verdicts(folder)
    assert second.holds("good", attempt)
    assert second.holds("bad", attempt)
    assert left == []
    assert all("good" not in file.name for file in folder.iterdir())


def test_a_folder_that_cannot_be_written_costs_time_only(tmp_path):
    (tmp_path / "file").touch()
    assert Verdicts(tmp_path / "file" / "folder").holds("a", lambda: True)


def test_threads_are_a_part_of_the_machine():
    before = torch.get_num_threads()
    one = machine(torch.device("cpu"))
    try:
        torch.set_num_threads(before + 1)
        assert machine(torch.device("cpu")) != one
    finally:
        torch.set_num_threads(before)
    assert machine(torch.device("cpu")) == one


def test_16_bits_where_the_processor_has_them(monkeypatch):
    for amx, expected in ((True, torch.bfloat16), (False, torch.float32)):
        monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda amx=amx: amx)
        monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)
        assert faster_dtype(torch.device("cpu")) == expected
