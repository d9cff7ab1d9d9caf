"""Several ranks: merged by their slowest, and two that really run."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from genz_core.common.progress import Cancelled
from genz_core.errors import MeasurementError
from profilers.collect.distributed import merge, run_ranks, torchrun_argv
from profilers.collect.measured_model import RunSettings


def result(prefill: list[float], decode: list[float]) -> dict[str, Any]:
    return {
        "phases": {"prefill": prefill, "decode": decode},
        "device": "",
        "facts": {"backend": "gloo"},
        "collectives": [],
    }


def test_a_step_is_as_long_as_its_slowest_rank() -> None:
    run = merge([result([3.0], [1.0, 2.0]), result([2.0], [1.5, 1.0])], RunSettings("m"))
    phases = run.measurement.phases
    assert phases["prefill"].samples_s == (3.0,)
    assert phases["decode"].samples_s == (1.5, 2.0)
    assert run.measurement.facts["world_size"] == 2
    assert run.ranks[1]["decode"] == (1.5, 1.0)
    assert run.skew == pytest.approx(0.5)


def test_ranks_that_took_other_steps_are_refused() -> None:
    with pytest.raises(MeasurementError, match="different numbers of decode steps"):
        merge([result([1.0], [1.0]), result([1.0], [1.0, 2.0])], RunSettings("m"))


def test_torchrun_starts_the_ranks_without_a_shell(tmp_path) -> None:
    argv = torchrun_argv(tmp_path, 4)
    assert "--nproc-per-node=4" in argv and argv[-1] == str(tmp_path)


@pytest.mark.parametrize("ranks", [0, 65])
def test_senseless_numbers_of_ranks_are_refused(ranks: int) -> None:
    with pytest.raises(MeasurementError, match=f"{ranks} ranks"):
        run_ranks(RunSettings({"model_type": "llama"}), ranks)


@pytest.mark.slow
def test_two_ranks_share_a_model_on_this_cpu(tiny_llama: dict[str, Any]) -> None:
    settings = RunSettings(tiny_llama, batch=2, isl=16, osl=3, device="cpu", repeats=2)
    run = run_ranks(settings, 2, timeout_s=300)
    assert run.measurement.facts["backend"] == "gloo"
    assert len(run.ranks) == 2
    assert len(run.measurement.phases["decode"].samples_s) == 4
    assert {row["format"] for row in run.collectives} == {"gloo.all_reduce"}


@pytest.mark.slow
def test_ranks_that_are_cancelled_leave_no_process(tiny_llama: dict[str, Any]) -> None:
    settings = RunSettings(tiny_llama, isl=8, osl=100, device="cpu", repeats=10_000)
    seen: set[str] = set()

    def stop_once_they_run() -> bool:
        seen.update(ranks_running())
        return bool(seen)

    with pytest.raises(Cancelled):
        run_ranks(settings, 2, 300, stop_once_they_run)
    deadline = time.monotonic() + 60
    while seen & ranks_running() and time.monotonic() < deadline:
        # a rank that torchrun was just starting ends when it finds no other to join
        time.sleep(0.2)
    assert seen and not seen & ranks_running()


def ranks_running() -> set[str]:
    """The folders of the ranks that run on this machine."""
    found = set()
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = process.read_bytes().decode().split("\0")
        except OSError:
            continue
        if "profilers.collect.rank" in words and "torch.distributed.run" not in words:
            found.add(words[words.index("profilers.collect.rank") + 1])
    return found


@pytest.mark.slow
def test_heads_that_do_not_divide_end_in_one_sentence(tiny_llama: dict[str, Any]) -> None:
    settings = RunSettings(tiny_llama, isl=8, osl=2, device="cpu", repeats=1)
    with pytest.raises(MeasurementError, match="num_attention_heads 4 does not divide by 3"):
        run_ranks(settings, 3, timeout_s=300)


def test_one_rank_leaves_the_model_as_it_is(tiny_llama: dict[str, Any]) -> None:
    from profilers.collect.measured_model import build, pick_device
    from profilers.collect.rank import split_over_ranks

    model, _ = build(RunSettings(tiny_llama), pick_device("cpu"))
    before = {name: tuple(p.shape) for name, p in model.named_parameters()}
    split_over_ranks(model, 1, "cpu")
    assert {name: tuple(p.shape) for name, p in model.named_parameters()} == before
