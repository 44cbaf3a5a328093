import platform
import threading
import time

import pytest
import torch

from dpicl_rag.language_models import hardware
from dpicl_rag.language_models.hardware import ProbeResults, faster_dtype, machine

CPU = torch.device("cpu")


def attempts(*answers):
    """Gives these answers, one a call."""
    left = list(answers)
    return left, lambda: left.pop(0)


def test_it_is_tried_once(tmp_path):
    for probe_results in (ProbeResults(), ProbeResults(tmp_path)):
        left, attempt = attempts(True, False)
        assert probe_results.holds("a", attempt)
        assert probe_results.holds("a", attempt)
        assert not probe_results.holds("b", attempt)
        assert left == []


def test_what_holds_outlives_the_process_and_what_does_not_is_tried_again(tmp_path):
    folder = tmp_path / "verdicts"
    _, attempt = attempts(True, False)
    first = ProbeResults(folder)
    first.holds("good", attempt)
    first.holds("bad", attempt)
    left, attempt = attempts(True)
    second = ProbeResults(folder)
    assert second.holds("good", attempt)
    assert second.holds("bad", attempt)
    assert left == []
    assert all("good" not in file.name for file in folder.iterdir())


def test_a_folder_that_cannot_be_written_costs_time_only(tmp_path):
    (tmp_path / "file").touch()
    assert ProbeResults(tmp_path / "file" / "folder").holds("a", lambda: True)


def test_sizes_outlive_the_process_and_damaged_ones_are_found_again(tmp_path):
    among = 256, 64, 128
    left, attempt = attempts((64, 256), (64, 128, 256))
    assert ProbeResults(tmp_path).sizes("a", attempt, among) == (64, 256)
    assert ProbeResults(tmp_path).sizes("a", attempt, among) == (64, 256)
    assert len(left) == 1
    [file] = tmp_path.iterdir()
    for damaged in ("64 25", "", "64", "x", "64 256 512"):
        file.write_text(damaged, "ascii")
        left, attempt = attempts((64, 128, 256))
        assert ProbeResults(tmp_path).sizes("a", attempt, among) == (64, 128, 256)
        assert not left
    for kept in (ProbeResults(), ProbeResults(file / "folder")):
        assert kept.sizes("a", lambda: (256,), among) == (256,)


def test_threads_are_a_part_of_the_machine():
    before = torch.get_num_threads()
    one = machine(torch.device("cpu"))
    try:
        torch.set_num_threads(before + 1)
        assert machine(torch.device("cpu")) != one
    finally:
        torch.set_num_threads(before)
    assert machine(torch.device("cpu")) == one


@pytest.mark.parametrize(
    ("switch", "on", "off"),
    [
        (torch.set_float32_matmul_precision, "medium", "highest"),
        (torch.use_deterministic_algorithms, True, False),
        (torch.backends.mkldnn.set_flags, False, True),
        (torch.set_flush_denormal, True, False),
    ],
    ids=["precision", "deterministic", "oneDNN", "smallest numbers"],
)
def test_switches_of_torch_are_a_part_of_the_machine(switch, on, off):
    switch(off)
    one = machine(CPU)
    try:
        switch(on)
        assert machine(CPU) != one
    finally:
        switch(off)
    assert machine(CPU) == one


def test_the_processor_is_known_by_what_it_is(tmp_path, monkeypatch):
    listing = tmp_path / "cpuinfo"

    def listed(model, flags, clock):
        listing.write_text(
            f"processor\t: 0\nmodel name\t: {model}\ncpu MHz\t: {clock}\nflags\t: {flags}\n\n"
            "processor\t: 1\nmodel name\t: another\n"
        )
        return list(hardware._processor(listing))

    found = listed("Xeon", "fma mmx avx2 new_bug", 2600)
    assert found == ["model name: Xeon", "flags: avx2 fma"]
    assert listed("Xeon", "avx2 fma", 900) == found
    assert listed("EPYC", "avx2 fma", 2600) != found
    assert listed("Xeon", "avx2 fma avx512f", 2600) != found
    assert list(hardware._processor(tmp_path / "none")) != found


def test_a_container_of_another_name_is_the_same_machine(monkeypatch):
    one = machine(CPU)
    hardware.processor.cache_clear()
    monkeypatch.setattr(platform, "node", lambda: "another")
    assert machine(CPU) == one


@pytest.mark.parametrize(
    ("variable", "moves"),
    [
        ("MKL_CBWR=COMPATIBLE", True),
        ("ATEN_CPU_CAPABILITY=avx2", True),
        ("ONEDNN_MAX_CPU_ISA=AVX2", True),
        ("OMP_WAIT_POLICY=passive", False),
        ("OMP_NUM_THREADS=7", False),
    ],
)
def test_modes_of_libraries_are_a_part_of_the_machine(variable, moves):
    assert hardware.is_mode(variable.split("=")[0]) == moves


def test_one_thread_tries_while_others_wait():
    probe_results, tries = ProbeResults(), []

    def attempt():
        tries.append(1)
        time.sleep(0.05)
        return True

    threads = [threading.Thread(target=probe_results.holds, args=("a", attempt)) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(tries) == 1


def test_16_bits_where_the_processor_has_them(monkeypatch):
    for amx, expected in ((True, torch.bfloat16), (False, torch.float32)):
        monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda amx=amx: amx)
        monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: False)
        assert faster_dtype(torch.device("cpu")) == expected
