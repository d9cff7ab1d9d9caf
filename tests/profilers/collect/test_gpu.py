"""Tests that need a GPU: power samples, phases in an nsys export, counters of ncu, NCCL ranks.

Run with `pytest -m gpu tests/profilers/collect/test_gpu.py` on a machine with an NVIDIA GPU; tests
whose tool or second GPU is missing are skipped.  By hand: docs/gpu-tests.md.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import hardware_db
import profilers
from profilers.collect import nsight, nsight_runner
from profilers.collect.distributed import run_ranks
from profilers.collect.doctor import find_tool
from profilers.collect.measured_model import RunSettings
from profilers.collect.model import run_model
from profilers.collect.top_kernels import ncu_commands, top_kernels
from profilers.operators.operator_rates import operator_rates, share_of_roof

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def gpu() -> Any:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    return torch


@pytest.fixture
def llama(tiny_llama: dict[str, Any]) -> dict[str, Any]:
    """Large enough for its products to load a GPU, small enough to build in a second."""
    return tiny_llama | {
        "hidden_size": 2048, "intermediate_size": 8192, "num_attention_heads": 16,
        "num_key_value_heads": 8, "max_position_embeddings": 4096,
    }  # fmt: skip


@pytest.fixture
def settings(llama: dict[str, Any]) -> RunSettings:
    return RunSettings(llama, batch=4, isl=1024, osl=32, device="cuda", warmup=1, repeats=3)


def device_of(run: Any) -> Any:
    """The system by the driver's name for the device."""
    return hardware_db.load(run.measurement.system.name)


def test_power_clocks_and_memory_are_sampled_while_the_model_runs(settings: RunSettings) -> None:
    run = run_model(settings)
    assert run.use is not None, "NVML sees the GPU"
    figures = run.use.summary()
    assert 10.0 < figures["power_w_mean"] <= figures["power_w_max"]
    limit_w = device_of(run).tdp_w
    assert limit_w is None or figures["power_w_max"] < 1.3 * limit_w
    assert figures["memory_bytes_max"] > 2.0 * run.parameters


def test_prefill_reaches_no_more_than_the_peak(settings: RunSettings) -> None:
    run = run_model(settings)
    tokens = settings.batch * settings.isl
    seconds = run.measurement.phases["prefill"].median_s
    utilisation = 2.0 * run.parameters * tokens / seconds / device_of(run).peak("bf16")
    assert 0.02 < utilisation <= 1.0


def test_operators_of_the_run_keep_below_the_roofs(settings: RunSettings, tmp_path: Path) -> None:
    trace = tmp_path / "trace.json.gz"
    run = run_model(replace(settings, trace_path=str(trace)))
    report = profilers.read_report(trace)
    rates = operator_rates(report)
    products = rates[(rates["operator_class"] == "gemm") & (rates["mean_s"] > 20e-6)]
    system = device_of(run)
    share = share_of_roof(products, system.memory_bytes_per_s, system.peak_flops_per_s)
    assert len(products) and (share <= 1.05).all()
    assert {"prefill", "decode"} <= set(report.kernels["phase"].dropna())


def _work(config: dict[str, Any], folder: Path) -> list[str]:
    path = folder / "config.json"
    path.write_text(json.dumps(config))
    sizes = ["--batch", "2", "--isl", "256", "--osl", "8", "--repeats", "1", "--warmup", "1"]
    return nsight.work_argv([str(path), *sizes, "--device", "cuda"])


@pytest.mark.skipif(find_tool("nsys") is None, reason="no nsys")
def test_an_nsys_export_of_a_run_holds_its_phases_and_modules(
    llama: dict[str, Any], tmp_path: Path
) -> None:
    argv = nsight.build_nsys_cmd(tmp_path / "run", _work(llama, tmp_path))
    captured = nsight_runner.run_nsys(argv, tmp_path / "logs")
    report = profilers.read_report(captured.report)
    kernels = report.kernels
    assert {"prefill", "decode"} <= set(kernels["phase"].dropna())
    paths = set(kernels["nvtx_path"].dropna().astype(str))
    assert any(path.endswith("q_proj") for path in paths)
    assert hardware_db.load(report.devices[0].name).kind == "gpu"


@pytest.mark.skipif(find_tool("ncu") is None, reason="no ncu")
def test_ncu_counts_the_longest_kernels_of_a_run(
    settings: RunSettings, llama: dict[str, Any], tmp_path: Path
) -> None:
    trace = tmp_path / "trace.json.gz"
    run_model(replace(settings, trace_path=str(trace)))
    longest = top_kernels(profilers.read_report(trace).kernels, 2)
    commands = ncu_commands(longest, tmp_path / "ncu", _work(llama, tmp_path))
    folder = Path(commands[0][commands[0].index("-o") + 1]).parent
    captured = nsight_runner.run_ncu(commands[0], folder)
    kernels = profilers.read_report(captured.report).kernels
    assert len(kernels) and (kernels["dram_bytes"] > 0).any()
    assert (kernels["compute_pct"].dropna() <= 100.0).all()


def test_two_ranks_talk_by_nccl(gpu: Any, llama: dict[str, Any]) -> None:
    if gpu.cuda.device_count() < 2:
        pytest.skip("one GPU")
    settings = RunSettings(llama, batch=2, isl=256, osl=4, device="cuda", repeats=2)
    run = run_ranks(settings, 2, timeout_s=600)
    assert run.measurement.facts["backend"] == "nccl"
    assert len(run.ranks) == 2
    assert {row["format"] for row in run.collectives} == {"nccl.all_reduce"}
